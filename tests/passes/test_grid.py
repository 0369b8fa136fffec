"""Grids of 2 to 6 bits: what rounding to them may err by, and that the search finds better ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colibri.errors import BadInput
from colibri.graph.coding import F32, W8, Coding, parse_coding
from colibri.graph.weights import Matrix
from colibri.passes.grid import Grid, choose_grid, column_energy, most_energetic, round_matrix, round_to_grid
from colibri.passes.quantise import coded

CODINGS = [parse_coding(word) for word in ["w6", "w5g64", "w4", "w3g128", "w2", "w2z", "w3g64z", "w4z", "w6z"]]
SHAPES = [(1, 1), (3, 5), (4, 31), (4, 32), (4, 33), (7, 64), (5, 400), (2, 700)]
each_coding = pytest.mark.parametrize("coding", CODINGS, ids=str)


def normal(n: int, k: int, seed: int = 0, scale: float = 0.05) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal((n, k)) * scale).astype(np.float32)


def wide(of_groups: np.ndarray, coding: Coding, k: int) -> np.ndarray:
    """Of each column."""
    return np.repeat(of_groups, coding.group, axis=1)[:, :k]


def error(made: Matrix, dense: np.ndarray) -> np.ndarray:
    assert made.row_scale is not None
    return made.combined * made.row_scale[:, None].astype(np.float64) - dense


@each_coding
@pytest.mark.parametrize("search", [False, True])
@pytest.mark.parametrize(("n", "k"), SHAPES)
def test_bytes_are_within_their_ranges(coding: Coding, n: int, k: int, search: bool) -> None:
    grid = choose_grid(normal(n, k), coding, search=search)
    integers = round_to_grid(normal(n, k), grid)
    low, high = coding.limits
    assert grid.factors is not None and grid.factors.dtype == np.int8 and grid.factors.shape == (n, coding.groups(k))
    assert grid.factors.min() >= (0 if coding.zero else -127) and integers.min() >= low and integers.max() <= high
    assert (integers.dtype, integers.shape) == (np.int8, (n, k))
    assert (grid.zeros is not None) is coding.zero
    assert not np.any(grid.row_scale.view(np.uint32) & 0xFFFF)


@each_coding
@pytest.mark.parametrize(("n", "k"), SHAPES)
def test_without_a_search_no_weight_errs_by_more_than_half_a_step(coding: Coding, n: int, k: int) -> None:
    dense = normal(n, k, seed=k)
    grid = choose_grid(dense, coding, search=False)
    missed = np.abs(error(grid.matrix(Matrix(F32, (n, k), dense), round_to_grid(dense, grid)), dense))
    # A factor is rounded, by half a row scale at most, which counts for each integer; a zero point by half its unit.
    step = wide(np.abs(grid.step), coding, k)
    slack = grid.row_scale[:, None] * (2.0**coding.format.bits / 2 + 2) + step / 2 ** (coding.zero_shift + 1)
    assert np.all(missed <= step / 2 + slack)


@each_coding
def test_the_search_leaves_less_error(coding: Coding) -> None:
    dense = normal(64, 160, seed=5)
    plain, searched = (error(round_matrix(Matrix(F32, dense.shape, dense), coding, search=on), dense) for on in (0, 1))
    assert np.square(searched).sum() < 0.95 * np.square(plain).sum()


@each_coding
def test_columns_that_matter_more_err_less(coding: Coding) -> None:
    dense, importance = normal(64, 160, seed=5), np.where(np.arange(160) % 8 == 0, 100.0, 1.0)
    alike, weighed = (
        error(round_matrix(Matrix(F32, dense.shape, dense), coding, weight), dense) for weight in (None, importance)
    )
    assert (np.square(weighed) * importance).sum() < 0.9 * (np.square(alike) * importance).sum()


@each_coding
def test_columns_that_are_never_used_do_no_harm(coding: Coding) -> None:
    dense = normal(8, 96)
    for importance in (np.zeros(96), np.where(np.arange(96) < 32, 0.0, 1.0)):
        made = round_matrix(Matrix(F32, dense.shape, dense), coding, importance)
        assert np.all(np.isfinite(made.combined)) and np.abs(error(made, dense)).max() < 0.2


@each_coding
def test_a_column_is_rounded_as_the_matrix(coding: Coding) -> None:
    dense = normal(9, 75)
    grid = choose_grid(dense, coding)
    integers, made = round_to_grid(dense, grid), round_matrix(Matrix(F32, dense.shape, dense), coding)
    for column in range(75):
        assert np.array_equal(grid.nearest(column, dense[:, column].astype(np.float64)), integers[:, column])
        assert np.allclose(grid.value(column, integers[:, column]), made.values[:, column], rtol=1e-6, atol=1e-12)


@each_coding
def test_zero_rows_and_zero_groups_are_zero(coding: Coding) -> None:
    dense = normal(4, 384)
    dense[1], dense[2, 128:256] = 0, 0
    made = round_matrix(Matrix(F32, dense.shape, dense), coding)
    assert made.row_scale is not None and made.row_scale[1] == 0
    assert not made.combined[1].any() and not made.combined[2, 128:256].any() and made.combined[2, :128].any()


@each_coding
@pytest.mark.parametrize("value", [1e-45, 1e-43, 1e-40, 2e-38, 3e38])
def test_denormal_and_huge_rows_give_finite_numbers(coding: Coding, value: float) -> None:
    dense = np.zeros((2, 33), np.float32)
    dense[0, ::2], dense[1, 1] = value, -value
    with np.errstate(all="raise", under="ignore"):
        made = round_matrix(Matrix(F32, dense.shape, dense), coding)
    assert made.row_scale is not None and np.isfinite(made.row_scale).all() and np.isfinite(made.values).all()
    assert coding.zero or not made.combined[dense == 0].any()


@pytest.mark.parametrize("sign", [1, -1])
def test_the_larger_end_is_where_the_extreme_weight_is(sign: int) -> None:
    dense = normal(1, 32) * np.float32(0.1)
    dense[0, 3] = sign
    made = round_matrix(Matrix(F32, dense.shape, dense), parse_coding("w4"), search=False)
    assert made.integers is not None and made.group_scale is not None
    assert made.integers[0, 3] == -8 and made.group_scale[0, 0] * sign < 0


@each_coding
@settings(max_examples=15, deadline=None)
@given(st.integers(1, 6), st.integers(1, 80), st.integers(0, 2**31), st.sampled_from([1e-20, 1e-3, 1.0, 1e20]))
def test_rows_are_rounded_on_their_own(coding: Coding, n: int, k: int, seed: int, scale: float) -> None:
    dense = normal(n, k, seed, scale)
    whole = round_matrix(Matrix(F32, (n, k), dense), coding)
    for row in range(n):
        alone = round_matrix(Matrix(F32, (1, k), dense[row : row + 1]), coding)
        assert np.array_equal(whole.combined[row : row + 1], alone.combined)


@pytest.mark.parametrize("word", ["w4+o5", "w2z+o10", "w3g128+o50"])
def test_columns_of_the_tail_are_nearly_exact(word: str) -> None:
    coding, dense = parse_coding(word), normal(24, 130)
    dense[:, [3, 77]] *= 4
    made = coded(Matrix(F32, dense.shape, dense), coding)
    assert isinstance(made, Matrix) and made.tail is not None and made.tail_columns is not None
    columns = made.tail_columns.tolist()
    assert columns == sorted(set(columns)) and {3, 77} <= set(columns)
    assert made.tail.shape == (24, -(-130 * coding.outliers // 100)) == (24, len(columns))
    assert made.row_scale is not None
    inside = np.abs(made.tail) < 127
    units = np.abs(error(made, dense))[:, columns] / made.row_scale[:, None]
    assert np.all(units[inside] <= 0.5 + 1e-6) and inside.mean() > 0.95


def test_the_tail_takes_the_columns_of_the_most_energy() -> None:
    dense = np.ones((2, 40), np.float32)
    dense[:, [7, 30]], dense[0, 11] = 3, -2
    energy = column_energy(dense)
    assert energy[7] == 18 and energy[11] == 5
    assert most_energetic(energy, parse_coding("w4+o8")).tolist() == [0, 7, 11, 30]  # of the others the first


def test_a_matrix_too_wide_for_a_tail_is_refused() -> None:
    with pytest.raises(BadInput, match=r"^coding 'w4\+o1': a matrix of 65,537 columns can have no tail"):
        coded(Matrix(F32, (1, 65537), np.ones((1, 65537), np.float32)), parse_coding("w4+o1"))


@pytest.mark.parametrize("word", ["w8", "w4", "w2z", "f16"])
def test_the_bias_stays_as_it_is(word: str) -> None:
    bias = normal(6, 1)[:, 0]
    made = round_matrix(Matrix(F32, (6, 40), dense=normal(6, 40), bias=bias), parse_coding(word))
    assert made.bias is bias and made.shape == (6, 40) and str(made.coding) == word


def test_half_precision_rounds_to_even_and_stays_finite() -> None:
    dense = np.array([[1 + 2**-11, 1 + 3 * 2**-11, 1e6, -1e6, 1e-8]], np.float32)
    made = round_matrix(Matrix(F32, dense.shape, dense), parse_coding("f16"))
    assert made.values.tolist() == [[1.0, 1 + 2**-9, 65504.0, -65504.0, 0.0]]


def test_w8_has_one_step_a_row() -> None:
    grid = Grid(W8, np.array([0.5, 0.0], np.float32))
    assert grid.nearest(3, np.array([1.1, 7.0])).tolist() == [2, 0] and grid.step.tolist() == [[0.5], [0.0]]
