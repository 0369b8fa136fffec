"""Choose number formats: weights to 8 or 4 bits, activations to 8 or 16, and the ops that convert between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from colibri.errors import BadInput
from colibri.graph.coding import Coding
from colibri.graph.graph import BufferKind, Graph, Op
from colibri.graph.ops import Experts, GroupedRouter, HeadLinear, Linear, Quantise, Router, SparseMixer
from colibri.graph.scheme import Scheme
from colibri.graph.weights import (
    FP4_MAX,
    FP4_SHIFT_MAX,
    GROUP,
    GROUP_SCALE_MAX,
    W4_MAX,
    W4_MIN,
    W8_MAX,
    Matrix,
    StoredMatrix,
    Vector,
    WeightFormat,
)
from colibri.passes.rounding import group_extremes, round_to_integers
from colibri.passes.rules import Rule, assign

INT32_MAX = 2**31 - 1
_Multiplying = Linear | HeadLinear | Router | GroupedRouter | SparseMixer | Experts
# The largest magnitude of an integer weight with what its group has, and of a sum of products: that of 4-bit floats is
# summed in 64 bits, of which the reference, with doubles, holds 53.
_LARGEST = {
    WeightFormat.W8: (W8_MAX, INT32_MAX),
    WeightFormat.W4: (-W4_MIN * GROUP_SCALE_MAX, INT32_MAX),
    WeightFormat.FP4: (FP4_MAX << FP4_SHIFT_MAX, 2**53 - 1),
}


# Short rows leave room to search: with few columns some scale rounds them all well. Long rows average that out.
_SEARCH_BUDGET = 1 << 18
_SEARCH_MOST = 2000
# A row of smaller weights counts as zeros: its scale would lose bits, or be 0 itself.
_LEAST_W8_ROW = np.float32(2.0**-100)


def quantise_w8(dense: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Round to nearest as ``integers * row_scale``: int8 in -127..127 ``[n, k]`` and fp32 ``[n]``.

    The scale is max|row| / t for the t in 64..127.5 that leaves the least error, sum(e^2) + sum(e)^2 / 4: the second
    term is what inputs behind a ReLU, never negative, make of a one-sided error. 2^18 / k^2 values of t are tried, at
    most 2000, at least 127.
    """
    k = dense.shape[1]
    count = min(_SEARCH_MOST, _SEARCH_BUDGET // (k * k))
    largest = np.maximum(dense.max(axis=1), -dense.min(axis=1))
    live = largest >= _LEAST_W8_ROW
    if count > 1:
        scale = _best_scale(dense, np.where(live, largest, np.float32(1)), count)
    else:
        scale = np.where(live, largest / np.float32(W8_MAX), np.float32(1))
    integers = round_to_integers(dense, scale.astype(np.float64)[:, None], live[:, None], -W8_MAX, W8_MAX)
    return integers, np.where(live, scale, np.float32(0)).astype(np.float32)


def _best_scale(dense: NDArray[np.float32], largest: NDArray[np.float32], count: int) -> NDArray[np.float32]:
    """Of so many scales for each row that with the least error.

    Args:
        largest: magnitudes of the rows, none of them 0.
    """
    tops = np.concatenate([[127.0], np.linspace(127.49, 64.0, count)])
    scales = (largest / tops.astype(np.float32)[:, None]).astype(np.float32)
    wide, exact = scales.astype(np.float64), dense.astype(np.float64)
    squares, bias = np.zeros(scales.shape), np.zeros(scales.shape)
    for column in range(dense.shape[1]):  # a loop, so that the order of the sums is the same everywhere
        error = np.clip(np.rint(exact[:, column] / wide), -W8_MAX, W8_MAX) * wide - exact[:, column]
        squares += error * error
        bias += error
    best = np.argmin(squares + bias * bias / 4, axis=0)
    found: NDArray[np.float32] = scales[best, np.arange(len(dense))]
    return found


def quantise_w4(dense: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.uint8], NDArray[np.float32]]:
    """Round to nearest as ``integers * group_scale * row_scale``, in groups of 32 columns.

    A group's wish is the smallest scale at which no weight errs by more than half a step when all of -8..7 are used:
    max(largest / 7.5, -smallest / 8.5). The row's scale makes the largest wish 255 steps.

    Returns:
        int8 in -8..7 ``[n, k]``, uint8 ``[n, ceil(k / 32)]``, fp32 ``[n]``.
    """
    n, k = dense.shape
    groups = -(-k // GROUP)
    padded = np.ascontiguousarray(dense)
    if k % GROUP:
        padded = np.zeros((n, groups * GROUP), np.float32)
        padded[:, :k] = dense
    top, low = group_extremes(padded)
    wish = np.maximum(top.astype(np.float64) / (W4_MAX + 0.5), low.astype(np.float64) / (W4_MIN - 0.5))
    row_scale = (wish.max(axis=1) / GROUP_SCALE_MAX).astype(np.float32)
    safe = np.where(row_scale > 0, row_scale, np.float32(1)).astype(np.float64)
    steps = np.clip(np.rint(wish / safe[:, None]), 0, GROUP_SCALE_MAX)
    live = steps > 0
    scale = np.where(live, steps, 1.0) * safe[:, None]
    integers = round_to_integers(padded, scale, live, W4_MIN, W4_MAX)
    return integers[:, :k], steps.astype(np.uint8), row_scale


def quantise_matrix(matrix: Matrix, form: WeightFormat) -> Matrix:
    """The matrix in another format than it has, rounded to nearest; the bias stays fp32."""
    plain = replace(matrix, format=form, dense=None, integers=None, group_scale=None, row_scale=None)
    if form is WeightFormat.W8:
        integers, row_scale = quantise_w8(matrix.values)
        return replace(plain, integers=integers, row_scale=row_scale)
    if form is WeightFormat.W4:
        integers, group_scale, row_scale = quantise_w4(matrix.values)
        return replace(plain, integers=integers, group_scale=group_scale, row_scale=row_scale)
    return replace(plain, dense=matrix.values)


def activation_limit(form: WeightFormat, kind: BufferKind, k: int, where: str) -> int:
    """Largest activation magnitude for which no sum over ``k`` products can pass int32, or 2^53 for 4-bit floats.

    The bound holds for any weights of the format, not only these, so that `model.bin` can be replaced in the field.

    Raises:
        BadInput: even 8-bit activations could overflow (k above 133,144 for w8, 8,288 for w4, 5,636,440 for fp4).
    """
    largest, most = _LARGEST[form]
    limit = most // (largest * k)
    wanted = 127 if kind is BufferKind.Q8 else 32767
    if limit < 127:
        what = f"{form} sums over {k} columns could pass {'32 bits' if most == INT32_MAX else '2^53'}"
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
    """Give each matrix its format. What the checkpoint has in 4-bit floats stays so among plain 4-bit weights."""
    exact = _kept(graph)
    rounded: dict[tuple[str, WeightFormat], list[str]] = {}
    for name, matrix in graph.weights.items():
        if isinstance(matrix, Vector):
            continue
        coding = codings.get(name, Scheme.F32.coding)
        to = WeightFormat.FP4 if coding == Scheme.W4A8.coding and name in exact else coding.format
        if to not in (matrix.format, WeightFormat.F32) and matrix.stored:
            rounded.setdefault((matrix.stored, to), []).append(name)
        if to is matrix.format:
            continue
        convert = partial(quantise_matrix, form=to)
        graph.weights[name] = matrix.then(convert, to) if isinstance(matrix, StoredMatrix) else convert(matrix)
    for (stored, to), names in rounded.items():
        count = f"{names[0]} is" if len(names) == 1 else f"{len(names)} matrices, the first {names[0]}, are"
        keeps = "; w4a8 and w4a16 keep what it holds" if names[0] in exact else ""
        graph.warnings.append(f"{count} {stored} in the checkpoint and rounded again to {to}{keeps}")


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
    formats = {graph.matrix(product.weight).format for product in op.products() if product.buffer == buffer}
    return min(activation_limit(form, kind, k, op.part) for form in formats)
