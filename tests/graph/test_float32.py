"""fp32 arithmetic of the contract against float64, and its rules at the edges."""

from __future__ import annotations

import math

import numpy as np
import pytest

from colibri.graph import float32
from colibri.graph.float32 import lane_dot, lane_sum, quantise, softmax_terms, to_f16
from colibri.graph.ops.router import top_k

F = np.float32
erfc = np.vectorize(math.erfc)
NAN, INF = F(np.nan), F(np.inf)


def f32(*values: float) -> np.ndarray:
    return np.array(values, F)


def every_magnitude(limit: float, count: int = 40_001) -> np.ndarray:
    """Values between -limit and limit, evenly spread and by powers of two."""
    small = np.exp2(np.linspace(-40, math.log2(limit), count // 2))
    return np.concatenate([np.linspace(-limit, limit, count), small, -small]).astype(F)


def test_exp_is_within_its_documented_relative_error() -> None:
    x = every_magnitude(86.9)
    right = np.exp(x.astype(np.float64))
    assert np.max(np.abs(float32.exp(x) / right - 1)) < 2.6e-7


def test_exp_at_the_edges() -> None:
    assert float32.exp(f32(0.0, -0.0)).tolist() == [1.0, 1.0]
    assert float32.exp(f32(-87.0, -87.5, -1e30, -np.inf, np.nan)).tolist() == [0.0] * 5
    assert float32.exp(f32(-86.99))[0] > 0
    top = float32.exp(f32(88.0, 88.1, 1e30, np.inf))
    assert len(set(top.tolist())) == 1 and abs(top[0] / math.exp(88) - 1) < 2.6e-7


def test_exp_never_falls_by_more_than_a_rounding() -> None:
    x = np.linspace(-87, 88, 200_001).astype(F)
    y = float32.exp(x).astype(np.float64)
    assert np.all(y[1:] >= y[:-1] * (1 - 3e-7))


@pytest.mark.parametrize(
    ("name", "right", "relative", "absolute"),
    [
        ("sigmoid", lambda x: 1 / (1 + np.exp(-x)), 5e-7, 1e-37),
        ("silu", lambda x: x / (1 + np.exp(-x)), 5e-7, 1e-35),
        ("tanh", np.tanh, 0.0, 2.0**-22),
        ("relu", lambda x: np.maximum(x, 0), 0.0, 0.0),
        ("identity", lambda x: x, 0.0, 0.0),
        ("gelu", lambda x: 0.5 * x * erfc(-x * math.sqrt(0.5)), 3e-7, 2.0**-24),
        (
            "gelu_tanh",
            lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
            3e-7,
            2.0**-22 * 3,
        ),
    ],
)
def test_activation_against_float64(name: str, right, relative: float, absolute: float) -> None:
    x = every_magnitude(100.0)
    with np.errstate(over="ignore"):
        want = right(x.astype(np.float64))
    got = float32.ACTIVATIONS[name](x)
    assert got.dtype == F
    assert np.all(np.abs(got - want) <= relative * np.abs(want) + absolute)


def test_every_activation_is_covered_above() -> None:
    assert set(float32.ACTIVATIONS) == {"sigmoid", "silu", "tanh", "relu", "identity", "gelu", "gelu_tanh"}


def test_relu_of_nan_and_of_minus_zero_is_plus_zero() -> None:
    out = float32.relu(f32(np.nan, -0.0, -1.0, 2.0))
    assert out.tolist() == [0.0, 0.0, 0.0, 2.0] and not np.signbit(out).any()


def plain_lane_sum(values: np.ndarray) -> np.float32:
    """The written order, one addition at a time."""
    lanes = [F(0)] * 8
    for i, value in enumerate(values):
        lanes[i % 8] = F(lanes[i % 8] + value)
    for half in (4, 2, 1):
        lanes = [F(lanes[i] + lanes[i + half]) for i in range(half)]
    return lanes[0]


@pytest.mark.parametrize("width", [1, 2, 7, 8, 9, 15, 16, 100, 129])
def test_lane_sum_and_dot_follow_the_written_order(width: int) -> None:
    rng = np.random.default_rng(width)
    a = (rng.standard_normal((3, width)) * 10.0 ** rng.integers(-3, 4, (3, width))).astype(F)
    b = rng.standard_normal((3, width)).astype(F)
    assert lane_sum(a).tolist() == [plain_lane_sum(row) for row in a]
    assert lane_dot(a, b).tolist() == [plain_lane_sum(row) for row in a * b]
    assert lane_dot(a[:, None], b[None]).shape == (3, 3)
    assert lane_dot(a[:, None], b[None])[0, 2] == plain_lane_sum(a[0] * b[2])


def test_lane_sum_order_can_be_seen_in_the_bits() -> None:
    values = np.random.default_rng(0).standard_normal((50, 200)).astype(F)
    sequential = np.cumsum(values, axis=1, dtype=F)[:, -1]
    assert np.any(lane_sum(values) != sequential)


def test_lane_sum_does_not_depend_on_memory_layout() -> None:
    values = np.random.default_rng(5).standard_normal((40, 48)).astype(F)
    assert np.array_equal(lane_sum(values), lane_sum(np.asfortranarray(values)))


def test_matvec_has_one_sequential_accumulator() -> None:
    rng = np.random.default_rng(2)
    x, w = rng.standard_normal((3, 37)).astype(F), rng.standard_normal((5, 37)).astype(F)
    want = np.zeros((3, 5), F)
    for r in range(3):
        for n in range(5):
            total = F(0)
            for k in range(37):
                total = F(total + F(x[r, k] * w[n, k]))
            want[r, n] = total
    assert np.array_equal(float32.matvec(x, w), want)


@pytest.mark.parametrize("qmax", [127, 1000, 32767])
def test_quantise_takes_the_nearest_step(qmax: int) -> None:
    x = np.random.default_rng(qmax).standard_normal((20, 33)).astype(F)
    integers, scale = quantise(x, qmax)
    top = np.abs(x).max(axis=1)
    assert np.array_equal(scale, (top / F(qmax)).astype(F))
    assert np.abs(integers).max() == qmax
    exact = x.astype(np.float64) * qmax / top[:, None].astype(np.float64)
    assert np.max(np.abs(integers - exact)) < 0.5 + qmax * 2e-7
    assert integers.dtype == np.int32


def test_quantise_ties_go_to_the_even_integer() -> None:
    integers, scale = quantise(f32(127, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 126.5)[None], 127)
    assert integers.tolist() == [[127, 0, 2, 2, 0, -2, -2, 126]]
    assert scale.tolist() == [1.0]


def test_quantise_of_zero_tiny_and_special_rows() -> None:
    rows = np.zeros((6, 4), F)
    rows[1] = 2.0**-101  # below the least magnitude that counts
    rows[2, 0] = 2.0**-100
    rows[3] = f32(np.nan, 2.0, -1.0, 0.0)
    rows[4] = np.nan
    rows[5] = f32(np.inf, -np.inf, 1.0, 0.0)
    with np.errstate(all="ignore"):
        integers, scale = quantise(rows, 127)
    assert integers[:2].tolist() == [[0] * 4] * 2 and scale[:2].tolist() == [0, 0]
    assert integers[2].tolist() == [127, 0, 0, 0] and scale[2] == F(2.0**-100) / F(127)
    assert integers[3].tolist() == [-127, 127, -64, 0] and scale[3] == F(2) / F(127)
    assert integers[4].tolist() == [-127] * 4 and scale[4] == 0
    assert integers[5].tolist() == [-127, -127, 0, 0] and scale[5] == INF
    assert np.abs(integers).max() <= 127


def test_half_precision_saturates_and_rounds_to_even() -> None:
    x = f32(65504, 65519, 1e9, np.inf, -1e9, -np.inf, np.nan, 1 + 2**-11, 1 + 3 * 2**-11, 2**-25, 2**-24, 0.1)
    top, step = 65504.0, 2.0**-10
    want = [top, top, top, top, -top, -top, -top, 1.0, 1 + 2 * step, 0.0, 2.0**-24, float(np.float16(0.1))]
    assert to_f16(x).astype(np.float64).tolist() == want


def test_top_k_ties_go_to_the_lower_index() -> None:
    assert top_k(f32(1, 3, 3, 2)[None], 1).tolist() == [[1]]
    assert top_k(f32(1, 3, 3, 3)[None], 2).tolist() == [[1, 2]]
    assert top_k(f32(5, 5, 5, 5)[None], 3).tolist() == [[0, 1, 2]]
    assert top_k(f32(0.0, -0.0, -1.0)[None], 1).tolist() == [[0]]


def test_top_k_is_ascending_and_nan_is_the_smallest() -> None:
    assert top_k(f32(9, 1, 5, 7)[None], 3).tolist() == [[0, 2, 3]]
    assert top_k(f32(np.nan, 1, -5)[None], 2).tolist() == [[1, 2]]
    assert top_k(f32(np.nan, np.nan, np.nan)[None], 2).tolist() == [[0, 1]]
    assert top_k(f32(np.nan, -np.inf, 3)[None], 2).tolist() == [[0, 2]]


def test_top_k_against_sorting_pairs() -> None:
    scores = np.random.default_rng(1).integers(0, 4, (300, 8)).astype(F)  # many ties
    for row, chosen in zip(scores, top_k(scores, 3), strict=True):
        want = sorted(sorted(range(8), key=lambda i: (-row[i], i))[:3])
        assert chosen.tolist() == want


def test_softmax_terms_against_float64() -> None:
    scores = np.random.default_rng(4).standard_normal((50, 9)).astype(F) * 5
    terms, inverse = softmax_terms(scores)
    wide = np.exp(scores.astype(np.float64) - scores.max(axis=1, keepdims=True))
    assert np.max(np.abs(terms * inverse - wide / wide.sum(axis=1, keepdims=True))) < 5e-7


def test_outputs_carry_one_nan() -> None:
    odd = np.array([0xFFC00001, 0x7F800001, 0x3F800000], np.uint32).view(F)
    assert float32.canonical(odd).view(np.uint32).tolist() == [0x7FC00000, 0x7FC00000, 0x3F800000]
