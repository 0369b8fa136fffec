"""Attention over int8 rows with a scale each, its softmax in integers: `runtime_c/kernels/portable/attend_int8.h`.

A scale is the upper half of an fp32, never below max|x| / 127. All sums over positions are of integers, so that no
order of positions matters. Each step and its bounds stand in docs/numerics.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from colibri.graph.float32 import QUIET, Float, clamped, exp, nearest, quantise
from colibri.graph.graph import Buffer, BufferKind, State, StateType

if TYPE_CHECKING:
    from colibri.emit.c_module import CScope

INT8_MAX = 127
MOST_POSITIONS = 1 << 18  # of a state: what the roundings of so many weights add to their sum still fits
_SIGNIFICAND_MAX = 255
_INT32_MAX = 2**31 - 1
_LOG2_E = np.float32(float.fromhex("0x1.715476p+0"))
_OCTAVES = np.float32(float.fromhex("0x1.715476p+12"))
_FARTHEST = np.float32(131071.0)
_EXP2_TERMS = (2596, 15149, 45324, 65536)  # 2^-f for f from 0 to 1, relative error below 1.4e-4
_GONE = 0xFFFFFFFF

Wide = NDArray[np.int64]
Rows = tuple[NDArray[np.int8], NDArray[np.uint16]]  # [sequences, seen, width] and their scales [sequences, seen]


def query_max(width: int) -> int:
    """The largest integer of a query of so many elements: times any key and significand its sum fits int32."""
    return min(INT8_MAX, _INT32_MAX // (INT8_MAX * _SIGNIFICAND_MAX * width))


def to_int8(x: Float, pieces: int) -> Rows:
    """Rows ``[..., pieces * width]`` as they are kept: int8 of the same shape, and uint16 scales ``[..., pieces]``."""
    parts = x.reshape(*x.shape[:-1], pieces, -1)
    top = np.fmax.reduce(np.abs(parts), axis=-1, initial=np.float32(0.0))
    live = top >= QUIET
    up = (np.asarray(top / np.float32(INT8_MAX), np.float32).view(np.uint32) + np.uint32(0xFFFF)) & np.uint32(
        0xFFFF0000
    )
    up = np.where(live, up, np.uint32(0)).astype(np.uint32)
    scale = np.where(live, up, np.float32(1.0).view(np.uint32)).astype(np.uint32).view(np.float32)
    inverse = np.where(live, np.float32(1.0) / scale, np.float32(0.0)).astype(np.float32)
    y = nearest(clamped(parts * inverse[..., None], INT8_MAX))
    return y.astype(np.int8).reshape(x.shape), (up >> np.uint32(16)).astype(np.uint16)


def attend(
    queries: Sequence[Float],
    keys: Sequence[Rows],
    values: Rows,
    masked: NDArray[np.bool_],
    scale: float,
    *,
    bias: Float | None = None,
    sink: Float | None = None,
) -> Float:
    """One head.

    Args:
        queries: ``[sequences, rows, width]``; several parts are quantised with one scale, and their scores added.
        keys: of each part.
        masked: ``[rows, seen]``, True where a row does not see.
        bias: ``[rows, seen]``, added to the scores.
        sink: a score without a value.

    Returns:
        ``[sequences, rows, width of the values]``.
    """
    widths = [part.shape[-1] for part in queries]
    sequences, rows = queries[0].shape[:2]
    flat = np.concatenate(queries, axis=-1).reshape(sequences * rows, -1)
    integers, query_scale = quantise(flat, query_max(sum(widths)))
    parts = np.split(integers.reshape(sequences, rows, -1), np.cumsum(widths)[:-1], axis=-1)
    power = np.maximum.reduce([_largest_power(scales, masked) for _, scales in keys])
    scores = np.zeros((sequences, rows, masked.shape[1]), np.int64)
    for part, (elements, scales) in zip(parts, keys, strict=True):
        products = _exact(part, elements.swapaxes(1, 2))
        scores += (products * _significand(scales)[:, None]) >> _below(power, scales)
    unit = (query_scale.reshape(sequences, rows) * np.float32(scale)) * _power_of_two(power - 7)
    top = np.where(masked, np.iinfo(np.int64).min, scores).max(axis=-1)
    if bias is None:
        distances = _distances(scores, top, unit * _LOG2_E)
    else:
        distances = _biased_distances(scores, bias, unit, masked)
    found = _weights(np.where(masked, _GONE, distances), values[1], masked)
    total = found.total
    if sink is not None:
        total = total + exp(sink - top.astype(np.float32) * unit)
    factor = _power_of_two(found.power - 30) / total
    return np.asarray(_exact(found.weights, values[0]).astype(np.float32) * factor[..., None])


def _exact(a: NDArray[np.integer], b: NDArray[np.integer]) -> Wide:
    """A product of matrices, through doubles."""
    return (a.astype(np.float64) @ b.astype(np.float64)).astype(np.int64)


def _significand(scales: NDArray[np.uint16]) -> Wide:
    return (scales & 127).astype(np.int64) | 128


def _power(scales: NDArray[np.uint16]) -> Wide:
    return (scales >> 7).astype(np.int64)


def _largest_power(scales: NDArray[np.uint16], masked: NDArray[np.bool_]) -> Wide:
    """Of the scales that each row sees: ``[sequences, rows]``."""
    return np.asarray(np.where(masked, 0, _power(scales)[:, None]).max(axis=-1))


def _below(power: Wide, scales: NDArray[np.uint16]) -> Wide:
    """How far each scale's exponent lies below the row's largest, as a shift; anything where the row does not see."""
    return np.asarray(np.clip(power[..., None] - _power(scales)[:, None], 0, 31))


def _power_of_two(power: Wide) -> Float:
    """2^(power - 127), at least 2^-126."""
    return (np.maximum(power, 1) << 23).astype(np.int32).view(np.float32)


def _distances(scores: Wide, top: Wide, unit: Float) -> Wide:
    """How far scores lie below the top one, in octaves * 2^27; ``unit`` is that of a score in octaves."""
    bits = np.asarray(unit, np.float32).view(np.int32).astype(np.int64)[..., None]
    g = ((bits & 0x7FFFFF) | 0x800000) >> 8
    shift = 115 - (bits >> 23)
    right, left = np.clip(shift, 0, 31), np.clip(-shift, 0, 16)
    near = np.maximum(top[..., None] - scores, 0) >> right
    return np.where(near > 0xFFFF >> left, _GONE, (near << left) * g)


def _biased_distances(scores: Wide, bias: Float, unit: Float, masked: NDArray[np.bool_]) -> Wide:
    biased = scores.astype(np.float32) * unit[..., None] + bias
    top = np.fmax.reduce(np.where(masked, np.float32(-np.inf), biased), axis=-1, initial=np.float32(-np.inf))
    x = (top[..., None] - biased) * _OCTAVES
    return nearest(np.where(x < _FARTHEST, x, _FARTHEST)).astype(np.int64) << 15


def _exp2(x: Wide) -> Wide:
    """2^-x of octaves * 2^27, times 2^23."""
    f = (x >> 12) & 0x7FFF
    p = np.full_like(f, _EXP2_TERMS[0])
    for term in _EXP2_TERMS[1:]:
        p = term - (p * f >> 15)
    return (p << 7) >> (x >> 27)


@dataclass(frozen=True)
class _Softmax:
    """``weights [sequences, rows, seen]`` in units of 2^(power - 157), and the terms' total, apart."""

    weights: Wide
    power: Wide
    total: Float


def _weights(distances: Wide, scales: NDArray[np.uint16], masked: NDArray[np.bool_]) -> _Softmax:
    power = _largest_power(scales, masked)
    terms = _exp2(distances)
    weights = (terms * _significand(scales)[:, None]) >> _below(power, scales)
    peak = np.maximum(weights.sum(axis=-1) >> 9, weights.max(axis=-1))
    shift = np.zeros_like(peak)
    while (large := (peak >> shift) > 32766).any():
        shift += large
    weights = (weights + ((1 << shift) >> 1)[..., None]) >> shift[..., None]
    total = terms.sum(axis=-1)
    part = (total & 0x7FFFFF).astype(np.float32) * np.float32(2.0**-23)
    return _Softmax(weights, power + shift, (total >> 23).astype(np.float32) + part)


def too_long_for_int8(states: Iterable[State]) -> bool:
    """Whether states, if they were int8, would have more positions than their weights have room for in a sum."""
    return any(state.capacity > MOST_POSITIONS for state in states)


def attention_scratch(form: StateType, capacity: int, width: int, at_once: int = 1) -> tuple[Buffer, ...]:
    """What attention needs besides: a score for each position; for int8 states the integers of a query, too.

    Args:
        at_once: heads that may be computed at the same time.
    """
    if form is not StateType.I8:
        return (Buffer("scores", BufferKind.FLOAT, capacity, fixed_rows=at_once),)
    scores = Buffer("scores", BufferKind.INT32, capacity, fixed_rows=at_once)
    return scores, Buffer("query", BufferKind.INT8, width, fixed_rows=at_once)


def int8_kernels(c: CScope, stem: str) -> None:
    """Include a kernel of attention to int8 states, and those that it is made of."""
    c.kernel("rows_int8", inner=True)
    for header in ("softmax_int8", "attend_int8", stem):
        c.kernel(header)


def int8_passes(heads: int, capacity: int, width: int) -> dict[str, int]:
    """How often heads go through their scratch: four rows share a query, four columns of values the weights."""
    return {"scores": heads * (8 + -(-width // 4)), "query": heads * (1 + -(-capacity // 4))}
