"""Weights in 8 and 4 bits: ranges, errors, and the rows that are easy to get wrong."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colibri.errors import BadInput
from colibri.graph.coding import F32, FP4, W4, W8, Coding
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


def quantise_w4(dense: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Integers, factors of the groups and row scales."""
    made = round_matrix(Matrix(F32, dense.shape, dense), W4)
    assert made.integers is not None and made.row_scale is not None and made.group_scale is not None
    return made.integers, made.group_scale, made.row_scale


def w4_steps(groups: np.ndarray, row_scale: np.ndarray, k: int) -> np.ndarray:
    """One step of each weight, float64 ``[n, k]``."""
    return np.repeat(groups.astype(np.float64) * row_scale[:, None].astype(np.float64), 32, axis=1)[:, :k]


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


@pytest.mark.parametrize(("n", "k"), SHAPES)
def test_w4_errs_by_at_most_half_a_step(n: int, k: int) -> None:
    dense = normal(n, k, seed=k)
    integers, groups, row_scale = quantise_w4(dense)
    assert (integers.dtype, groups.dtype, row_scale.dtype) == (np.int8, np.uint8, np.float32)
    assert (integers.shape, groups.shape, row_scale.shape) == ((n, k), (n, -(-k // 32)), (n,))
    assert integers.min() >= -8 and integers.max() <= 7
    assert np.all(groups.max(axis=1) == 255)
    step = w4_steps(groups, row_scale, k)
    error = np.abs(integers * step - dense)
    # The group's scale is itself rounded, to a whole number of row scales: at most half of one, times 8.5 steps.
    assert np.all(error <= step / 2 + 4.25 * row_scale[:, None].astype(np.float64) * (1 + 1e-6))
    largest = np.repeat(groups == 255, 32, axis=1)[:, :k]
    assert np.all(error[largest] <= (step / 2)[largest] * (1 + 1e-5))


def test_w4_uses_all_sixteen_values() -> None:
    integers, _, _ = quantise_w4(normal(32, 256))
    assert sorted(set(integers.reshape(-1).tolist())) == list(range(-8, 8))


def test_w4_reaches_both_ends() -> None:
    up, down = np.zeros((1, 32), np.float32), np.zeros((1, 32), np.float32)
    up[0, 3], down[0, 3] = 1.0, -1.0
    assert quantise_w4(up)[0][0, 3] == 7 and quantise_w4(down)[0][0, 3] == -8


@pytest.mark.parametrize("quantiser", [quantise_w8, quantise_w4])
def test_zero_rows_and_zero_groups_are_zero(quantiser) -> None:
    dense = normal(4, 96)
    dense[1] = 0
    dense[2, 32:64] = 0
    integers, *scales = quantiser(dense)
    assert not integers[1].any() and not integers[2, 32:64].any()
    assert integers[2, :32].any() and scales[-1][1] == 0
    if len(scales) == 2:
        assert scales[0][1].tolist() == [0, 0, 0] and scales[0][2, 1] == 0 and scales[0][2, 0] > 0


@pytest.mark.parametrize("value", [1.0, -1.0, 0.3, -7e-12, 3e30])
def test_a_row_of_one_value(value: float) -> None:
    dense = np.full((2, 40), value, np.float32)
    integers, scale = quantise_w8(dense)
    assert np.allclose(integers * scale[:, None], dense, rtol=0.5 / 63, atol=0)
    integers, groups, row_scale = quantise_w4(dense)
    assert set(integers.reshape(-1).tolist()) == {7 if value > 0 else -8}
    step = w4_steps(groups, row_scale, 40)
    assert np.all(np.abs(integers * step - dense) <= step / 2 * (1 + 1e-5))


@pytest.mark.parametrize("quantiser", [quantise_w8, quantise_w4])
@pytest.mark.parametrize("value", [1e-45, 1e-43, 1e-40, 2e-38])
def test_denormal_rows_give_finite_numbers(quantiser, value: float) -> None:
    dense = np.zeros((2, 33), np.float32)
    dense[0, ::2], dense[1, 1] = value, -value
    with np.errstate(all="raise", under="ignore"):
        integers, *scales = quantiser(dense)
    assert np.isfinite(scales[-1]).all() and np.all(scales[-1] >= 0)
    assert not integers[dense == 0].any()


def test_a_w8_row_below_two_to_the_minus_100_counts_as_zeros() -> None:
    least = np.float32(2.0**-100)
    dense = np.zeros((2, 9), np.float32)
    dense[0, 3], dense[1, 3] = least, np.nextafter(least, np.float32(0))
    integers, scale = quantise_w8(dense)
    assert integers[0, 3] * scale[0] == least
    assert not integers[1].any() and scale[1] == 0


@pytest.mark.parametrize("form", [W8, W4])
def test_the_bias_stays_as_it_is(form: Coding) -> None:
    bias = normal(6, 1)[:, 0]
    made = round_matrix(Matrix(F32, (6, 40), dense=normal(6, 40), bias=bias), form)
    assert made.bias is bias and made.dense is None and made.shape == (6, 40)
    assert (made.group_scale is None) == (form == W8)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 6), st.integers(1, 80), st.integers(0, 2**31), st.sampled_from([1e-20, 1e-3, 1.0, 1e20]))
def test_rows_are_quantised_on_their_own(n: int, k: int, seed: int, scale: float) -> None:
    dense = normal(n, k, seed, scale)
    for quantiser in (quantise_w8, quantise_w4):
        whole = quantiser(dense)
        for row in range(n):
            alone = quantiser(dense[row : row + 1])
            assert all(np.array_equal(a[row : row + 1], b) for a, b in zip(whole, alone, strict=True))


def largest_sum(form: Coding, k: int, qmax: int) -> int:
    """Magnitude of the worst sum over k products, every one at its bound."""
    return {W8: 127, W4: 8 * 255, FP4: 12 * 2**20}[form] * qmax * k


@pytest.mark.parametrize("form", [W8, W4, FP4])
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
    assert activation_limit(W4, BufferKind.Q8, 8288, "") == 127
    assert activation_limit(W8, BufferKind.Q8, 133_144, "") == 127
    assert activation_limit(FP4, BufferKind.Q16, 21_846, "") == 32767
    assert activation_limit(FP4, BufferKind.Q16, 21_847, "") < 32767
    assert activation_limit(FP4, BufferKind.Q8, 5_636_440, "") == 127


@pytest.mark.parametrize(("form", "k"), [(W4, 8289), (W8, 133_145), (FP4, 5_636_441)])
@pytest.mark.parametrize("kind", [BufferKind.Q8, BufferKind.Q16])
def test_one_column_more_is_refused(form: Coding, kind: BufferKind, k: int) -> None:
    bits = r"2\^53" if form == FP4 else "32 bits"
    with pytest.raises(BadInput, match=f"^layer 3 / expert 1: {form} sums over {k} columns could pass {bits}"):
        activation_limit(form, kind, k, "layer 3 / expert 1")
