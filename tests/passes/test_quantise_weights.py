"""Weights in 8 bits, and how large activations may be: ranges, errors, and the rows that are easy to get wrong."""

from __future__ import annotations

import numpy as np
import pytest

from colibri.errors import BadInput
from colibri.graph.coding import F32, FP4, W4, W8, Coding, parse_coding
from colibri.graph.graph import BufferKind
from colibri.graph.weights import Matrix
from colibri.passes.grid import round_matrix
from colibri.passes.quantise import activation_limit

SHAPES = [(1, 1), (3, 5), (4, 31), (4, 32), (4, 33), (7, 64), (16, 100), (5, 400), (2, 700)]


def normal(n: int, k: int, seed: int = 0, scale: float = 0.05) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal((n, k)) * scale).astype(np.float32)


def quantise_w8(dense: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Integers and row scales."""
    made = round_matrix(Matrix(F32, dense.shape, dense), W8)
    assert made.integers is not None and made.row_scale is not None
    return made.integers, made.row_scale


@pytest.mark.parametrize(("n", "k"), SHAPES)
def test_w8_is_near_and_never_minus_128(n: int, k: int) -> None:
    dense = normal(n, k, seed=k)
    integers, scale = quantise_w8(dense)
    assert (integers.dtype, integers.shape, scale.dtype, scale.shape) == (np.int8, (n, k), np.float32, (n,))
    assert integers.min() >= -127 and integers.max() <= 127
    largest = np.abs(dense).max(axis=1)
    assert np.all(scale >= largest / 127.5) and np.all(scale <= largest / 63.9)
    step = scale[:, None].astype(np.float64)
    error = np.abs(integers * step - dense)
    # half a step, and for the largest weight what 127 instead of 127.5 leaves
    assert np.all(error <= step * (0.5 + 1e-5))


@pytest.mark.parametrize("k", [1, 8, 40, 300, 600])
def test_w8_search_is_never_worse_than_the_plain_scale(k: int) -> None:
    def cost(integers: np.ndarray, scale: np.ndarray) -> np.ndarray:
        error = integers * scale[:, None].astype(np.float64) - dense
        return (error**2).sum(axis=1) + error.sum(axis=1) ** 2 / 4

    dense = normal(20, k, seed=k)
    plain = (np.abs(dense).max(axis=1) / np.float32(127)).astype(np.float32)
    rounded = np.clip(np.rint(dense / plain[:, None].astype(np.float64)), -127, 127)
    assert np.all(cost(*quantise_w8(dense)) <= cost(rounded, plain) * (1 + 1e-9))


def test_w8_weights_on_a_grid_come_back_exactly() -> None:
    grid = np.random.default_rng(3).integers(-127, 128, (40, 96)).astype(np.float32)
    grid[:, 5] = 127
    integers, scale = quantise_w8(grid * np.float32(2.0**-9))
    assert np.array_equal(integers, grid) and np.all(scale == np.float32(2.0**-9))


def test_a_w8_row_below_two_to_the_minus_100_counts_as_zeros() -> None:
    least = np.float32(2.0**-100)
    dense = np.zeros((2, 9), np.float32)
    dense[0, 3], dense[1, 3] = least, np.nextafter(least, np.float32(0))
    integers, scale = quantise_w8(dense)
    assert integers[0, 3] * scale[0] == least
    assert not integers[1].any() and scale[1] == 0


def largest_sum(form: Coding, k: int, qmax: int) -> int:
    """Magnitude of the worst sum over k products, every one at its bound."""
    if form.outliers:
        return (4 * 127 * k + 127 * -(-k // 20)) * qmax
    if form.zero:  # a zero point reaches a little beyond the integers
        return (255 * 127 >> 5) * qmax * k
    return {W8: 127, W4: 8 * 127, FP4: 12 * 2**20}[form] * qmax * k


@pytest.mark.parametrize("form", [W8, W4, parse_coding("w3+o5"), parse_coding("w3z"), FP4], ids=str)
@pytest.mark.parametrize("kind", [BufferKind.Q8, BufferKind.Q16])
@pytest.mark.parametrize("k", [1, 33, 160, 516, 517, 4096, 8288])
def test_no_sum_can_pass_its_bits_and_no_larger_limit_would_do(form: Coding, kind: BufferKind, k: int) -> None:
    qmax = activation_limit(form, kind, k, "here")
    most, bits = 127 if kind is BufferKind.Q8 else 32767, 53 if form == FP4 else 31
    assert 127 <= qmax <= most and largest_sum(form, k, qmax) <= 2**bits - 1
    assert qmax == most or largest_sum(form, k, qmax + 1) > 2**bits - 1


def test_known_limits() -> None:
    assert activation_limit(W8, BufferKind.Q16, 516, "") == 32767
    assert activation_limit(W8, BufferKind.Q16, 517, "") == 32706
    assert activation_limit(W4, BufferKind.Q8, 16_643, "") == 127
    assert activation_limit(W8, BufferKind.Q8, 133_144, "") == 127
    assert activation_limit(FP4, BufferKind.Q16, 21_846, "") == 32767
    assert activation_limit(FP4, BufferKind.Q16, 21_847, "") < 32767
    assert activation_limit(FP4, BufferKind.Q8, 5_636_440, "") == 127


@pytest.mark.parametrize(("form", "k"), [(W4, 16_644), (W8, 133_145), (FP4, 5_636_441)])
@pytest.mark.parametrize("kind", [BufferKind.Q8, BufferKind.Q16])
def test_one_column_more_is_refused(form: Coding, kind: BufferKind, k: int) -> None:
    bits = r"2\^53" if form == FP4 else "32 bits"
    with pytest.raises(BadInput, match=f"^layer 3 / expert 1: {form} sums over {k} columns could pass {bits}"):
        activation_limit(form, kind, k, "layer 3 / expert 1")
