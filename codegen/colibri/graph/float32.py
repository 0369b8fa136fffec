"""fp32 arithmetic of the numbers contract (docs/numerics.md), on numpy arrays.

Each function is the meaning of its namesake in `runtime_c/kernels/portable/float32.h`: the same operations in the
same order, so the bits agree. Only + - * / sqrt, compares and bit moves are used; `.sum`, `.mean` and `@` are not,
since their order depends on the memory layout.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float32]
Int = NDArray[np.int32]

LANES = 8
# Adding 1.5 * 2^23 leaves the nearest integer, ties to even, in the low bits: valid for |x| < 2^22.
ROUND = np.float32(12582912.0)
_ROUND_BITS = np.int32(0x4B400000)
QUIET = np.float32(2.0**-100)  # rows whose largest magnitude is smaller become zeros
_LOG2_E = np.float32(float.fromhex("0x1.715476p+0"))
_LN2_HIGH = np.float32(float.fromhex("0x1.63p-1"))
_LN2_LOW = np.float32(float.fromhex("-0x1.bd0106p-13"))
# 1/6! down to 1/0!: Taylor on |r| <= ln(2)/2; the relative error of e^x stays below 2.6e-7.
_EXP_TERMS = tuple(np.float32(1.0 / d) for d in (720.0, 120.0, 24.0, 6.0, 2.0, 1.0, 1.0))
_EXP_LOW = np.float32(-87.0)
_EXP_HIGH = np.float32(88.0)
_ZERO = np.float32(0.0)
_ONE = np.float32(1.0)
_TWO = np.float32(2.0)
_HALF = np.float32(0.5)
_GELU_SLOPE = np.float32(float.fromhex("0x1.988454p-1"))
_GELU_CUBIC = np.float32(float.fromhex("0x1.6e4e26p-5"))
# erfc(a / sqrt(2)) * e^(a^2 / 2) / 2 as a polynomial in t = 1 / (1 + 0.3 a), highest power first, without a constant:
# fitted to a relative error below 1.2e-7 for a from 0 to 13.2, where e^(-a^2 / 2) ends.
_ERFC_SLOPE = np.float32(float.fromhex("0x1.333334p-2"))
_ERFC_TERMS = tuple(
    np.float32(float.fromhex(term))
    for term in (
        "0x1.27a384p-5",
        "-0x1.457ec2p-3",
        "0x1.acbd46p-3",
        "-0x1.ce6e64p-5",
        "0x1.0a4e42p-3",
        "0x1.9768dap-4",
        "0x1.eee78cp-4",
        "0x1.e9fb6cp-4",
    )
)
F16_MAX = np.float32(65504.0)


def lane_sum(values: Float) -> Float:
    """Sum over the last axis: 8 strided lanes, then one tree (halves added to halves)."""
    width = values.shape[-1]
    lanes = np.zeros((*values.shape[:-1], LANES), np.float32)
    for start in range(0, width, LANES):
        block = values[..., start : start + LANES]
        lanes[..., : block.shape[-1]] += block
    return lane_tree(lanes)


def lane_dot(a: Float, b: Float) -> Float:
    """`lane_sum` of ``a * b`` (which broadcast), without holding all products at once."""
    width = a.shape[-1]
    lanes = np.zeros((*np.broadcast_shapes(a.shape[:-1], b.shape[:-1]), LANES), np.float32)
    for start in range(0, width, LANES):
        block = slice(start, min(start + LANES, width))
        lanes[..., : block.stop - start] += a[..., block] * b[..., block]
    return lane_tree(lanes)


def lane_tree(lanes: Float) -> Float:
    """Fold ``[..., 8]`` lanes: 8 to 4 to 2 to 1, upper half onto lower half."""
    four = lanes[..., :4] + lanes[..., 4:]
    two = four[..., :2] + four[..., 2:]
    return np.asarray(two[..., 0] + two[..., 1], np.float32)


def matvec(x: Float, w: Float) -> Float:
    """``x[rows, k]`` times ``w[n, k]`` transposed: one sequential accumulator for each output."""
    acc = np.zeros((x.shape[0], w.shape[0]), np.float32)
    columns = np.ascontiguousarray(w.T)
    for k in range(w.shape[1]):
        acc += x[:, k, None] * columns[k]
    return acc


def exp(x: Float) -> Float:
    """e^x; 0 for x <= -87 and for NaN; x above 88 counts as 88."""
    live = x > _EXP_LOW
    x = np.where(live, x, _ZERO)
    x = np.where(x > _EXP_HIGH, _EXP_HIGH, x)
    t = x * _LOG2_E + ROUND
    power = t.view(np.int32) - _ROUND_BITS
    whole = t - ROUND
    r = x - whole * _LN2_HIGH
    r = r - whole * _LN2_LOW
    p = np.full_like(r, _EXP_TERMS[0])
    for term in _EXP_TERMS[1:]:
        p = p * r + term
    scale = ((power + np.int32(127)) << np.int32(23)).view(np.float32)
    return np.asarray(np.where(live, p * scale, _ZERO), np.float32)


def sigmoid(x: Float) -> Float:
    """1 / (1 + e^-x)."""
    return np.asarray(_ONE / (_ONE + exp(-x)), np.float32)


def silu(x: Float) -> Float:
    """x / (1 + e^-x)."""
    return np.asarray(x / (_ONE + exp(-x)), np.float32)


def tanh(x: Float) -> Float:
    """1 - 2 / (1 + e^2x): absolute error below 2^-22, not relative."""
    return np.asarray(_ONE - _TWO / (_ONE + exp(_TWO * x)), np.float32)


def relu(x: Float) -> Float:
    """x where x > 0, else +0 (also for NaN)."""
    return np.asarray(np.where(x > _ZERO, x, _ZERO), np.float32)


def gelu_tanh(x: Float) -> Float:
    """The tanh form of GELU, as `gelu_pytorch_tanh` names it."""
    inner = (x + (x * x * x) * _GELU_CUBIC) * _GELU_SLOPE
    return np.asarray((x * _HALF) * (_ONE + tanh(inner)), np.float32)


def gelu(x: Float) -> Float:
    """``x * (1 + erf(x / sqrt(2))) / 2``, as PyTorch's GELU without an approximation."""
    t = _ONE / (_ONE + np.abs(x) * _ERFC_SLOPE)
    p = np.full_like(t, _ERFC_TERMS[0])
    for term in _ERFC_TERMS[1:]:
        p = p * t + term
    tail = exp((x * x) * -_HALF) * (p * t)
    return np.asarray(x * np.where(x > _ZERO, _ONE - tail, tail), np.float32)


def clipped_swiglu(gate: Float, up: Float, alpha: float, limit: float) -> Float:
    """``(up + 1) * (gate * sigmoid(gate * alpha))`` with gate at most ``limit`` and up within it; NaN counts as it."""
    most = np.float32(limit)
    gate = np.where(gate < most, gate, most)
    low = np.where(up > -most, up, -most)
    up = np.where(low < most, low, most)
    return np.asarray((up + _ONE) * (gate * sigmoid(gate * np.float32(alpha))), np.float32)


def identity(x: Float) -> Float:
    """x."""
    return x


ACTIVATIONS: dict[str, Callable[[Float], Float]] = {
    "identity": identity,
    "relu": relu,
    "silu": silu,
    "sigmoid": sigmoid,
    "tanh": tanh,
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
}


def to_f16(x: Float) -> NDArray[np.float16]:
    """Round to half precision, nearest even; beyond +-65504 counts as +-65504, NaN as -65504."""
    low = np.where(x > -F16_MAX, x, -F16_MAX)
    return np.where(low < F16_MAX, low, F16_MAX).astype(np.float16)


def nearest(x: Float) -> Int:
    """The nearest integer, ties to even; |x| < 2^22."""
    return np.asarray(np.asarray(x + ROUND, np.float32).view(np.int32) - _ROUND_BITS)


def clamped(x: Float, limit: int) -> Float:
    """x within +-limit; NaN is minus the limit."""
    most = np.float32(limit)
    low = np.where(x > -most, x, -most)
    return np.where(low < most, low, most)


def quantise(x: Float, qmax: int) -> tuple[Int, Float]:
    """Quantise each row of ``x[rows, k]``.

    Returns:
        integers in -qmax..qmax as int32 ``[rows, k]`` and the scale ``[rows]``. A row whose largest magnitude is
        below 2^-100 becomes zeros with scale 0; NaN becomes -qmax.
    """
    top = np.fmax.reduce(np.abs(x), axis=1, initial=_ZERO)  # a maximum has no order; NaN is passed over
    limit = np.float32(qmax)
    live = top >= QUIET
    safe = np.where(live, top, _ONE)
    scale = np.where(live, top / limit, _ZERO).astype(np.float32)
    inverse = np.where(live, limit / safe, _ZERO).astype(np.float32)
    return nearest(clamped(x * inverse[:, None], qmax)), scale


def canonical(x: Float) -> Float:
    """Outputs carry one NaN, 0x7fc00000, since its sign and payload differ between processors."""
    return np.where(np.isnan(x), np.float32(np.nan), x)


def softmax_terms(scores: Float) -> tuple[Float, Float]:
    """``e^(s - max)`` over the last axis and the reciprocal of their 8-lane sum ``[..., 1]``."""
    top = np.fmax.reduce(scores, axis=-1, initial=np.float32(-np.inf))
    terms = exp(scores - top[..., None])
    return terms, np.asarray(_ONE / lane_sum(terms), np.float32)[..., None]
