"""Choose number formats: weights to 8 or 4 bits, activations to 8 or 16, and the ops that convert between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from colibri.errors import BadInput
from colibri.graph.coding import F32, FP4, TAIL_COLUMNS_MAX, W4, Coding, WeightFormat
from colibri.graph.graph import BufferKind, Graph, Op
from colibri.graph.ops import Experts, GroupedRouter, HeadLinear, Linear, Quantise, Router, SparseMixer
from colibri.graph.scheme import Scheme
from colibri.graph.weights import AnyMatrix, Matrix, StoredMatrix, Vector
from colibri.passes.grid import column_energy, most_energetic, round_matrix
from colibri.passes.rules import Rule, assign

INT32_MAX = 2**31 - 1
_WIDE_MAX = 2**53 - 1  # of a sum in 64 bits: the reference, with doubles, holds no more
_SEARCHED = 1 << 20  # weights of a matrix for whose groups several steps are tried
_BLOCK = 1 << 17  # weights that are looked at together
_Multiplying = Linear | HeadLinear | Router | GroupedRouter | SparseMixer | Experts


def activation_limit(coding: Coding, kind: BufferKind, k: int, where: str) -> int:
    """Largest activation magnitude for which no sum over ``k`` products can pass int32, or 2^53 for 4-bit floats.

    The bound holds for any weights of the coding, not only these, so that `model.bin` can be replaced in the field.

    Raises:
        BadInput: even 8-bit activations could overflow (k above 133,144 for w8, 16,643 for w4, 5,636,440 for fp4).
    """
    most = _WIDE_MAX if coding.format is WeightFormat.FP4 else INT32_MAX
    limit = most // coding.largest_sum(k)
    wanted = 127 if kind is BufferKind.Q8 else 32767
    if limit < 127:
        what = f"{coding} sums over {k} columns could pass {'32 bits' if most == INT32_MAX else '2^53'}"
        raise BadInput(what, where=where, hint="use f32, or w8 instead of w4")
    return min(wanted, limit)


def quantise_graph(graph: Graph, scheme: Scheme, rules: Sequence[Rule] = ()) -> None:
    """Convert weights and insert `Quantise` ops, in place: the scheme, or that of the rule that a matrix falls under.

    Each buffer is quantised once for all who read it with the same bits. What is still in the checkpoint is converted
    when it is read.

    Raises:
        UsageError: as `rules.assign`.
    """
    schemes = assign(graph, scheme, rules)
    _convert(graph, {name: one.coding for name, one in schemes.items()})
    ops: list[Op] = []
    ready: dict[tuple[str, BufferKind], int] = {}  # buffer -> where in `ops` it was quantised, while it stays unwritten
    encoder = 0
    for index, op in enumerate(graph.ops):
        if index == graph.encoder:
            encoder = len(ops)
            ready.clear()
        if isinstance(op, Linear | HeadLinear | Router | GroupedRouter | SparseMixer):
            kind = schemes[op.weight].activations
            op = replace(op, x=_quantised(graph, op, op.k, kind, ops, ready), input_kind=kind)
        elif isinstance(op, Experts):
            first, kind = op.kept[0], schemes[op.kept[0].up].activations
            inner = schemes[first.down].activations
            limit = _limit(graph, op, "expert_hidden", inner, op.hidden) if inner is not BufferKind.FLOAT else 0
            x = _quantised(graph, op, op.width, kind, ops, ready)
            op = replace(op, x=x, input_kind=kind, hidden_kind=inner, hidden_qmax=limit)
        for written in op.writes():
            for kind in BufferKind:
                ready.pop((written, kind), None)
        ops.append(op)
    graph.ops, graph.encoder = ops, encoder


def _quantised(
    graph: Graph,
    op: _Multiplying,
    k: int,
    kind: BufferKind,
    ops: list[Op],
    ready: dict[tuple[str, BufferKind], int],
) -> str:
    """The buffer that the op reads instead of its x: as it is, or quantised by a step that may be there already."""
    if kind is BufferKind.FLOAT:
        return op.x
    if (op.x, kind) not in ready:
        rows, pieces = graph.buffers[op.x].fixed_rows, graph.buffers[op.x].width // k
        out = graph.buffer(f"{op.x}_{kind}", kind, k, rows, pieces)
        ready[op.x, kind] = len(ops)
        ops.append(Quantise(op.layer, op.part, op.x, out, k, kind, 32767, pieces))
    step = ops[ready[op.x, kind]]
    assert isinstance(step, Quantise) and step.width == k
    ops[ready[op.x, kind]] = replace(step, qmax=min(step.qmax, _limit(graph, op, op.x, kind, k)))
    return step.out


def _convert(graph: Graph, codings: Mapping[str, Coding]) -> None:
    """Give each matrix its coding. What the checkpoint has in 4-bit floats stays so among plain 4-bit weights."""
    exact = _kept(graph)
    rounded: dict[tuple[str, Coding], list[str]] = {}
    for name, matrix in graph.weights.items():
        if isinstance(matrix, Vector):
            continue
        to = codings.get(name, F32)
        if to == W4 and name in exact:
            to = FP4
        if to not in (matrix.coding, F32) and matrix.stored:
            rounded.setdefault((matrix.stored, to), []).append(name)
        if to != matrix.coding:
            graph.weights[name] = coded(matrix, to)
    for (stored, to), names in rounded.items():
        count = f"{names[0]} is" if len(names) == 1 else f"{len(names)} matrices, the first {names[0]}, are"
        keeps = "; w4a8 and w4a16 keep what it holds" if names[0] in exact else ""
        graph.warnings.append(f"{count} {stored} in the checkpoint and rounded again to {to}{keeps}")


def coded(matrix: AnyMatrix, coding: Coding) -> AnyMatrix:
    """The matrix in another coding, rounded to nearest; of one in the checkpoint when it is read."""
    if coding.outliers and matrix.shape[1] > TAIL_COLUMNS_MAX:
        what = f"a matrix of {matrix.shape[1]:,} columns can have no tail"
        raise BadInput(what, where=f"coding '{coding}'", hint=f"leave '+o{coding.outliers}' away there")
    columns = cache(lambda: _tail(matrix, coding))
    search = matrix.shape[0] * matrix.shape[1] <= _SEARCHED

    def convert(rows: Matrix) -> Matrix:
        return round_matrix(rows, coding, columns=columns() if coding.outliers else None, search=search)

    return matrix.then(convert, coding) if isinstance(matrix, StoredMatrix) else convert(matrix)


def _tail(matrix: AnyMatrix, coding: Coding) -> NDArray[np.int32]:
    """The columns of its tail, for which all of it is read."""
    energy = np.zeros(matrix.shape[1])
    for block in matrix.blocks(max(1, _BLOCK // matrix.shape[1])):
        energy += column_energy(block.values)
    return most_energetic(energy, coding)


def _kept(graph: Graph) -> set[str]:
    """Matrices of 4-bit floats; those of a layer's experts only where all are, since they share their code."""

    def stays(name: str) -> bool:
        return graph.matrix(name).format is WeightFormat.FP4

    kept: set[str] = set()
    for op in graph.ops:
        if op.tensor_class():
            names = [name for name in op.weights().values() if not isinstance(graph.weights[name], Vector)]
            kept.update(filter(stays, names))
        for alike in zip(*(slots.values() for slots in op.experts()), strict=True):
            if all(map(stays, alike)):
                kept.update(alike)
    return kept


def _limit(graph: Graph, op: Op, buffer: str, kind: BufferKind, k: int) -> int:
    """The least limit of the op's matrices that are multiplied with a buffer, or with its scratch."""
    codings = {graph.matrix(product.weight).coding for product in op.products() if product.buffer == buffer}
    return min(activation_limit(coding, kind, k, op.part) for coding in sorted(codings))
