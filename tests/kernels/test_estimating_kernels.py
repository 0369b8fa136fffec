"""Kernels that estimate, for cores without an FPU, against the numpy reference: no bit may depend on an estimate."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from kernel_library import Kernels, reference_run, same_bits

from colibri.graph.coding import F32
from colibri.graph.float32 import quantise, silu
from colibri.graph.ops import RmsNorm, Router
from colibri.graph.weights import Matrix, Vector

F = np.float32


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Overflow and NaN are part of the rows."""
    with np.errstate(all="ignore"):
        yield


# ---- hidden values ----


def upper(scales: np.ndarray) -> np.ndarray:
    """The upper 16 bits of fp32."""
    return (scales.view(np.uint32) >> 16).astype(np.uint16)


def rows_of_sums(rng: np.random.Generator, count: int, width: int) -> Iterator[tuple[np.ndarray, ...]]:
    """Sums and row scales of gate and up, and a scale: usual ones, and what an estimate has to leave alone."""
    for row in range(count):
        gate, up = (rng.standard_normal((2, width)) * 10.0 ** rng.uniform(1, 6, (2, 1))).astype(np.int32)
        scales = (2.0 ** rng.uniform(-11, -7, (2, width))).astype(F)
        x_scale = F(2.0 ** rng.uniform(-9, -3))
        kind = row % 16
        if kind == 1:  # outliers
            gate[rng.integers(width)] *= 40
            up[rng.integers(width)] *= 40
        elif kind == 2:  # ties for the largest, and equal values
            gate[:], up[:], scales[:] = gate[0], up[0], scales[:, :1]
        elif kind == 3:
            gate[rng.random(width) < 0.5] = 0
            up[rng.random(width) < 0.5] = 0
        elif kind == 4:
            up[:] = 0
        elif kind == 5:
            gate, up = (rng.integers(-(1 << 31), 1 << 31, (2, width)) >> rng.integers(0, 31, (2, width))).astype(
                np.int32
            )
        elif kind == 6:
            scales[0, rng.random(width) < 0.3] = 0
        elif kind == 7:
            scales[1, rng.integers(width)] = F(1e-41)
        elif kind == 8:
            scales *= (2.0 ** rng.integers(-100, 100, (2, width))).astype(F)
        elif kind == 9:
            x_scale = F(2.0 ** rng.integers(-126, 127))
        elif kind == 10:
            x_scale = (F(0), F(np.inf), F(np.nan), F(1e-40))[row // 16 % 4]
        elif kind == 11:  # gates near the end of what is estimated
            gate = rng.choice([-1, 1], width).astype(np.int32) * rng.integers(30, 70, width).astype(np.int32)
            scales[0], x_scale = F(2), F(0.5)
        elif kind == 12:  # all hidden values faint: gates far below 0
            gate, x_scale = -np.abs(gate) - 1, F(2.0**-50)
        elif kind == 13:  # powers of two: many values half way between integers
            up = (1 << rng.integers(0, 12, width)).astype(np.int32)
            gate[:], scales[:] = 100, F(2.0**-8)
        elif kind == 14:  # all nearly the largest
            gate, scales[:], x_scale = rng.integers(1 << 14, 1 << 16, width).astype(np.int32), F(2.0**-8), F(2.0**-6)
            up = np.rint(2.0**21 / silu((gate * 2.0**-14).astype(F))).astype(np.int32)
        elif kind == 15:  # 0 times what overflows is no number, and so the least integer
            gate[0] = 0
            scales[1, 0], up[0] = F((2.0**120, np.inf, np.nan)[row // 16 % 3]), 1 << 20
            if row // 48 % 2:
                gate, up, scales = up, gate, scales[::-1].copy()
        yield gate, up, scales[0], scales[1], x_scale


@pytest.mark.parametrize("width", [1, 2, 31, 160])
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("qmax", [127, 100, 1])
def test_hidden_values(kernels: Kernels, width: int, grouped: bool, qmax: int) -> None:
    stride = width + 5
    name = "soft_hidden_grouped" if grouped else "soft_hidden_scaled"
    for gate, up, gate_scale, up_scale, x_scale in rows_of_sums(np.random.default_rng(width), 800, width):
        told = [gate_scale, up_scale]
        if grouped:
            told = [upper(one) for one in told]
            gate_scale, up_scale = ((one.astype(np.uint32) << 16).view(F) for one in told)
        y, scale, values = np.full(stride, 77, np.int8), np.zeros(1, F), np.empty(width, F)
        kernels.call(
            name, y, scale, values, up, told[1], gate, told[0], np.array([x_scale], F), width, stride, float(qmax)
        )
        floats = [(one.astype(F) * of) * x_scale for one, of in ((gate, gate_scale), (up, up_scale))]
        want, want_scale = quantise((silu(floats[0]) * floats[1])[None], qmax)
        assert np.array_equal(y[:width], want[0]) and not y[width:].any()
        assert same_bits(scale, want_scale)


def test_error_of_estimated_hidden_values(kernels: Kernels) -> None:
    """Below 2^-12 for gates of all magnitudes up to 44 and either sign."""
    rng = np.random.default_rng(0)
    gate = rng.integers(1 << 20, 1 << 24, 1 << 20).astype(np.int32) * rng.choice([-1, 1], 1 << 20).astype(np.int32)
    up = rng.integers(1, 1 << 31, gate.size).astype(np.int32)
    gate_scale = (2.0 ** rng.uniform(-50, -18.6, gate.size)).astype(F)
    up_scale = (2.0 ** rng.uniform(-20, 0, gate.size)).astype(F)
    values = np.empty(gate.size, F)
    kernels.call("soft_hidden_estimates", values, up, up_scale, gate, gate_scale, 1.0, gate.size)
    real = gate.astype(np.float64) * gate_scale
    assert np.abs(real).max() > 40
    want = real / (1 + np.exp(-real)) * (up.astype(np.float64) * up_scale)
    error = np.abs(values / want - 1)
    assert 1.0e-4 < error.max() < 2.0**-12  # an error of nothing would be no estimate's


# ---- norms ----


def rows_to_norm(rng: np.random.Generator, width: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for row in range(300):
        x, w = rng.standard_normal((2, width)).astype(F)
        kind = row % 10
        if kind == 1:
            x *= (10.0 ** rng.integers(-12, 12, width)).astype(F)
        elif kind == 2:
            x[rng.random(width) < 0.5] = 0
            w[rng.random(width) < 0.5] = 0
        elif kind == 3:
            x[:], w[:] = x[0], -1
        elif kind == 4:
            x *= F((1e-42, 1e-30, 1e-19, 1e18, 1e25, 3e38)[row // 10 % 6])
        elif kind == 5:
            x[rng.integers(width)] = (np.inf, -np.inf, np.nan, 1e-45, -0.0)[row // 10 % 5]
        elif kind == 6:
            if row // 40 % 2:  # 0 times infinity
                x[0], w[0] = 0, (np.inf, np.nan)[row // 80 % 2]
            else:
                w *= F((1e-40, 1e-12, 1e12, 1e38)[row // 10 % 4])
        elif kind == 7:
            x[:] = 0
        elif kind == 8:
            x = (2.0 ** rng.integers(-8, 8, width)).astype(F)
        elif kind == 9:  # all nearly the largest
            w = F(1) / x
        yield x, w


@pytest.mark.parametrize("width", [1, 7, 8, 33, 128])
@pytest.mark.parametrize("eps", [0.0, 1e-5])
def test_norm_and_quantised_norm(kernels: Kernels, width: int, eps: float) -> None:
    op = RmsNorm(None, "", slot="w", x="x", out="y", weight="w", width=width, eps=eps)
    stride = width + 3
    for x, w in rows_to_norm(np.random.default_rng(width), width):
        run = reference_run({"w": Vector(w)}, floats={"x": x[None]})
        op.reference(run)
        want = run.floats["y"]
        got, y, scale, values = (
            np.empty((1, width), F),
            np.full(stride, 77, np.int8),
            np.zeros(1, F),
            np.empty(width, F),
        )
        kernels.call("soft_rms_norm", got, x, w, width, eps)
        assert same_bits(got, want)
        kernels.call("soft_rms_norm_int8", y, scale, values, x, w, width, stride, eps, 127.0)
        integers, want_scale = quantise(want, 127)
        assert np.array_equal(y[:width], integers[0]) and not y[width:].any()
        assert same_bits(scale, want_scale)


def test_sum_of_squares_of_a_wide_row_that_overflows(kernels: Kernels) -> None:
    width = 4096
    op = RmsNorm(None, "", slot="w", x="x", out="y", weight="w", width=width, eps=1e-5)
    w = np.ones(width, F)
    for largest in (float.fromhex("0x1.fffffep55"), float.fromhex("0x1.fffffep59"), 2.0**61):
        x = np.full(width, largest, F)
        run = reference_run({"w": Vector(w)}, floats={"x": x[None]})
        op.reference(run)
        got = np.empty((1, width), F)
        kernels.call("soft_rms_norm", got, x, w, width, 1e-5)
        assert same_bits(got, run.floats["y"])


# ---- routers ----


def routers(rng: np.random.Generator, n: int, width: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for row in range(200):
        w, x = rng.standard_normal((n, width)).astype(F), rng.standard_normal(width).astype(F)
        kind = row % 10
        if kind == 1:  # equal scores
            w[:] = w[0]
        elif kind == 2:  # scores that differ in their last bits
            w = np.nextafter(np.broadcast_to(w[0], w.shape), rng.choice([F(-np.inf), F(np.inf)], w.shape)).astype(F)
        elif kind == 3:
            w *= (10.0 ** rng.integers(-9, 9, w.shape)).astype(F)
            x *= (10.0 ** rng.integers(-9, 9, width)).astype(F)
        elif kind == 4:
            w[rng.random(w.shape) < 0.5] = 0
            x[rng.random(width) < 0.5] = 0
        elif kind == 5:
            x *= F((1e-42, 1e-30, 1e30, 3e38)[row // 10 % 4])
        elif kind == 6:
            x[rng.integers(width)] = (np.inf, -np.inf, np.nan)[row // 10 % 3]
        elif kind == 7:
            w[rng.integers(n), rng.integers(width)] = (np.inf, np.nan, 3e38)[row // 10 % 3]
        elif kind == 8:
            w[:], x[:] = 0, 0
            if row // 10 % 2:  # no magnitude on one side, a large one on the other
                w[:] = np.where(rng.random(w.shape) < 0.5, F(-0.0), F(0.0))
                x[:] = F(2.0**80)
        elif kind == 9:  # all of one sign: floats round most
            w, x = np.abs(w[:1] + rng.standard_normal((n, 1)).astype(F) * F(1e-6)), np.abs(x)
        yield np.ascontiguousarray(w), x


@pytest.mark.parametrize(("n", "top_k"), [(1, 1), (4, 1), (8, 2), (16, 4), (5, 5)])
@pytest.mark.parametrize("width", [1, 24, 128, 200])
def test_router(kernels: Kernels, n: int, top_k: int, width: int) -> None:
    op = Router(
        None, "", x="x", route="route", weight="w", num_experts=n, k=width, top_k=top_k, renormalise=True, bias=False
    )
    for w, x in routers(np.random.default_rng(n * width), n, width):
        run = reference_run({"w": Matrix(F32, w.shape, w)}, floats={"x": x[None]})
        op.reference(run)
        want = run.routes["route"]
        index, weight = np.zeros(top_k, np.uint32), np.zeros(top_k, F)
        kernels.call("soft_route", index, weight, np.empty(n, F), np.empty(width, np.int32), w, x, n, width, top_k)
        assert np.array_equal(index, want.index[0])
        assert same_bits(weight, want.weight[0].astype(F))


# ---- rows by a factor ----


def test_row_by_a_factor(kernels: Kernels) -> None:
    rng = np.random.default_rng(0)
    wide = rng.integers(0, 1 << 32, 20_000, np.uint64).astype(np.uint32).view(F)
    factors = [0.0, -0.0, 1.0, -2.0, 1e-45, 1e-39, 1.2e-38, 2e-38, 3e38, np.inf, np.nan, 0.3333]
    for factor in [*factors, *rng.integers(0, 1 << 32, 300, np.uint64).astype(np.uint32).view(F)]:
        got = np.empty_like(wide)
        kernels.call("soft_scale_row", got, wide, float(factor), wide.size)
        assert same_bits(got, wide * F(factor))
