"""The rules of a recipe: which matrices get another scheme than the rest.

A rule is ``SELECTOR=SCHEME``, a selector ``[LAYER.]CLASS[.SLOT]``: ``experts``, ``0.experts.down``, ``attention.v``.
A slot is the last part of a weight's name: ``q`` of ``layers.0.q``, ``down`` of ``layers.0.experts.3.down``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from colibri.boards.words import nearest
from colibri.errors import UsageError, shown
from colibri.graph.graph import Graph, Op, TensorClass
from colibri.graph.ops import Experts, Linear
from colibri.graph.scheme import Scheme
from colibri.graph.weights import Vector

_SELECTOR = re.compile(r"(?:([0-9]{1,9})\.)?([a-z]+)(?:\.([a-z_]+))?")
_HINT = "for example experts=w4a8, 0.experts.down=w8a8 or head=w8a16"


@dataclass(frozen=True)
class Selector:
    """Which matrices: those of a class, perhaps of one layer, perhaps only those in one slot.

    Attributes:
        slot: empty for all.
    """

    tensor_class: TensorClass
    layer: int | None = None
    slot: str = ""

    def __str__(self) -> str:
        """As `parse` takes it."""
        layer = "" if self.layer is None else f"{self.layer}."
        return f"{layer}{self.tensor_class}" + (f".{self.slot}" if self.slot else "")

    @classmethod
    def parse(cls, text: str) -> Selector:
        """Read ``[LAYER.]CLASS[.SLOT]``.

        Raises:
            UsageError: not of this form, or no such class.
        """
        match = _SELECTOR.fullmatch(text)
        if match is None:
            raise UsageError("is not [LAYER.]CLASS[.SLOT]", where=f"rule for '{shown(text, 60)}'", hint=_HINT)
        layer, name, slot = match.groups()
        if name not in list(TensorClass):
            what = f"'{shown(name, 40)}' is no class of matrices"
            raise UsageError(what, where=f"rule for '{shown(text, 60)}'", hint=nearest(name, map(str, TensorClass)))
        return cls(TensorClass(name), None if layer is None else int(layer), slot or "")

    @property
    def rank(self) -> tuple[int, bool]:
        """Of two rules that a matrix falls under, that of the higher rank holds: more parts, then the layer."""
        return (self.layer is not None) + bool(self.slot), self.layer is not None

    def takes(self, place: Selector) -> bool:
        """Whether a matrix is among them; ``place`` names its class, layer and slot."""
        return (
            self.tensor_class is place.tensor_class
            and self.layer in (None, place.layer)
            and self.slot in ("", place.slot)
        )


@dataclass(frozen=True)
class Rule:
    """A scheme for some matrices."""

    selector: Selector
    scheme: Scheme

    def __str__(self) -> str:
        """As `parse` takes it."""
        return f"{self.selector}={self.scheme}"

    @classmethod
    def parse(cls, text: str) -> Rule:
        """Read ``SELECTOR=SCHEME``.

        Raises:
            UsageError: not of this form.
        """
        selector, equals, scheme = text.partition("=")
        if not equals:
            raise UsageError(f"'{shown(text, 60)}' is not SELECTOR=SCHEME", where="rule", hint=_HINT)
        return cls(Selector.parse(selector), Scheme.parse(scheme))


def ordered(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """Rules in their one order: classes as they are listed, the general before the special.

    Raises:
        UsageError: two for the same selector.
    """
    classes = list(TensorClass)

    def place(rule: Rule) -> tuple[int, tuple[int, bool], int, str]:
        one = rule.selector
        return classes.index(one.tensor_class), one.rank, -1 if one.layer is None else one.layer, one.slot

    found: dict[Selector, Rule] = {}
    for rule in sorted(rules, key=place):
        if (other := found.setdefault(rule.selector, rule)) != rule:
            both = f"{other.scheme} and {rule.scheme}"
            raise UsageError(f"contradict each other: {both}", where=f"two rules for {rule.selector}")
    return tuple(found.values())


def assign(graph: Graph, scheme: Scheme, rules: Sequence[Rule]) -> dict[str, Scheme]:
    """Scheme of each matrix, by the name of its weight: that of the rule of the highest rank, else the general one.

    Routers, and what else the importer keeps wide, stay fp32 unless a rule names them.

    Raises:
        UsageError: a rule for which there is no matrix; or rules that contradict each other, since embedding and head
            are one matrix, or gate and up read the same numbers.
    """
    chosen: dict[str, tuple[Rule | None, Scheme]] = {}
    used: set[Rule] = set()
    for op in graph.ops:
        for name, place in places(graph, op):
            matching = [rule for rule in rules if rule.selector.takes(place)]
            used.update(matching)
            rule = max(matching, key=lambda rule: rule.selector.rank, default=None)
            wide = place.tensor_class is TensorClass.ROUTER or (isinstance(op, Linear) and op.keep_float)
            own = rule.scheme if rule else Scheme.F32 if wide else scheme
            other, before = chosen.get(name, (None, own))
            if other and rule and before != own:
                raise UsageError(f"are one matrix of this model; make it {before} or {own}", where=f"{other}, {rule}")
            chosen[name] = (other, before) if other else (rule, own)
    for rule in rules:
        if rule not in used:
            raise UsageError("there is no such matrix", where=f"rule '{rule}'", hint=f"the model has {_listed(graph)}")
    schemes = {name: own for name, (_, own) in chosen.items()}
    for op in graph.ops:
        if isinstance(op, Experts):
            _check_readers(op, schemes)
    return schemes


def _check_readers(op: Experts, schemes: dict[str, Scheme]) -> None:
    """Gate and up of an expert are multiplied with the same row."""
    gate, up = op.kept[0].gate, op.kept[0].up
    if gate is not None and schemes[gate].activations is not schemes[up].activations:
        what = f"gate is {schemes[gate]} and up {schemes[up]}, but they read the same numbers"
        raise UsageError(what, where=f"{op.layer}.experts", hint="give both the same bits of activations")


def places(graph: Graph, op: Op) -> list[tuple[str, Selector]]:
    """Matrices of an op, with the selector that names each the most exactly."""
    tensor_class = op.tensor_class()
    if tensor_class is None:
        return []
    names = [*op.weights().values(), *(name for slots in op.experts() for name in slots.values())]
    matrices = [name for name in names if not isinstance(graph.weights[name], Vector)]
    return [(name, Selector(tensor_class, op.layer, name.rpartition(".")[2])) for name in matrices]


def _listed(graph: Graph) -> str:
    """``embedding, attention (layers 0-3: q k v o), …``."""
    layers: dict[TensorClass, dict[int | None, None]] = {}
    slots: dict[TensorClass, dict[str, None]] = {}
    for op in graph.ops:
        for _, place in places(graph, op):
            layers.setdefault(place.tensor_class, {})[place.layer] = None
            slots.setdefault(place.tensor_class, {})[place.slot] = None
    parts = []
    for one in (one for one in TensorClass if one in layers):
        where = _ranges([layer for layer in layers[one] if layer is not None])
        what = " ".join(slots[one]) if list(slots[one]) != [one] else ""
        said = ": ".join(filter(None, (where, what)))
        parts.append(f"{one} ({said})" if said else str(one))
    return ", ".join(parts)


def _ranges(layers: Sequence[int]) -> str:
    """
    >>> _ranges([0, 1, 2, 5]), _ranges([3]), _ranges([])
    ('layers 0-2, 5', 'layer 3', '')
    """
    runs: list[list[int]] = []
    for layer in sorted(layers):
        if runs and runs[-1][1] == layer - 1:
            runs[-1][1] = layer
        else:
            runs.append([layer, layer])
    said = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
    return said and f"layer{'s' if len(layers) > 1 else ''} {said}"
