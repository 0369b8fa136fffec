"""Portable kernels of one row each, against the numpy reference of their op."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_library import Kernels, reference_run, same_bits

from colibri.graph.coding import F32
from colibri.graph.float32 import quantise
from colibri.graph.ops import (
    AddWeighted,
    Clip,
    GroupedRouter,
    LayerNorm,
    PositionScale,
    RmsNorm,
    Rope,
    Router,
    SparseMixer,
)
from colibri.graph.ops.rope import rope_tables
from colibri.graph.weights import Matrix, Vector

F = np.float32
KINDS_OF_SUM = [("store_scaled", 2**31, np.int32), ("store_grouped", 2**31, np.int32), ("store_wide", 2**53, np.int64)]
WIDTHS = (1, 2, 7, 8, 9, 12, 16, 31, 96, 192)


def wide_range(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Values of many magnitudes, so that the order of a sum shows."""
    return (rng.standard_normal(shape) * 10.0 ** rng.integers(-4, 5, shape)).astype(F)


# ---- quantise ----


def quantise_rows(width: int) -> np.ndarray:
    """Rows of all kinds: plain, zero, tiny, huge, with infinities and NaN, and with ties."""
    rng = np.random.default_rng(width)
    rows = wide_range(rng, 20, width)
    rows[1] = 0
    rows[2] = F(2.0**-101)
    rows[3] = F(2.0**-100)
    rows[4] = np.nextafter(F(2.0**-100), F(0))
    rows[5] = F(3e38) * rng.standard_normal(width).clip(-1, 1)
    rows[6, 0] = np.inf
    rows[7, -1] = -np.inf
    rows[8, width // 2] = np.nan
    rows[9] = np.nan
    rows[10] = F(-1e-40)
    rows[11] = np.arange(width) / 2
    rows[11, 0] = 127.0
    rows[12] = -0.0
    return rows


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("bits", "qmax"), [(8, 127), (16, 32767), (16, 1000), (16, 127)])
@pytest.mark.parametrize("soft", ["", "soft_"])
def test_quantise(kernels: Kernels, soft: str, bits: int, qmax: int, width: int) -> None:
    dtype = np.int8 if bits == 8 else np.int16
    rows = quantise_rows(width)
    stride = -(-width // 32) * 32
    with np.errstate(all="ignore"):
        integers, scales = quantise(rows, qmax)
    for row, want, scale in zip(rows, integers, scales, strict=True):
        y, got = np.full(stride + 1, 99, dtype), np.empty(1, F)
        kernels.call(f"{soft}quantise{bits}", y, got, row, width, stride, float(qmax))
        assert np.array_equal(y[:width], want)
        assert not y[width:stride].any() and y[stride] == 99
        assert same_bits(got, scale[None])


# ---- router ----


def score_rows(n: int) -> list[np.ndarray]:
    """Scores: plain, few values (ties), all equal, with NaN and infinities, signed zeros, far apart."""
    rng = np.random.default_rng(n)
    rows = [rng.standard_normal(n) for _ in range(6)]
    rows += [rng.integers(0, 3, n) for _ in range(6)]
    rows += [np.full(n, 0.25), np.full(n, np.nan), np.full(n, -np.inf), np.full(n, np.inf), np.arange(n) * 60.0]
    rows += [np.where(rng.random(n) < 0.3, np.nan, rng.integers(0, 3, n)) for _ in range(6)]
    rows += [np.where(rng.random(n) < 0.3, -np.inf, rng.standard_normal(n)) for _ in range(3)]
    rows += [np.where(rng.random(n) < 0.3, np.inf, rng.standard_normal(n)) for _ in range(3)]
    rows += [np.where(rng.random(n) < 0.5, 0.0, -0.0)]
    return [np.asarray(row, F) for row in rows]


@pytest.mark.parametrize("renormalise", [False, True])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 8, 11, 32])
def test_router(kernels: Kernels, n: int, renormalise: bool) -> None:
    for scores in score_rows(n):
        # The bias brings the scores in: zero times zero adds nothing.
        matrix = Matrix(F32, (n, 1), np.zeros((n, 1), F), bias=scores)
        run = reference_run({"router": matrix}, floats={"x": np.zeros((1, 1), F)})
        for k in range(1, n + 1):
            with np.errstate(all="ignore"):
                Router(0, "", "x", "route", "router", n, 1, k, renormalise, True).reference(run)
            index, weight = np.empty(k, np.uint32), np.empty(k, F)
            kernels.call("router", index, weight, run.floats["router_scores"][0].copy(), n, k, renormalise)
            assert index.tolist() == run.routes["route"].index[0].tolist()
            assert same_bits(weight, run.routes["route"].weight[0])


@pytest.mark.parametrize("best", [1, 2])
@pytest.mark.parametrize("score", ["softmax", "sigmoid"])
@pytest.mark.parametrize("sizes", [(4,), (1, 1, 1), (3, 3, 3, 3), (2, 5, 1), (0, 2, 4)])
def test_grouped_router(kernels: Kernels, sizes: tuple[int, ...], score: str, best: int) -> None:
    n, groups = sum(sizes), len(sizes)
    rng = np.random.default_rng(n)
    for number, scores in enumerate(score_rows(n)):
        correction = np.asarray(rng.integers(-1, 2, n) / 4, F)
        matrix = Matrix(F32, (n, 1), np.zeros((n, 1), F), bias=scores)
        weights = {"router": matrix, "c": Vector(correction)}
        for kept in range(1, groups + 1):
            for k in range(1, min(n, max(1, sum(sorted(sizes)[:kept]))) + 1):
                run = reference_run(weights, floats={"x": np.zeros((1, 1), F)})
                how = k, number % 2 == 0, score, sizes, kept, best
                with np.errstate(all="ignore"):
                    GroupedRouter(0, "", "x", "route", "router", "c", 1, *how).reference(run)
                index, weight = np.empty(k, np.uint32), np.empty(k, F)
                scratch = scores.copy(), np.empty(n, F), np.empty(groups, F), correction, np.asarray(sizes, np.uint32)
                flags = score == "softmax", best == 2, number % 2 == 0
                kernels.call("grouped_router", index, weight, *scratch, n, groups, kept, k, *flags)
                assert index.tolist() == run.routes["route"].index[0].tolist()
                assert same_bits(weight, run.routes["route"].weight[0])


@pytest.mark.parametrize("n", [2, 3, 4, 8, 11, 32])
@pytest.mark.parametrize("width", [0.02, 0.2, 1.5])
def test_sparse_mixer(kernels: Kernels, n: int, width: float) -> None:
    for scores in [*score_rows(n), *(-np.abs(row) for row in score_rows(n)[:6])]:
        matrix = Matrix(F32, (n, 1), np.zeros((n, 1), F), bias=scores)
        run = reference_run({"router": matrix}, floats={"x": np.zeros((1, 1), F)})
        with np.errstate(all="ignore"):
            SparseMixer(0, "", "x", "route", "router", n, 1, width).reference(run)
        index, weight = np.empty(2, np.uint32), np.empty(2, F)
        kernels.call("sparse_mixer", index, weight, scores.copy(), np.empty(n, F), n, width)
        assert index.tolist() == run.routes["route"].index[0].tolist()
        assert same_bits(weight, run.routes["route"].weight[0])


# ---- norms, rope ----


@pytest.mark.parametrize("width", WIDTHS)
def test_rms_norm(kernels: Kernels, width: int) -> None:
    rng = np.random.default_rng(width)
    rows = np.concatenate([wide_range(rng, 20, width), np.zeros((1, width), F), np.full((1, width), 1e-30, F)])
    rows = np.concatenate([rows, np.full((1, width), 3e30, F), np.full((1, width), np.nan, F)])
    weight = wide_range(rng, width)
    run = reference_run({"w": Vector(weight)}, floats={"x": rows})
    with np.errstate(all="ignore"):
        RmsNorm(0, "", "norm", "x", "y", "w", width, 1e-5).reference(run)
    for row, want in zip(rows, run.floats["y"], strict=True):
        got = np.empty(width, F)
        kernels.call("rms_norm", got, row, weight, width, 1e-5)
        assert same_bits(got, want)


@pytest.mark.parametrize("width", WIDTHS)
def test_layer_norm(kernels: Kernels, width: int) -> None:
    rng = np.random.default_rng(width)
    rows = np.concatenate([wide_range(rng, 20, width), np.zeros((1, width), F), np.full((1, width), 7.0, F)])
    rows = np.concatenate([rows, np.full((1, width), 3e30, F), np.full((1, width), np.nan, F)])
    weight, bias = wide_range(rng, 2, width)
    run = reference_run({"w": Vector(weight), "b": Vector(bias)}, floats={"x": rows})
    with np.errstate(all="ignore"):
        LayerNorm(0, "", "norm", "x", "y", "w", "b", width, 1e-5).reference(run)
    for row, want in zip(rows, run.floats["y"], strict=True):
        got = np.empty(width, F)
        kernels.call("layer_norm", got, row, weight, bias, width, 1e-5)
        assert same_bits(got, want)


@pytest.mark.parametrize(
    ("heads", "head_dim", "context"), [(1, 2, 1), (4, 2, 50), (4, 8, 100), (3, 6, 64), (2, 32, 513)]
)
def test_rope(kernels: Kernels, heads: int, head_dim: int, context: int) -> None:
    frequencies = 10000.0 ** (-np.arange(0, head_dim, 2) / head_dim)
    coarse, fine, step = rope_tables(frequencies, context)
    x = wide_range(np.random.default_rng(context), context, heads * head_dim)
    run = reference_run({"a": Vector(coarse), "b": Vector(fine)}, length=context, floats={"x": x})
    Rope(0, "", "x", "a", "b", step, heads, head_dim).reference(run)
    for position in range(context):
        got = x[position].copy()
        kernels.call("rope", got, coarse, fine, position, step, heads, head_dim)
        assert same_bits(got, run.floats["x"][position])
        if head_dim == 2:
            pairs = x[position].copy()
            kernels.call("rope_2", pairs, coarse, fine, position, step, heads)
            assert same_bits(pairs, got)


# ---- small ones ----


@pytest.mark.parametrize("width", WIDTHS)
def test_add_combine_and_last_row(kernels: Kernels, width: int) -> None:
    rng = np.random.default_rng(width)
    x, y = wide_range(rng, 3, width)[:2]
    x[0], y[0] = -0.0, -0.0
    weight = F(0.3)
    added = x.copy()
    kernels.call("add", added, y, width)
    assert same_bits(added, x + y)

    combined = np.full(width, np.nan, F)
    kernels.call("combine", combined, x, float(weight), True, width)
    assert same_bits(combined, weight * x) and np.signbit(combined[0])
    kernels.call("combine", combined, y, float(weight), False, width)
    assert same_bits(combined, weight * x + weight * y)

    rows, last = wide_range(rng, 3, width), np.empty(width, F)
    kernels.call("last_row", last, rows, 2, width)
    assert same_bits(last, rows[2])


@pytest.mark.parametrize("width", WIDTHS)
def test_position_scale(kernels: Kernels, width: int) -> None:
    x, factor = wide_range(np.random.default_rng(width), 5, width), np.linspace(0.5, 2, 5).astype(F)
    run = reference_run({"f": Vector(factor)}, length=5, floats={"x": x})
    PositionScale(0, "", "x", "f", width).reference(run)
    for position in range(5):
        got = x[position].copy()
        kernels.call("position_scale", got, factor, position, width)
        assert same_bits(got, run.floats["x"][position])


@pytest.mark.parametrize("count", [1, 3, 4, 8])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("kind", KINDS_OF_SUM)
def test_scales_and_bias_behind_a_product(
    kernels: Kernels, count: int, with_bias: bool, kind: tuple[str, int, type[np.generic]]
) -> None:
    rng = np.random.default_rng(count)
    for _ in range(20):
        name, most, dtype = kind
        sums = rng.integers(-most + 1, most, count).astype(dtype)
        scale, bias, x_scale = wide_range(rng, count), wide_range(rng, count), wide_range(rng, 1)[0]
        stored = scale
        if name != "store_scaled":  # the upper 16 bits
            stored = (scale.view(np.uint32) >> 16).astype(np.uint16)
            scale = (stored.astype(np.uint32) << 16).view(F)
        y = np.full(count + 1, np.nan, F)
        kernels.call(name, y, sums, stored, bias if with_bias else None, float(x_scale), count)
        want = (sums.astype(F) * scale) * x_scale
        assert same_bits(y[:count], want + bias if with_bias else want) and np.isnan(y[count])

        y = np.full(count + 1, np.nan, F)
        kernels.call("store", y, scale, bias if with_bias else None, count)
        assert same_bits(y[:count], scale + bias if with_bias else scale) and np.isnan(y[count])


@pytest.mark.parametrize("width", WIDTHS)
def test_clip_and_weighted_addition(kernels: Kernels, width: int) -> None:
    rng = np.random.default_rng(width)
    x, y = wide_range(rng, 2, width)
    x[0], y[-1] = np.nan, np.inf
    run = reference_run({}, floats={"x": x[None], "y": y[None]})
    Clip(0, "", "x", width, 2.5).reference(run)
    got = x.copy()
    kernels.call("clip", got, 2.5, width)
    assert same_bits(got, run.floats["x"][0])
    for score in (-90.0, -0.75, 0.0, 3.0):
        run = reference_run({}, floats={"x": x[None], "y": y[None], "score": np.array([[score]], F)})
        with np.errstate(all="ignore"):
            AddWeighted(0, "", "x", "y", "score", width).reference(run)
        got = x.copy()
        kernels.call("add_weighted", got, y, score, width)
        assert same_bits(got, run.floats["x"][0])
