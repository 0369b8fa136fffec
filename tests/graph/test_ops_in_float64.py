"""Rotary embedding, attention and normalisation against their textbook formulas in float64."""

from __future__ import annotations

import numpy as np
import pytest

from colibri.graph.graph import Graph, ModelKind, StateType
from colibri.graph.interpret import Reference, Run
from colibri.graph.ops import Attention, RmsNorm, Rope
from colibri.graph.ops.rope import rope_tables
from colibri.graph.weights import Vector


def run_of(graph: Graph, rows: int, position: int = 0) -> Run:
    return Run(graph, 1, rows, position, True, Reference(graph).states)


def empty_graph(context: int = 64) -> Graph:
    return Graph("test", ModelKind.TOKENS, 0, 8, context, "")


@pytest.mark.parametrize("context", [1, 2, 37, 256, 1000])
def test_rope_tables_cover_the_context(context: int) -> None:
    coarse, fine, step = rope_tables(np.array([1.0, 0.1]), context)
    assert step & (step - 1) == 0 and fine.shape == (step, 2, 2)
    assert (coarse.shape[0] - 1) * step < context <= coarse.shape[0] * step
    assert step * step < 4 * context


@pytest.mark.parametrize("position", [0, 1, 31, 500, 990])
def test_rope_rotates_pairs_half_a_head_apart(position: int) -> None:
    graph, heads, dim = empty_graph(1000), 3, 8
    frequencies = 10000.0 ** -(np.arange(0, dim, 2) / dim)
    coarse, fine, step = rope_tables(frequencies, 1000)
    graph.weights.update(rope_coarse=Vector(coarse), rope_fine=Vector(fine))
    run = run_of(graph, 5, position)
    x = np.random.default_rng(1).standard_normal((5, heads * dim)).astype(np.float32)
    run.floats["q"] = x.copy()
    Rope(0, "tables", "q", "rope_coarse", "rope_fine", step, heads, dim).reference(run)
    for row in range(5):
        angle = (position + row) * frequencies
        for head in range(heads):
            low, high = np.split(x[row, head * dim : (head + 1) * dim].astype(np.float64), 2)
            want = np.concatenate(
                [low * np.cos(angle) - high * np.sin(angle), high * np.cos(angle) + low * np.sin(angle)]
            )
            assert np.allclose(run.floats["q"][row, head * dim : (head + 1) * dim], want, atol=2e-6, rtol=0)


@pytest.mark.parametrize("window", [0, 5])
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_attention_is_a_masked_softmax(kv_heads: int, window: int) -> None:
    rows, heads, dim = 12, 4, 6
    rng = np.random.default_rng(kv_heads)
    graph = empty_graph(16)
    capacity = window or 16
    op = Attention(
        0, "", "q", "k", "v", "out", "key", "value", heads, kv_heads, dim, capacity, window, 0.4, StateType.F32
    )
    run = run_of(graph, rows)
    run.states = {name: np.zeros((1, capacity, kv_heads * dim), np.float32) for name in ("key", "value")}
    run.floats["q"] = rng.standard_normal((rows, heads * dim)).astype(np.float32)
    for name in "kv":
        run.floats[name] = rng.standard_normal((rows, kv_heads * dim)).astype(np.float32)
    q, k, v = (run.floats[name].astype(np.float64).reshape(rows, -1, dim) for name in "qkv")
    op.reference(run)
    for row in range(rows):
        seen = slice(max(0, row - window + 1) if window else 0, row + 1)
        for head in range(heads):
            scores = k[seen, head * kv_heads // heads] @ q[row, head] * 0.4
            weights = np.exp(scores - scores.max())
            want = weights @ v[seen, head * kv_heads // heads] / weights.sum()
            got = run.floats["out"].reshape(rows, heads, dim)[row, head]
            assert np.allclose(got, want, atol=1e-6, rtol=0)


def test_rms_norm() -> None:
    graph = empty_graph()
    rng = np.random.default_rng(9)
    graph.weights["w"] = Vector(rng.standard_normal(33).astype(np.float32))
    run = run_of(graph, 4)
    run.floats["x"] = rng.standard_normal((4, 33)).astype(np.float32)
    run.floats["x"][3] = 0
    RmsNorm(0, "", "norm", "x", "y", "w", 33, 1e-5).reference(run)
    x, w = run.floats["x"].astype(np.float64), graph.weights["w"].values.astype(np.float64)
    want = x / np.sqrt((x**2).mean(axis=1, keepdims=True) + 1e-5) * w
    assert np.allclose(run.floats["y"], want, atol=1e-6, rtol=1e-6)
    assert not run.floats["y"][3].any()
