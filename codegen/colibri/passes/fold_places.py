"""Where channels can change their scale without a change of the function: found from the graph alone.

A channel of a buffer may be divided by a factor where it is written, if every reader multiplies it with a column of a
matrix, which takes the factor in. There are three such places: behind a norm, inside a gated (or relu) MLP, and behind
the values of attention. What the graph does not prove is left alone, and said.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial

import numpy as np

from colibri.graph.coding import WeightFormat
from colibri.graph.float32 import Float
from colibri.graph.graph import Graph
from colibri.graph.ops import (
    Activation,
    Attention,
    Experts,
    Gated,
    GroupedRouter,
    LayerNorm,
    Linear,
    RmsNorm,
    Router,
    SparseMixer,
)
from colibri.graph.weights import Vector

# These read a buffer of floats as the input of products, and in no other way.
_MULTIPLIERS = (Linear, Router, GroupedRouter, SparseMixer, Experts)
# f(x / s) = f(x) / s for every positive s.
_HOMOGENEOUS = ("identity", "relu")


class PlaceKind(StrEnum):
    """What is divided."""

    NORM = "norm"  # the weights of a norm, and its bias
    MLP = "mlp"  # rows of an up matrix, by hidden value
    VALUE = "value"  # rows of a value matrix, by element of a key and value head


@dataclass(frozen=True)
class Place:
    """Channels whose scale is free.

    Attributes:
        name: of the weight that is divided; it names the place.
        width: channels.
        vectors: divided, elementwise.
        rows: matrices whose rows, and biases, are divided.
        readers: matrices whose columns are multiplied.
        repeats: how many heads of ``head_dim`` columns of a reader have the same channels, one behind the other.
        head_dim: columns of such a head; ``width`` where channels are columns.
    """

    name: str
    kind: PlaceKind
    width: int
    vectors: tuple[str, ...]
    rows: tuple[str, ...]
    readers: tuple[str, ...]
    repeats: int = 1
    head_dim: int = 0

    def columns(self, factors: Float) -> Float:
        """Factors of the channels ``[width]`` as those of a reader's columns ``[k]``."""
        if self.repeats == 1:
            return factors
        heads = factors.reshape(-1, 1, self.head_dim)
        return np.ascontiguousarray(np.repeat(heads, self.repeats, axis=1)).reshape(-1)

    def channels(self, columns: Float) -> Float:
        """The largest of a reader's columns ``[k]`` for each channel ``[width]``."""
        if self.repeats == 1:
            return columns
        heads = columns.reshape(-1, self.repeats, self.head_dim)
        return np.ascontiguousarray(heads.max(axis=1)).reshape(-1)


@dataclass(frozen=True)
class Left:
    """A place that is none: the name that it would have, and why."""

    name: str
    kind: PlaceKind
    why: str


@dataclass
class Places:
    """All of a graph, in order of its ops."""

    found: list[Place] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)


class _Unproven(Exception):
    """A reader that is no product, or a matrix that others use too."""


def find_places(graph: Graph, kinds: Collection[PlaceKind] = tuple(PlaceKind)) -> Places:
    """Look at the norms, MLPs and attention of a graph that is not quantised yet."""
    places, seen, search = Places(), set[str](), _Search(graph)
    for name, kind, candidate in search.candidates():
        if kind not in kinds or name in seen:
            continue
        seen.add(name)
        try:
            places.found.append(candidate())
        except _Unproven as reason:
            places.left.append(Left(name, kind, str(reason)))
    return places


class _Search:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._users: dict[str, list[int]] = {}  # of a weight: ops
        self._state_users: dict[str, list[int]] = {}
        for index, op in enumerate(graph.ops):
            for name in (name for names in (op.weights(), *op.experts()) for name in names.values()):
                self._users.setdefault(name, []).append(index)
            for name in op.states().values():
                self._state_users.setdefault(name, []).append(index)

    def candidates(self) -> Iterator[tuple[str, PlaceKind, Callable[[], Place]]]:
        """Names, and what makes the place or raises `_Unproven`; what several ops share comes more than once."""
        for index, op in enumerate(self._graph.ops):
            if isinstance(op, RmsNorm | LayerNorm):
                weight = self._graph.weights[op.weight]
                heads = isinstance(op, RmsNorm) and op.groups > 1
                if not heads and isinstance(weight, Vector) and not weight.derived:
                    yield op.weight, PlaceKind.NORM, partial(self._norm, op)
            elif isinstance(op, Experts):
                for slots in op.experts():
                    yield slots["up"], PlaceKind.MLP, partial(self._expert, index, op, slots)
            elif isinstance(op, Linear):
                behind = [self._graph.ops[reader] for reader in self._readers(index, op.out)]
                if any(isinstance(one, Activation) or (isinstance(one, Gated) and one.up == op.out) for one in behind):
                    yield op.weight, PlaceKind.MLP, partial(self._dense, index, op)
                elif self._makes_values(index, op.out):
                    yield op.weight, PlaceKind.VALUE, partial(self._value, index, op)

    def _makes_values(self, writer: int, buffer: str) -> bool:
        """Whether attention takes it for values, whatever happens to it before."""
        for op in self._graph.ops[writer + 1 :]:
            if isinstance(op, Attention) and op.v == buffer:
                return True
            if isinstance(op, Linear) and op.out == buffer:
                return False
        return False

    # ---- the three places ----

    def _norm(self, op: RmsNorm | LayerNorm) -> Place:
        """All ops with these weights, and whoever reads what they write."""
        vectors = [op.weight] if isinstance(op, RmsNorm) else [op.weight, op.bias]
        writers = self._users[op.weight]
        for index in writers:
            twin = self._graph.ops[index]
            if type(twin) is not type(op) or (isinstance(twin, RmsNorm) and twin.groups > 1):
                raise _Unproven("another op has the same weights")
        for name in vectors:
            if self._users[name] != writers:
                raise _Unproven(f"{name} is used elsewhere")
        readers = self._products([(index, out) for index in writers for out in self._graph.ops[index].writes()])
        return Place(op.weight, PlaceKind.NORM, op.width, tuple(vectors), (), readers)

    def _expert(self, index: int, op: Experts, slots: dict[str, str]) -> Place:
        """Hidden values of an expert are up's, times what gate's make, or the activation of up's."""
        if op.clipped is not None:
            raise _Unproven("its hidden values are clipped")
        if not op.gated and op.activation not in _HOMOGENEOUS:
            raise _Unproven(f"{op.activation} of a part is not the part of {op.activation}")
        up, down = slots["up"], slots["down"]
        for name in (up, down):
            self._alone(name, [index])
        return Place(up, PlaceKind.MLP, op.hidden, (), (up,), (down,))

    def _dense(self, index: int, op: Linear) -> Place:
        """The same where the parts of an MLP are ops of their own."""
        self._alone(op.weight, [index])
        inner = self._only_reader(index, op.out)
        behind = self._graph.ops[inner]
        if isinstance(behind, Gated):
            if behind.gate == op.out:
                raise _Unproven("it is its own gate")
        elif not isinstance(behind, Activation) or behind.function not in _HOMOGENEOUS:
            raise _Unproven("what follows does not keep a factor")
        return Place(op.weight, PlaceKind.MLP, op.n, (), (op.weight,), self._products([(inner, op.out)]))

    def _value(self, index: int, op: Linear) -> Place:
        """Attention's output is a mean of values; the query heads of a group have the same value head."""
        self._alone(op.weight, [index])
        inner = self._only_reader(index, op.out)
        behind = self._graph.ops[inner]
        if not isinstance(behind, Attention) or behind.v != op.out or op.out in (behind.q, behind.k):
            raise _Unproven("values are changed on their way to attention")
        if self._state_users[behind.value_state] != [inner]:
            raise _Unproven("another op reads the values that are kept")
        readers = self._products([(inner, behind.out)])
        repeats = behind.heads // behind.kv_heads
        return Place(op.weight, PlaceKind.VALUE, op.n, (), (op.weight,), readers, repeats, behind.head_dim)

    # ---- who reads what ----

    def _readers(self, writer: int, buffer: str) -> list[int]:
        """Ops that see what an op has written into a buffer, until another writes it."""
        found = []
        for index in range(writer + 1, len(self._graph.ops)):
            op = self._graph.ops[index]
            if buffer in op.reads():
                found.append(index)
            if buffer in op.writes():
                break
        return found

    def _only_reader(self, writer: int, buffer: str) -> int:
        readers = self._readers(writer, buffer)
        if len(readers) != 1:
            raise _Unproven(f"{buffer} has {len(readers)} readers")
        return readers[0]

    def _products(self, written: list[tuple[int, str]]) -> tuple[str, ...]:
        """Matrices that are multiplied with what ops have written into buffers: nothing else may happen to it."""
        places: dict[str, set[int]] = {}
        for writer, buffer in written:
            readers = self._readers(writer, buffer)
            if not readers or buffer == Graph.OUTPUT:
                raise _Unproven(f"{buffer} is an output")
            for index in readers:
                op = self._graph.ops[index]
                if not isinstance(op, _MULTIPLIERS) or buffer in op.writes():
                    raise _Unproven(f"{type(op).__name__} reads {buffer}, too")
                for product in op.products():
                    if product.buffer == buffer:
                        places.setdefault(product.weight, set()).add(index)
        for name, indices in places.items():
            self._alone(name, sorted(indices))
        return tuple(places)

    def _alone(self, name: str, users: list[int]) -> None:
        """A matrix in fp32 that no other op uses."""
        if sorted(set(self._users[name])) != users:
            raise _Unproven(f"{name} is used elsewhere")
        if (form := self._graph.matrix(name).format) is not WeightFormat.F32:
            raise _Unproven(f"{name} is {form} in the checkpoint")
