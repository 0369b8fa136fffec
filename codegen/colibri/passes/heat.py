"""How many bytes each buffer and state moves, from the shapes alone: what is hot belongs into fast memory."""

from __future__ import annotations

from collections import defaultdict

from colibri.graph.graph import Buffer, BufferKind, Graph, Op
from colibri.graph.ops import Experts
from colibri.passes.pack import Layouts

CONTEXT = "context"
_POINTERS = 16  # bytes of the context that a step reads


def heat(graph: Graph, buffers: dict[str, Buffer], layouts: Layouts) -> dict[str, int]:
    """Bytes that one token or one sample loads and stores in each buffer, state, and in the context.

    A matrix product goes through its input once for each tile of rows, or once where its kernel works on a copy; other
    ops through what they read and write once, if they do not say otherwise. A state counts as if it were full.
    """
    moved: dict[str, int] = defaultdict(int)
    for op in graph.ops:
        moved[CONTEXT] += _POINTERS
        passes = op.passes()
        for name in {*op.reads(), *op.writes(), *(buffer.name for buffer in op.scratch())} & buffers.keys():
            moved[name] += passes.get(name, 1) * row_bytes(buffers[name], layouts)
        for name in op.states().values():
            moved[name] += passes.get(name, 1) * graph.states[name].bytes
        for name, times in _product_passes(op, layouts).items():
            if name in buffers:
                moved[name] += times * row_bytes(buffers[name], layouts)
    return dict(moved)


def _product_passes(op: Op, layouts: Layouts) -> dict[str, int]:
    """How often an op's products go through each input; of experts, only those that run."""
    times: dict[str, int] = defaultdict(int)
    for product in op.products():
        layout = layouts.matrices[product.weight]
        times[product.buffer] += 1 if product.weight in layouts.read_once else -(-layout.n // layout.tile_rows)
    if isinstance(op, Experts):
        return {name: count * op.top_k // len(op.kept) for name, count in times.items()}
    return dict(times)


def row_bytes(buffer: Buffer, layouts: Layouts) -> int:
    """Bytes of one row, scale or route weights included, padding between rows too."""
    width = layouts.strides.get(buffer.name, buffer.width)
    element = {
        BufferKind.FLOAT: 4,
        BufferKind.ROUTE: 8,
        BufferKind.Q8: 2 if layouts.wide_activations else 1,
        BufferKind.Q16: 2,
        BufferKind.INT8: 1,
        BufferKind.INT32: 4,
        BufferKind.TOKENS: 4,
    }
    scale = 4 if buffer.kind in (BufferKind.Q8, BufferKind.Q16) else 0
    return buffer.pieces * (element[buffer.kind] * width + scale)
