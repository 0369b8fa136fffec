"""What a search may choose: axes with their values, and the recipe that a choice on each makes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise

from colibri.boards.words import nearest
from colibri.errors import UsageError, shown
from colibri.graph.graph import Graph, ModelKind, Op, StateType, TensorClass
from colibri.graph.ops import Experts, Linear
from colibri.graph.scheme import Scheme
from colibri.graph.weights import Vector

# The widest first. Activations are a matter of their own.
CODINGS = ("w8", "w6", "w5", "w4", "w4g64", "w4g128", "w3+o5", "w3", "w3g64", "w2")
_MOST_BANDS = 8  # of neighbouring layers, whose experts are treated alike
_MOST_DROPS = 8  # values of an axis of dropped experts

Point = tuple[int, ...]
"""For each axis the number of its value."""


class Kind(StrEnum):
    """What an axis decides."""

    CODING = "coding"
    ACTIVATIONS = "activations"
    KV = "kv"
    DROPPED = "dropped"


@dataclass(frozen=True)
class Axis:
    """One thing that is chosen.

    Attributes:
        name: for people and for ``--only``.
        values: words; the first loses least.
        selectors: of rules, for a coding.
        layers: for dropped experts: so many are left out in each.
    """

    name: str
    kind: Kind
    values: tuple[str, ...]
    selectors: tuple[str, ...] = ()
    layers: tuple[int, ...] = ()


@dataclass(frozen=True)
class Space:
    """All choices.

    Attributes:
        worst_first: for each layer its experts in the order in which they go.
    """

    axes: tuple[Axis, ...]
    worst_first: Mapping[int, Sequence[int]]

    @property
    def widest(self) -> Point:
        """The point that loses least."""
        return (0,) * len(self.axes)

    @property
    def smallest(self) -> Point:
        """The point that takes least."""
        return tuple(len(axis.values) - 1 for axis in self.axes)

    @property
    def count(self) -> int:
        """How many points there are."""
        total = 1
        for axis in self.axes:
            total *= len(axis.values)
        return total

    def moves(self, point: Point) -> Iterator[Point]:
        """The points one step away."""
        for index, axis in enumerate(self.axes):
            for step in (-1, 1):
                if 0 <= point[index] + step < len(axis.values):
                    yield moved(point, index, point[index] + step)

    def value(self, point: Point, index: int) -> str:
        """The word that a point has on an axis."""
        return self.axes[index].values[point[index]]

    def dropped(self, point: Point) -> dict[int, list[int]]:
        """Layer to the experts that a point leaves out."""
        drops: dict[int, list[int]] = {}
        for index, axis in enumerate(self.axes):
            count = int(self.value(point, index)) if axis.kind is Kind.DROPPED else 0
            for layer in axis.layers if count else ():
                drops[layer] = sorted(self.worst_first[layer][:count])
        return drops

    def recipe(self, point: Point, **more: int | None) -> str:
        """The recipe in a word.

        Args:
            more: ``context`` and ``prefill``, as the word takes them; None leaves one out.
        """
        bits, kv = "", ""
        for index, axis in enumerate(self.axes):
            if axis.kind is Kind.ACTIVATIONS:
                bits = self.value(point, index)
            elif axis.kind is Kind.KV:
                kv = self.value(point, index)
        schemes: dict[str, str] = {}
        for index, axis in enumerate(self.axes):
            if axis.kind is Kind.CODING:
                schemes |= dict.fromkeys(axis.selectors, scheme(self.value(point, index), bits))
        used = list(schemes.values())
        base = max(dict.fromkeys(used), key=used.count)
        parts = [base, *(f"{selector}={own}" for selector, own in schemes.items() if own != base)]
        parts += [f"kv={kv}"] if kv and kv != StateType.F32 else []
        parts += [f"{key}={value}" for key, value in more.items() if value is not None]
        drops = [f"{layer}.{expert}" for layer, ids in sorted(self.dropped(point).items()) for expert in ids]
        return ":".join([*parts, *([f"drop={','.join(drops)}"] if drops else [])])


def moved(point: Point, index: int, value: int) -> Point:
    """The point with another value on one axis."""
    return (*point[:index], value, *point[index + 1 :])


def scheme(coding: str, bits: str) -> str:
    """
    >>> scheme("w3g64+o5", "a8"), scheme("f16", "a8")
    ('w3g64a8+o5', 'f16')
    """
    if coding.startswith("f"):
        return coding
    weights, plus, outliers = coding.partition("+")
    return f"{weights}{bits}{plus}{outliers}"


def make_space(graph: Graph) -> Space:
    """The space of a model in fp32.

    Experts have a coding for each layer, or for each band of neighbouring ones where there are many layers; each other
    class of matrices has one. What stays fp32 unless a rule names it is left so. Experts go in the order of their
    numbers, as long as nobody knows better.
    """
    axes: list[Axis] = []
    mixtures = [op for op in graph.ops if isinstance(op, Experts) and op.layer is not None]
    worst_first = {op.layer or 0: [expert.id for expert in op.kept] for op in mixtures}
    for name, classes in _classes(graph):
        if classes == (TensorClass.EXPERTS,):
            for band in _bands(sorted(worst_first)):
                selectors = tuple(f"{layer}.experts" for layer in band)
                axes.append(Axis(f"{_span(band)}.experts", Kind.CODING, CODINGS, selectors))
        else:
            axes.append(Axis(name, Kind.CODING, CODINGS, tuple(map(str, classes))))
    axes.append(Axis("activations", Kind.ACTIVATIONS, ("a16", "a8")))
    if graph.kind is ModelKind.TOKENS and graph.states:
        types = sorted(StateType, key=lambda one: -one.bytes)
        axes.append(Axis("kv", Kind.KV, tuple(map(str, types))))
    spare = {op.layer: len(op.kept) - op.top_k for op in mixtures}
    for band in _bands(sorted(worst_first)):
        most = min(spare[layer] for layer in band)
        counts = range(0, most + 1, -(-most // _MOST_DROPS) or 1)
        if most:
            axes.append(Axis(f"{_span(band)}.dropped", Kind.DROPPED, tuple(map(str, counts)), layers=tuple(band)))
    return Space(tuple(axes), worst_first)


def narrowed(space: Space, only: Sequence[str]) -> Space:
    """The space with fewer values.

    Args:
        only: ``AXIS=VALUE[,VALUE…]``; an axis of all layers without their numbers, as in ``experts=w4,w3``.

    Raises:
        UsageError: no such axis or value, or an axis twice.
    """
    axes = list(space.axes)
    said: set[str] = set()
    for text in only:
        where = f"--only {shown(text, 60)}"
        name, equals, listed = text.partition("=")
        if name in said:
            raise UsageError(f"'{shown(name, 40)}' is there twice", where=where, hint="list all values in one")
        said.add(name)
        if not equals or not listed:
            raise UsageError("is not AXIS=VALUE[,VALUE…]", where=where, hint="for example --only kv=f16,int8")
        chosen = [index for index, axis in enumerate(axes) if name in (axis.name, axis.name.rpartition(".")[2])]
        if not chosen:
            known = {axis.name for axis in axes} | {axis.name.rpartition(".")[2] for axis in axes}
            raise UsageError(f"there is no axis '{shown(name, 40)}'", where=where, hint=nearest(name, known))
        for index in chosen:
            axes[index] = replace(axes[index], values=_chosen(axes[index], listed.split(","), where))
    return replace(space, axes=tuple(axes))


def _chosen(axis: Axis, values: list[str], where: str) -> tuple[str, ...]:
    """In the order of the axis, those that it does not list behind them."""
    if axis.kind is Kind.CODING:  # any coding may be asked for
        for value in values:
            _refuse_no_coding(axis, value, where)
        known = [value for value in axis.values if value in values]
        return (*known, *(value for value in dict.fromkeys(values) if value not in known))
    for value in values:
        if value not in axis.values:
            raise UsageError(f"{axis.name} has no '{shown(value, 40)}'", where=where, hint=nearest(value, axis.values))
    return tuple(value for value in axis.values if value in values)


def _refuse_no_coding(axis: Axis, value: str, where: str) -> None:
    try:
        Scheme.parse(scheme(value, "a8"))
    except UsageError:
        what = f"{axis.name} has no '{shown(value, 40)}'"
        raise UsageError(
            what, where=where, hint=f"a coding without activations, such as {', '.join(CODINGS)}"
        ) from None


def _classes(graph: Graph) -> list[tuple[str, tuple[TensorClass, ...]]]:
    """Classes whose matrices the scheme converts; those that share a matrix are one."""
    owners: dict[str, list[TensorClass]] = {}
    for op in graph.ops:
        own = op.tensor_class()
        if own is None or own is TensorClass.ROUTER or (isinstance(op, Linear) and op.keep_float):
            continue
        for name in _matrices(graph, op):
            owners.setdefault(name, []).append(own)
    groups: list[set[TensorClass]] = []
    for classes in owners.values():
        together = set(classes)
        for other in [group for group in groups if group & together]:
            groups.remove(other)
            together |= other
        groups.append(together)
    order = list(TensorClass)
    found = sorted((sorted(group, key=order.index) for group in groups), key=lambda group: order.index(group[0]))
    return [("+".join(group), tuple(group)) for group in found]


def _matrices(graph: Graph, op: Op) -> list[str]:
    names = [*op.weights().values(), *(name for slots in op.experts() for name in slots.values())]
    return [name for name in names if not isinstance(graph.weights[name], Vector)]


def _bands(layers: Sequence[int]) -> list[list[int]]:
    """Neighbouring layers together, where there are many.

    >>> _bands([0, 1, 2]), len(_bands(range(32))), _bands(range(32))[0]
    ([[0], [1], [2]], 8, [0, 1, 2, 3])
    """
    count = min(_MOST_BANDS, len(layers))
    bounds = [len(layers) * number // count for number in range(count + 1)] if count else []
    return [list(layers[begin:end]) for begin, end in pairwise(bounds)]


def _span(band: Sequence[int]) -> str:
    return str(band[0]) if len(band) == 1 else f"{band[0]}-{band[-1]}"
