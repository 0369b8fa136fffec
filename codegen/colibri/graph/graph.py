"""The one description of what is computed: a list of ops over named buffers, with weights and states.

Two back ends run it: numpy (`interpret.py`) and C (`colibri.emit`). Buffers are named storage, not values: every
layer writes the same ``q``, ``normed`` and so on, so equal layers become one C function.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

from colibri.graph.weights import AnyMatrix, Kept, Vector, Weight

if TYPE_CHECKING:
    from colibri.emit.c_module import CScope
    from colibri.graph.interpret import Run


class BufferKind(StrEnum):
    """What one row of a buffer holds."""

    FLOAT = "float"  # width fp32 values
    Q8 = "q8"  # width int8 values and one fp32 scale
    Q16 = "q16"  # width int16 values and one fp32 scale
    INT8 = "int8"  # width int8 values
    INT32 = "int32"  # width int32 values
    ROUTE = "route"  # width pairs of expert index and fp32 weight
    TOKENS = "tokens"  # one token id


@dataclass(frozen=True)
class Buffer:
    """Named rows.

    Attributes:
        width: elements in a row.
        fixed_rows: rows whatever the entry point (scratch); 0 means the entry's rows.
        pieces: a row has so many pieces of ``width`` elements, quantised each with a scale of its own.
    """

    name: str
    kind: BufferKind
    width: int
    fixed_rows: int = 0
    pieces: int = 1


class StateType(StrEnum):
    """Element type of a state."""

    F32 = "f32"
    F16 = "f16"
    I8 = "int8"  # with scales, see `State`

    @property
    def bytes(self) -> int:
        """Size of one element."""
        return {StateType.F32: 4, StateType.F16: 2, StateType.I8: 1}[self]


SCALE_BYTES = 2  # of an int8 state: the upper half of an fp32
_ALIGN = 16


@dataclass(frozen=True)
class State:
    """Memory that lives from call to call: ``capacity`` rows of ``width`` elements.

    A ring when ``capacity`` is below the context: position p stands in row p % capacity. An int8 row has a scale for
    each of its ``pieces``; the scales of all rows stand behind all elements. With ``apart`` the rows of a piece stand
    together, piece behind piece, elements and scales alike.
    """

    name: str
    type: StateType
    capacity: int
    width: int
    pieces: int = 1
    apart: bool = False

    @property
    def scales_at(self) -> int:
        """Where the scales of an int8 state begin, in bytes; its end for the other types."""
        elements = self.capacity * self.width * self.type.bytes
        return elements + (-elements % _ALIGN if self.type is StateType.I8 else 0)

    @property
    def bytes(self) -> int:
        """Size in bytes."""
        scales = self.capacity * self.pieces * SCALE_BYTES if self.type is StateType.I8 else 0
        return self.scales_at + scales


class TensorClass(StrEnum):
    """What a matrix is for: the classes that the rules of a recipe name.

    ``router`` is what decides which experts run, and how much a shared one counts; ``shared`` are experts that always
    run; ``dense`` is an MLP without experts.
    """

    EMBEDDING = "embedding"
    ATTENTION = "attention"
    EXPERTS = "experts"
    SHARED = "shared"
    DENSE = "dense"
    HEAD = "head"
    ROUTER = "router"


@dataclass(frozen=True)
class Product:
    """A matrix weight and the buffer (of which kind) that it is multiplied with."""

    weight: str
    buffer: str
    kind: BufferKind


@dataclass(frozen=True)
class Op(ABC):
    """One step. Subclasses, one file each in `ops/`, add their buffers, weights and constants.

    Attributes:
        layer: index of the layer it belongs to; None before the first and after the last.
        part: row of the report for its weights, e.g. ``layer 0 / attention``.
        shared: the C cuts it into parts for several threads; no bit depends on it.
    """

    layer: int | None
    part: str
    shared: bool = field(default=False, kw_only=True)

    starts_pass: ClassVar[bool] = False  # all rows of a call end the ops before it first
    can_share: ClassVar[bool] = False  # whether its C can be cut into parts

    @abstractmethod
    def reads(self) -> tuple[str, ...]:
        """Buffers read (those updated in place included)."""

    @abstractmethod
    def writes(self) -> tuple[str, ...]:
        """Buffers written."""

    def scratch(self) -> tuple[Buffer, ...]:
        """Buffers that live only inside the op."""
        return ()

    def weights(self) -> dict[str, str]:
        """Slot (a field of the C descriptor) to weight name; experts are listed by `experts` instead."""
        return {}

    def experts(self) -> tuple[dict[str, str], ...]:
        """For each expert kept, in ascending order: slot to weight name."""
        return ()

    def products(self) -> tuple[Product, ...]:
        """Matrices that the op multiplies with a buffer."""
        return ()

    def tensor_class(self) -> TensorClass | None:
        """Of the op's matrices; None where it has none."""
        return None

    def states(self) -> dict[str, str]:
        """Slot to state name."""
        return {}

    def passes(self) -> dict[str, int]:
        """How often one row goes through a whole state, buffer or scratch; once where it is not said."""
        return {}

    @abstractmethod
    def signature(self) -> tuple[object, ...]:
        """Everything that the C code depends on, weight and state names excepted."""

    @abstractmethod
    def reference(self, run: Run) -> None:
        """Compute with numpy, bit for bit what the C computes."""

    @abstractmethod
    def emit(self, c: CScope) -> None:
        """Write the C statements."""


class ModelKind(StrEnum):
    """Token models have prefill and step, and encode where there is an encoder; sample models have forward."""

    TOKENS = "tokens"
    SAMPLES = "samples"


@dataclass
class Graph:
    """A model: ops in order, and what they name.

    An encoder's ops come first. Encode runs them pass by pass: every row of the source ends a pass before the next
    begins, and what rows have in common goes through states.

    Attributes:
        family: importer that made it.
        kind: tokens or samples.
        input_width: floats of a sample (0 for tokens).
        output_width: floats of a sample's prediction, or the vocabulary size.
        context: most positions a token model can hold (0 for samples).
        routing: one sentence on the router's semantics.
        encoder: how many ops are the encoder's; 0 without one.
        source: most tokens that encode takes; 0 without an encoder.
        start: the token that decoding begins with (0 without an encoder).
        classifies: whether a sample's outputs are the scores of classes.
        labels: names of inputs and outputs, if the checkpoint gives them.
        pruned: layer to the ids of the experts dropped from it.
        dropped: notes on tensors and experts left out.
        warnings: what was done to the weights that the user may not want.
        folds: scales that were moved, as `passes.fold.Folds` has them.
        calibration: the data that weights were rounded for, as a package keeps it; empty without.
        kept: small matrices that were made.
    """

    family: str
    kind: ModelKind
    input_width: int
    output_width: int
    context: int
    routing: str
    encoder: int = 0
    source: int = 0
    start: int = 0
    classifies: bool = False
    ops: list[Op] = field(default_factory=list)
    buffers: dict[str, Buffer] = field(default_factory=dict)
    states: dict[str, State] = field(default_factory=dict)
    weights: dict[str, Weight] = field(default_factory=dict)
    labels: dict[str, tuple[str, ...]] = field(default_factory=dict)
    pruned: dict[int, set[int]] = field(default_factory=dict)
    dropped: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    folds: dict[str, tuple[int, ...]] = field(default_factory=dict)
    calibration: bytes = field(default=b"", repr=False)
    kept: Kept = field(default_factory=Kept, repr=False, compare=False)

    INPUT = "input"
    OUTPUT = "output"

    def buffer(self, name: str, kind: BufferKind, width: int, fixed_rows: int = 0, pieces: int = 1) -> str:
        """Declare a buffer (again is fine if it is the same) and return its name."""
        made = Buffer(name, kind, width, fixed_rows, pieces)
        if self.buffers.setdefault(name, made) != made:
            raise ValueError(f"buffer {name} declared as {self.buffers[name]} and as {made}")
        return name

    def matrix(self, name: str) -> AnyMatrix:
        """A matrix as it is: shape and format, and perhaps still in the checkpoint."""
        weight = self.weights[name]
        assert not isinstance(weight, Vector)
        return weight

    def loaded(self, name: str) -> AnyMatrix:
        """A matrix to read from: made and kept, unless it is too large for that. BadInput: it cannot be read."""
        return self.kept.loaded(self.matrix(name))

    def layers(self) -> Iterator[tuple[int | None, list[Op]]]:
        """Runs of ops of the same layer, entry and pass, in order."""
        run: list[Op] = []
        for index, op in enumerate(self.ops):
            if run and (op.layer != run[0].layer or op.starts_pass or index == self.encoder):
                yield run[0].layer, run
                run = []
            run.append(op)
        if run:
            yield run[0].layer, run

    def expert_counts(self) -> tuple[int, ...]:
        """Experts kept, layer by layer; a layer without a router has one, which always runs."""
        counts: dict[int, int] = {}
        for op in self.ops:
            if op.layer is not None:
                counts[op.layer] = max(counts.get(op.layer, 1), len(op.experts()))
        return tuple(counts[layer] for layer in sorted(counts))

    def parameters(self) -> int:
        """Number of weights in all tensors."""
        return sum(weight.parameters for weight in self.weights.values())
