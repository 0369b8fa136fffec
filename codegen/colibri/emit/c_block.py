"""What the C of a graph is collected in: blocks, their functions and descriptors, and loops over rows."""

from __future__ import annotations

from dataclasses import dataclass, field

from colibri.emit.c_jobs import Job
from colibri.graph.graph import Graph, Op
from colibri.graph.weights import Vector
from colibri.passes.pack import MatrixLayout


@dataclass(frozen=True)
class Field:
    """A member of a block's descriptor; ``count`` above 0 makes it an array."""

    name: str
    doc: str
    count: int = 0


@dataclass
class Block:
    """The ops of one layer (or of the part before or behind the layers) as a C function.

    Attributes:
        name: C name: ``input``, ``layer``, ``output``; further kinds of layer are ``layer_2``, …; those of an encoder
            begin with ``encoder_``.
        encoder: whether encode runs it.
        members: the descriptor.
        rows_of: one descriptor per layer: member to offset or offsets, in bytes; or to the name of a memory block.
        homes: slot of a state to the memory blocks that it lies in, one for each layer.
        files: slot of a weight to the files that it lies in, one for each layer: `FROM_MODEL` or `FROM_HOT`.
        functions: rows of the call to the function's declarations and statements.
    """

    name: str
    ops: list[Op]
    encoder: bool = False
    members: dict[str, Field] = field(default_factory=dict)
    rows_of: list[dict[str, int | str | list[int]]] = field(default_factory=list)
    homes: dict[str, list[int]] = field(default_factory=dict)
    files: dict[str, list[str]] = field(default_factory=dict)
    functions: dict[int, BlockFunction] = field(default_factory=dict)

    @property
    def is_output(self) -> bool:
        """Whether the block runs on the last row alone."""
        return any(Graph.OUTPUT in op.writes() for op in self.ops)

    @property
    def is_input(self) -> bool:
        """Whether the block reads the caller's tokens or samples."""
        return any(Graph.INPUT in op.reads() for op in self.ops)


@dataclass
class BlockFunction:
    """Declarations (sorted pointers to buffers) and statements; which of the context's parts they use.

    Attributes:
        calls: for each op of the block, the kernels that it calls, in their order.
        jobs: what several threads share, in the order in which it is handed out.
        told: variables that the function tells its jobs, to their C types.
    """

    declarations: dict[str, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    calls: list[list[str]] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    told: dict[str, str] = field(default_factory=dict)
    uses_weights: bool = False
    uses_descriptor: bool = False
    uses_position: bool = False
    uses_source: bool = False


@dataclass(frozen=True)
class Rows:
    """Writes expressions for a loop over rows, or for a single row without a loop.

    Attributes:
        count: of the rows, at most.
        shown: the same for comments and names.
        end: where the loop ends, as C; empty where there is none.
        kind: C type of the loop's variable.
    """

    count: int
    shown: str
    end: str
    kind: str = "uint32_t"

    def at(self, pointer: str, stride: int | str) -> str:
        """The row's start in an array of rows."""
        if not self.end:
            return pointer
        return f"{pointer} + row" if stride == 1 else f"{pointer} + row * {stride}"

    def element(self, pointer: str) -> str:
        """The row's element in an array of one element a row."""
        return f"{pointer}[row]" if self.end else f"{pointer}[0]"

    def offset(self, value: str) -> str:
        """A value that grows by one each row."""
        return f"{value} + row" if self.end else value

    def times(self, factor: int) -> str:
        """So many for each row."""
        return f"{self.shown} * {factor}" if not self.shown.isdigit() else str(self.count * factor)

    def loop(self, lines: list[str]) -> list[str]:
        """The lines, inside a loop when there is more than one row."""
        if not self.end:
            return lines
        return [f"for ({self.kind} row = 0; row < {self.end}; row++) {{", *(f"    {line}" for line in lines), "}"]


@dataclass(frozen=True)
class QuantisedNames:
    """C names of a quantised buffer and its row stride in elements."""

    integers: str
    scale: str
    stride: int


@dataclass(frozen=True)
class RouteNames:
    """C names of the chosen indices and weights."""

    index: str
    weight: str


@dataclass(frozen=True)
class ExpertPart:
    """A matrix of an expert, ``offset`` bytes behind the expert's start."""

    layout: MatrixLayout
    offset: int


def weight_doc(graph: Graph, name: str) -> str:
    """Format and shape of a weight, for a comment."""
    weight = graph.weights[name]
    shape, form = (weight.values.shape, "f32") if isinstance(weight, Vector) else (weight.shape, str(weight.coding))
    return f"{form} [{', '.join(str(extent) for extent in shape)}]"
