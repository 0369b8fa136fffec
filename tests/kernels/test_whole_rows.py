"""Kernels for AVX2 beside the portable ones: every end of a row, at every alignment, on extreme values."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_library import Kernels, same_bits

from colibri.graph.float32 import ACTIVATIONS

F = np.float32
EXTREMES = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45, 1e-38, 3e38, -3e38, 88.0, 88.5, -87.0, -86.9, 104.0]
EXTREMES += [-104.0, 0.5, -0.5, 7.0, -7.0, 65504.0, 2.0**-100]
COUNTS = [*range(1, 41), 64, 100]
SHIFTS = range(4)  # in elements of 4 bytes, from an address that is a multiple of 16
Array = np.ndarray


def placed(values: Array, shift: int) -> Array:
    """The values so many elements behind a multiple of 16 bytes, NaN before and behind them."""
    room = (
        np.full(values.size + 16, np.nan, values.dtype)
        if values.dtype == F
        else np.zeros(values.size + 16, values.dtype)
    )
    begin = (-room.ctypes.data % 16) // room.itemsize + shift
    room[begin : begin + values.size] = values
    return room[begin : begin + values.size]


def mixed(rng: np.random.Generator, count: int) -> Array:
    """Values near 0, of any magnitude, and extreme ones."""
    values = (rng.standard_normal(count) * 4).astype(F)
    wide = rng.random(count) < 0.2
    values[wide] *= F(2) ** rng.integers(-60, 60, wide.sum()).astype(F)
    odd = rng.random(count) < 0.2
    values[odd] = rng.choice(np.array(EXTREMES, F), odd.sum())
    return values


@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize("name", list(ACTIVATIONS))
def test_activations(avx2: Kernels, portable: Kernels, name: str, shift: int) -> None:
    rng = np.random.default_rng(shift)
    for count in COUNTS:
        gate, up = mixed(rng, count), mixed(rng, count)
        rows, products = [], []
        for kernels in (avx2, portable):
            rows.append(placed(gate, shift))
            kernels.call(f"{name}_row", rows[-1], count)
            products.append(placed(up, shift))
            kernels.call(f"{name}_times", products[-1], placed(gate, 3 - shift), count)
        assert same_bits(*rows)
        assert same_bits(*products)


@pytest.mark.parametrize("shift", SHIFTS)
def test_clipped_swiglu(avx2: Kernels, portable: Kernels, shift: int) -> None:
    rng = np.random.default_rng(shift)
    for count in COUNTS:
        gate, up = mixed(rng, count), mixed(rng, count)
        found = []
        for kernels in (avx2, portable):
            found.append(placed(up, shift))
            kernels.call("clipped_swiglu_row", found[-1], placed(gate, 3 - shift), count, 1.702, 7.0)
        assert same_bits(*found)


@pytest.mark.parametrize("shift", SHIFTS)
def test_rows_that_are_added_clipped_and_normed(avx2: Kernels, portable: Kernels, shift: int) -> None:
    rng = np.random.default_rng(shift)
    for count in COUNTS:
        x, y, w, b = (mixed(rng, count) for _ in range(4))
        calls = [
            ("add", placed(y, 3 - shift), count),
            ("add_weighted", placed(y, 3 - shift), 0.7, count),
            ("clip", 3.0, count),
            ("combine", placed(y, 3 - shift), 0.3, True, count),
            ("combine", placed(y, 3 - shift), -0.3, False, count),
            ("rms_norm", placed(y, shift), placed(w, 3 - shift), count, 1e-5),
            ("layer_norm", placed(y, shift), placed(w, 3 - shift), placed(b, shift), count, 1e-5),
        ]
        for name, *arguments in calls:
            found = []
            for kernels in (avx2, portable):
                found.append(placed(x, shift))
                kernels.call(name, found[-1], *arguments)
            assert same_bits(*found), (name, count)


@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("name", ["store", "store_scaled", "store_grouped"])
def test_stores(avx2: Kernels, portable: Kernels, name: str, biased: bool, shift: int) -> None:
    rng = np.random.default_rng(shift)
    for count in COUNTS:
        scale, bias = mixed(rng, count), placed(mixed(rng, count), shift) if biased else None
        sums = rng.integers(-(2**31), 2**31, count).astype(np.int32)
        sums[rng.random(count) < 0.2] = rng.choice([0, -1, 2**31 - 1, -(2**31), 1 << 24])
        upper = np.array(scale.view(np.uint32) >> 16, np.uint16)
        operands = [placed(scale, shift)] if name == "store" else [sums, placed(scale, 3 - shift)]
        if name == "store_grouped":
            operands[1] = placed(upper, shift)
        found = []
        for kernels in (avx2, portable):
            found.append(placed(np.zeros(count, F), shift))
            kernels.call(name, found[-1], *operands, bias, *([] if name == "store" else [0.37]), count)
        assert same_bits(*found)


@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize("head_dim", range(2, 44, 2))
def test_rope(avx2: Kernels, portable: Kernels, head_dim: int, shift: int) -> None:
    rng = np.random.default_rng(head_dim)
    for heads in (1, 2, 3):
        coarse, fine = (placed(rng.standard_normal(4 * head_dim).astype(F), shift) for _ in range(2))
        x = mixed(rng, heads * head_dim)
        for position in (0, 5, 15):
            found = []
            for kernels in (avx2, portable):
                found.append(placed(x, 3 - shift))
                kernels.call("rope", found[-1], coarse, fine, position, 4, heads, head_dim)
            assert same_bits(*found)


@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize("bits", [8, 16])
def test_quantise(avx2: Kernels, portable: Kernels, bits: int, shift: int) -> None:
    rng = np.random.default_rng(shift)
    for count in COUNTS:
        x = mixed(rng, count)
        stride = -(-count // 16) * 16
        found, scales = [], []
        for kernels in (avx2, portable):
            found.append(np.full(stride, 99, np.int8 if bits == 8 else np.int16))
            scales.append(np.zeros(1, F))
            kernels.call(f"quantise{bits}", found[-1], scales[-1], placed(x, shift), count, stride, 127.0)
        assert np.array_equal(*found)
        assert same_bits(*scales)


def rows_of_scores(rng: np.random.Generator, n: int) -> list[Array]:
    """Random ones, ones with many ties, and nothing but NaN, infinities or zeros of both signs."""
    few = np.array([0.0, -0.0, 1.0, np.nan, -np.inf, np.inf, 2.0, -3.0], F)
    rows = [rng.standard_normal(n).astype(F) for _ in range(20)]
    rows += [rng.choice(few[:size], n) for size in (2, 3, 4, 5, 6, 8) for _ in range(10)]
    rows += [rng.choice(few[3:5], n) for _ in range(5)]
    return rows + [np.full(n, value, F) for value in few] + [np.arange(n, dtype=F), -np.arange(n, dtype=F)]


@pytest.mark.parametrize("renormalise", [False, True])
@pytest.mark.parametrize("n", [*range(1, 42), 60, 64, 65, 100, 127, 128, 129, 256])
def test_router(avx2: Kernels, portable: Kernels, n: int, renormalise: bool) -> None:
    rng = np.random.default_rng(n)
    for k in sorted({1, 2, 3, 4, 8, 10, n} & set(range(1, n + 1))):
        for number, scores in enumerate(rows_of_scores(rng, n)):
            found = []
            for kernels in (avx2, portable):
                index, weight = np.full(k, 99, np.uint32), np.zeros(k, F)
                kernels.call("router", index, weight, placed(scores, number % 4), n, k, renormalise)
                found.append((index, weight))
            assert found[0][0].tolist() == found[1][0].tolist()
            assert same_bits(found[0][1], found[1][1])


@pytest.mark.parametrize("state", ["f32", "f16"])
@pytest.mark.parametrize("head_dim", [*range(1, 42), 64])
def test_attention(avx2: Kernels, portable: Kernels, head_dim: int, state: str) -> None:
    """A ring of 19 places, more than twice around, with values that states can hold."""
    rng = np.random.default_rng(head_dim)
    heads, kv_heads, capacity = 4, 2, 19
    width, stored = kv_heads * head_dim, F if state == "f32" else np.uint16
    kept = [[placed(np.zeros(capacity * width, stored), 1) for _ in range(2)] for _ in range(2)]
    for position in range(45):
        q, k, v = (
            mixed(rng, count) if position % 7 == 3 else rng.standard_normal(count).astype(F)
            for count in (heads * head_dim, width, width)
        )
        sinks = np.array([0.5, -9.0, 20.0, np.inf], F) if position % 3 == 0 else None
        found = []
        for kernels, states in zip((avx2, portable), kept, strict=True):
            out, scores = placed(np.zeros(heads * head_dim, F), 2), placed(np.zeros(capacity, F), 3)
            rows = placed(q, 1), placed(k, 2), placed(v, 3)
            shape = heads, kv_heads, head_dim, capacity
            kernels.call(
                f"attention_{state}", out, *rows, *states, scores, sinks, position, *shape, position % 5 == 4, 0.3
            )
            found.append(out)
        assert same_bits(*found), position
        assert all(a.tobytes() == b.tobytes() for a, b in zip(*kept, strict=True))
