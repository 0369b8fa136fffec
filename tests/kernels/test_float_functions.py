"""fp32 functions in C against their numpy namesakes, and square root and half precision against IEEE 754."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from kernel_library import Kernels, same_bits

from colibri.graph.float32 import ACTIVATIONS, F16_MAX, clamped, exp, nearest, silu, to_f16

# Every 1021st of all bit patterns: each exponent, both signs, denormals, infinities and NaNs among them.
PATTERNS = np.arange(0, 1 << 32, 1021, dtype=np.uint64).astype(np.uint32).view(np.float32)
SPECIAL = np.array([0.0, -0.0, 1e-45, -1e-45, np.inf, -np.inf, np.nan, -np.nan, -87.0, 88.0, 3.4e38], np.float32)
# Where exp bends: its ends, and the steps between powers of two.
DENSE = np.concatenate([np.linspace(-90, 90, 1 << 20), np.arange(-130, 131) * np.log(2) / 2]).astype(np.float32)
SWEEP = np.concatenate([PATTERNS, SPECIAL, DENSE])


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Overflow and NaN are part of the sweep."""
    with np.errstate(all="ignore"):
        yield


@pytest.mark.parametrize("name", ["exp", "soft_exp"])
def test_exp(kernels: Kernels, name: str) -> None:
    assert same_bits(kernels.each(name, SWEEP), exp(SWEEP))


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
def test_activation(kernels: Kernels, name: str) -> None:
    assert same_bits(kernels.each(name, SWEEP), ACTIVATIONS[name](SWEEP))


@pytest.mark.parametrize("name", ["sqrt", "soft_sqrt"])
def test_square_root_is_correctly_rounded(kernels: Kernels, name: str) -> None:
    x = np.abs(SWEEP)
    assert same_bits(kernels.each(name, x), np.sqrt(x.astype(np.float64)).astype(np.float32))


def test_soft_square_root_beside_squares_and_half_way_points(kernels: Kernels) -> None:
    roots = np.random.default_rng(0).integers(1 << 23, 1 << 24, 200_000).astype(np.float64)
    x = np.concatenate([(roots + half) ** 2 for half in (0.0, 0.5)]).astype(np.float32)
    x = np.concatenate([x, np.nextafter(x, np.float32(0)), np.nextafter(x, np.float32(np.inf))])
    assert same_bits(kernels.each("soft_sqrt", x), np.sqrt(x))


def test_soft_square_root_of_denormals(kernels: Kernels) -> None:
    x = np.concatenate([np.arange(1, 1 << 16), np.arange(1 << 16, 1 << 23, 97)]).astype(np.uint32).view(np.float32)
    assert same_bits(kernels.each("soft_sqrt", x), np.sqrt(x))


@pytest.mark.parametrize("name", ["soft_multiply", "soft_add", "soft_divide"])
def test_soft_arithmetic(kernels: Kernels, name: str) -> None:
    """Of numbers of all magnitudes, of every kind with every kind, of neighbours, half way between floats, and of sums
    that cancel."""
    rng = np.random.default_rng(0)
    near = (1 + rng.integers(-(1 << 12), 1 << 12, 200_000) * 2.0**-23).astype(np.float32)
    apart = (near * 2.0 ** rng.integers(-30, 30, near.size)).astype(np.float32)
    wide = rng.integers(0, 1 << 32, 400_000, np.uint64).astype(np.uint32).view(np.float32)
    for a, b in (
        (SWEEP, rng.permutation(SWEEP)),
        (wide, rng.permutation(wide)),
        (near, rng.permutation(near)),
        (near, -rng.permutation(near)),
        (apart, rng.permutation(apart)),
        (apart, -near),
        (wide, -wide),
        (np.repeat(SPECIAL, SPECIAL.size), np.tile(SPECIAL, SPECIAL.size)),
    ):
        got = np.empty(a.shape, np.float32)
        kernels.call(name, got, np.ascontiguousarray(a), np.ascontiguousarray(b), a.size)
        want = {"soft_multiply": np.multiply, "soft_add": np.add, "soft_divide": np.divide}[name](a, b)
        assert same_bits(got, want)


def test_soft_silu_times(kernels: Kernels) -> None:
    """Where 1 + e^-x is 1, e^-x, or between, and where e^-x is at its bounds."""
    near = np.linspace(-18, 18, 300_001).astype(np.float32)
    wide = np.linspace(-110, 110, 100_001).astype(np.float32)
    for gate in (SWEEP, near, wide, SPECIAL):
        up = np.random.default_rng(2).standard_normal(gate.size).astype(np.float32)
        got = up.copy()
        kernels.call("soft_silu_times", got, np.ascontiguousarray(gate), gate.size)
        assert same_bits(got, silu(gate) * up)


@pytest.mark.parametrize("x_scale", [0.0, 1e-3, 0.7, 1e30, 1e-38])
def test_soft_scale_of_sums(kernels: Kernels, x_scale: float) -> None:
    rng = np.random.default_rng(1)
    sums = (rng.integers(-(1 << 31), 1 << 31, 200_000) >> rng.integers(0, 32, 200_000)).astype(np.int32)
    uppers = rng.integers(0, 0x7F80, sums.size).astype(np.uint16)
    got = np.empty(sums.size, np.float32)
    kernels.call("soft_store_grouped", got, sums, uppers, x_scale, sums.size)
    scales = (uppers.astype(np.uint32) << 16).view(np.float32)
    assert same_bits(got, (sums.astype(np.float32) * scales) * np.float32(x_scale))


def test_nearest_integer(kernels: Kernels) -> None:
    x = np.concatenate([np.arange(-2000, 2000) / 4, np.linspace(-4e6, 4e6, 100_001)]).astype(np.float32)
    assert np.array_equal(kernels.each("nearest", x, np.int32), np.rint(x).astype(np.int32))


@pytest.mark.parametrize("name", ["nearest_within", "soft_nearest_within"])
@pytest.mark.parametrize("most", [1, 127, 8224, 32767])
def test_nearest_integer_within_limits(kernels: Kernels, name: str, most: int) -> None:
    x = np.concatenate([SWEEP, np.arange(-4 * most - 8, 4 * most + 9) / np.float32(4)]).astype(np.float32)
    x = np.concatenate([x, np.nextafter(x, np.float32(0)), np.nextafter(x, np.float32(np.inf))])
    got = np.empty(x.shape, np.int32)
    kernels.call(name, got, x, x.size, float(most))
    assert np.array_equal(got, nearest(clamped(x, most)))


@pytest.mark.parametrize("most", [1, 127, 4128, 32767])
def test_nearest_integer_of_what_the_largest_has_scaled(kernels: Kernels, most: int) -> None:
    reach = np.float32(most * (1 + 2.0**-22))
    x = np.concatenate([np.linspace(-reach, reach, 1 << 18), np.arange(-2 * most, 2 * most + 1) / 2, [reach, -reach]])
    x = np.concatenate([x.astype(np.float32), PATTERNS[~(np.abs(PATTERNS) > reach)]])
    assert np.isnan(x).any()
    got = np.empty(len(x), np.int32)
    kernels.call("nearest_scaled", got, x, len(x), float(most))
    assert np.array_equal(got, nearest(clamped(x, most)))


def test_largest_magnitude_passes_over_nan(kernels: Kernels) -> None:
    x = np.random.default_rng(3).permutation(SWEEP)[: len(SWEEP) // 7 * 7].reshape(-1, 7)
    x[:8] = np.nan
    x[1, 3], x[2, 0], x[3, 6] = -np.inf, 1e-45, -0.0
    got = np.empty(len(x), np.float32)
    kernels.call("largest", got, np.ascontiguousarray(x), len(x), 7)
    assert same_bits(got, np.where(np.isnan(x), np.float32(0), np.abs(x)).max(axis=1))


def test_wide_sums_round_to_the_nearest_float_ties_to_even(kernels: Kernels) -> None:
    rng = np.random.default_rng(0)
    spread = rng.integers(1, 2**53, 100_000) >> rng.integers(0, 53, 100_000)
    beyond = np.arange(1, 30)  # bits that do not fit the float
    half = (np.arange(2**23, 2**24, 4097)[:, None] << beyond) + (1 << (beyond - 1))
    near = np.concatenate([half - 1, half, half + 1]).reshape(-1)
    sums = np.concatenate([spread, near, [0, 2**31 - 1, 2**31, 2**31 + 1, 2**53 - 1]]).astype(np.int64)
    sums = np.concatenate([sums, -sums, [-(2**31) - 1]])
    assert np.array_equal(kernels.each("from_wide", sums), sums.astype(np.float32))


def test_canonical_nan(kernels: Kernels) -> None:
    out = kernels.each("canonical", PATTERNS).view(np.uint32)
    assert np.array_equal(out, np.where(np.isnan(PATTERNS), np.uint32(0x7FC00000), PATTERNS.view(np.uint32)))


def test_every_finite_half_becomes_its_float(kernels: Kernels) -> None:
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    finite = halves[np.isfinite(halves)]
    assert len(finite) == (1 << 16) - (1 << 11)
    assert same_bits(kernels.each("from_f16", finite.view(np.uint16)), finite.astype(np.float32))


def test_every_finite_half_comes_back(kernels: Kernels) -> None:
    halves = np.arange(1 << 16, dtype=np.uint16)
    finite = halves[np.isfinite(halves.view(np.float16))]
    assert np.array_equal(kernels.each("to_f16", kernels.each("from_f16", finite), np.uint16), finite)


def test_float_to_half(kernels: Kernels) -> None:
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float32)
    middles = (halves[:-1] + halves[1:]) / 2  # exact: ties
    beside = [np.nextafter(middles, np.float32(to)) for to in (0.0, np.inf)]
    x = np.concatenate([SWEEP, middles, -middles, *beside, np.array([F16_MAX, 65519.9, 65520.0, 1e6], np.float32)])
    assert np.array_equal(kernels.each("to_f16", x, np.uint16), to_f16(x).view(np.uint16))
