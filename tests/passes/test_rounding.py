"""Rounding in fp32 gives the integers of a division in fp64."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from colibri.passes.rounding import group_extremes, round_to_integers

RNG = np.random.default_rng(9)
Kind = Callable[[np.ndarray], np.ndarray]
KINDS: dict[str, Kind] = {
    "random": lambda x: x,
    "bf16": lambda x: (x.view(np.uint32) >> 16 << 16).view(np.float32),
    "middles": lambda x: (np.rint(x * 10) + np.float32(0.5)) * np.float32(0.37),
    "near middles": lambda x: np.nextafter((np.rint(x * 10) + np.float32(0.5)) * np.float32(0.37), x),
    "huge": lambda x: x * np.float32(5e37),
    "tiny": lambda x: x * np.float32(1e-36),
    "denormal": lambda x: x * np.float32(1e-41),
    "mostly zeros": lambda x: np.where(np.abs(x) > 2, x, np.float32(0)),
}


@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_the_integers_are_those_of_a_division_in_fp64(kind: str, groups: int) -> None:
    dense = KINDS[kind](RNG.standard_normal((300, 128)).astype(np.float32)).astype(np.float32)
    blocks = np.abs(dense).reshape(300, groups, -1)
    for top, least, most in ((127.0, -127, 127), (7.5, -8, 7)):
        scale = (blocks.max(axis=2) / top).astype(np.float32).astype(np.float64)
        live = scale > 0
        scale = np.where(live, scale, 1.0)
        wide = np.repeat(scale, 128 // groups, axis=1)
        plain = np.clip(np.rint(dense.astype(np.float64) / wide), least, most)
        plain = np.where(np.repeat(live, 128 // groups, axis=1), plain, 0).astype(np.int8)
        assert np.array_equal(round_to_integers(dense, scale, live, least, most), plain)


@pytest.mark.parametrize("group", [32, 64, 128])
@pytest.mark.parametrize("shape", [(1, 128), (3, 256), (5, 384), (0, 128)])
def test_extremes_of_groups(shape: tuple[int, int], group: int) -> None:
    dense = RNG.standard_normal(shape).astype(np.float32)
    top, low = group_extremes(dense, group)
    groups = dense.reshape(shape[0], shape[1] // group, group)
    assert np.array_equal(top, groups.max(axis=2)) and np.array_equal(low, groups.min(axis=2))
