"""Rounding for outputs: nearer than each weight by itself, whatever the coding, and never without a number."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from colibri.graph.coding import F32, parse_coding
from colibri.graph.weights import Matrix
from colibri.passes.gptq import Inputs, damped, round_by_importance, round_for_outputs
from colibri.passes.linear_algebra import product, row_sums, solve, upper_factor

# Of the integers of one matrix in w4, on every machine.
INTEGERS = "72e8f083ed7724c2"


def inputs(k: int, rows: int = 400, seed: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Rows with directions of very different size, and their second moments."""
    rng = np.random.default_rng(seed)
    mixed = rng.standard_normal((k, k)) * np.geomspace(3, 0.05, k)
    x = rng.standard_normal((rows, k)) @ mixed
    return x, x.T @ x / rows


def matrix(n: int, k: int, seed: int = 6, bias: bool = False) -> Matrix:
    rng = np.random.default_rng(seed)
    offsets = rng.standard_normal(n).astype(np.float32) if bias else None
    return Matrix(F32, (n, k), dense=(rng.standard_normal((n, k)) * 0.1).astype(np.float32), bias=offsets)


def test_factors_and_products_are_right() -> None:
    _, second = inputs(9)
    factor = upper_factor(second)
    assert not np.tril(factor, -1).any()
    np.testing.assert_allclose(factor @ factor.T, second, rtol=1e-9)
    right = np.arange(27.0).reshape(3, 9)
    np.testing.assert_allclose(solve(factor, right) @ second, right, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(product(right, second), right @ second, rtol=1e-12)
    np.testing.assert_allclose(row_sums(right), right.sum(axis=1))
    with pytest.raises(ValueError, match="not positive definite"):
        upper_factor(np.zeros((2, 2)))


@pytest.mark.parametrize(
    "word", ["w8", "w6", "w5", "w4", "w3", "w2", "w4g64", "w4z", "w3g64z", "w4+o5", "w3g64+o10", "w2z+o5"]
)
def test_outputs_are_nearer_than_with_each_weight_by_itself(word: str) -> None:
    coding = parse_coding(word)
    x, second = inputs(96)
    given = matrix(24, 96)
    known = Inputs(damped(second))
    wanted = x @ given.values.T.astype(np.float64)

    def off(made: Matrix) -> float:
        assert made.coding == coding
        assert np.isfinite(made.values).all()
        return float(np.square(x @ made.values.T.astype(np.float64) - wanted).mean())

    assert off(round_for_outputs(given, coding, known)) < 0.7 * off(round_by_importance(given, coding, known))


def test_integers_are_the_same_everywhere() -> None:
    rows = (np.arange(64 * 40) * 7919 % 1009 - 504).reshape(64, 40) / 504
    second = sum(row[:, None] * row for row in rows) / 64
    given = Matrix(F32, (4, 40), dense=(np.arange(160) * 31 % 97 - 48).reshape(4, 40).astype(np.float32) / 48)
    made = round_for_outputs(given, parse_coding("w4"), Inputs(damped(second)))
    assert made.integers is not None and made.row_scale is not None and made.group_scale is not None
    raw = made.integers.tobytes() + made.row_scale.tobytes() + made.group_scale.tobytes()
    assert hashlib.sha256(raw).hexdigest()[:16] == INTEGERS


def test_rows_do_not_depend_on_each_other() -> None:
    _, second = inputs(40)
    given, known = matrix(6, 40), Inputs(damped(second))
    whole = round_for_outputs(given, parse_coding("w4"), known)
    alone = round_for_outputs(given.rows(2, 3), parse_coding("w4"), known)
    np.testing.assert_array_equal(whole.values[2:3], alone.values)


def test_columns_that_nothing_reaches_and_rows_of_zeros() -> None:
    _, second = inputs(40)
    second[:, 30:], second[30:, :] = 0, 0
    given = matrix(5, 40)
    assert given.dense is not None
    given.dense[2] = 0
    for word in ("w8", "w4", "w2z", "w4+o5"):
        made = round_for_outputs(given, parse_coding(word), Inputs(damped(second)))
        assert np.isfinite(made.values).all()
        assert np.abs(made.values[2]).max() < 1e-6
    for nothing in (np.zeros((40, 40)), np.full((40, 40), 1e-30)):
        assert np.isfinite(round_for_outputs(given, parse_coding("w4"), Inputs(damped(nothing))).values).all()


def test_what_layers_before_err_is_made_good() -> None:
    rng = np.random.default_rng(8)
    before, _ = inputs(32)
    x = before * 0.9 + 0.05 * rng.standard_normal(before.shape)  # as a bad layer would leave them
    given = matrix(16, 32)
    wanted = before @ given.values.T.astype(np.float64)
    second, apart = x.T @ x / len(x), (before - x).T @ x / len(x)

    def off(known: Inputs) -> float:
        made = round_for_outputs(given, parse_coding("w8"), known)
        return float(np.square(x @ made.values.T.astype(np.float64) - wanted).mean())

    assert off(Inputs(damped(second), apart)) < 0.3 * off(Inputs(damped(second)))


def test_a_bias_takes_up_what_is_constant() -> None:
    rng = np.random.default_rng(9)
    x = rng.standard_normal((300, 16)) * 0.1 + 2
    mean = x.mean(axis=0)
    second = x.T @ x / len(x) - mean[:, None] * mean
    given = matrix(8, 16, bias=True)
    assert given.bias is not None
    made = round_for_outputs(given, parse_coding("w4"), Inputs(damped(second), None, mean, mean))
    assert made.bias is not None
    off = x @ made.values.T.astype(np.float64) + made.bias - x @ given.values.T.astype(np.float64) - given.bias
    assert np.abs(off.mean(axis=0)).max() < 1e-5
