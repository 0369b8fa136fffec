"""The attention kernel, row by row, against the numpy reference of the whole sequence."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_library import Kernels, reference_run, same_bits

from colibri.graph.float32 import to_f16
from colibri.graph.graph import StateType
from colibri.graph.ops import Attention, LatentAttention, StateAttention
from colibri.graph.ops.state_attention import Reach
from colibri.graph.weights import Vector, Weight

F = np.float32


@pytest.mark.parametrize("state", [StateType.F32, StateType.F16])
@pytest.mark.parametrize(
    ("heads", "kv_heads", "head_dim", "window"),
    [
        *((1, 1, 2, 0), (4, 2, 8, 0), (4, 4, 5, 0), (6, 2, 16, 7), (2, 1, 24, 8), (2, 1, 6, 19), (3, 1, 12, 1)),
        *((2, 1, 33, 0), (2, 2, 64, 9), (2, 1, 100, 0)),
    ],
)
@pytest.mark.parametrize(("sunk", "chunked"), [(False, False), (True, False), (False, True)])
def test_attention(
    kernels: Kernels, state: StateType, heads: int, kv_heads: int, head_dim: int, window: int, sunk: bool, chunked: bool
) -> None:
    length = 40
    capacity = window or length
    width = kv_heads * head_dim
    rng = np.random.default_rng(head_dim)
    q, k, v = ((rng.standard_normal((length, n)) * 2).astype(F) for n in (heads * head_dim, width, width))
    scale = float(F(head_dim**-0.5))
    sinks = np.linspace(-3, 9, heads).astype(F) if sunk else None
    shape = heads, kv_heads, head_dim, capacity, window
    op = Attention(
        0, "", "q", "k", "v", "out", "ks", "vs", *shape, scale, state, "sinks" if sunk else "", chunked and window > 0
    )
    dtype = np.float16 if state is StateType.F16 else F
    states = {name: np.zeros((1, capacity, width), dtype) for name in ("ks", "vs")}
    weights: dict[str, Weight] = {} if sinks is None else {"sinks": Vector(sinks)}
    run = reference_run(weights, length=length, states=states, floats={"q": q, "k": k, "v": v})
    op.reference(run)

    # A place that was never written must not be read: it holds NaN.
    stored = np.uint16 if state is StateType.F16 else F
    keys, values = (np.full((capacity, width), np.nan, dtype).view(stored) for _ in range(2))
    scores = np.full(capacity, np.nan, F)
    for position in range(length):
        got = np.full(heads * head_dim, np.nan, F)
        rows = (q[position], k[position], v[position])
        kernels.call(
            f"attention_{state}",
            got,
            *rows,
            keys,
            values,
            scores,
            sinks,
            position,
            *shape[:4],
            chunked and window > 0,
            scale,
        )
        assert same_bits(got, run.floats["out"][position])
    assert keys.view(dtype).tobytes() == states["ks"][0].tobytes()
    assert values.view(dtype).tobytes() == states["vs"][0].tobytes()


def test_attention_to_keys_that_halves_cannot_hold(kernels: Kernels) -> None:
    """Beyond +-65504 and NaN are stored as the rule for half precision says."""
    values = np.array([1e6, -1e6, np.inf, np.nan, 1e-8, 65519.9, 2.0**-25, -0.0], F)
    keys, stored = np.zeros((1, 8), np.uint16), np.zeros((1, 8), np.uint16)
    out, scores = np.empty(8, F), np.empty(1, F)
    kernels.call(
        "attention_f16", out, np.zeros(8, F), values, values, keys, stored, scores, None, 0, 1, 1, 8, 1, False, 1.0
    )
    assert np.array_equal(keys, stored)
    assert keys.view(np.float16)[0].tolist() == [65504.0, -65504.0, 65504.0, -65504.0, 0.0, 65504.0, 0.0, 0.0]
    assert same_bits(out, keys.view(np.float16)[0].astype(F) + F(0))  # sums begin at +0


@pytest.mark.parametrize("state", [StateType.F32, StateType.F16])
@pytest.mark.parametrize(("heads", "rank", "rope_dim"), [(1, 1, 2), (4, 16, 8), (3, 9, 6), (2, 31, 2)])
def test_latent_attention(kernels: Kernels, state: StateType, heads: int, rank: int, rope_dim: int) -> None:
    length = 21
    rng = np.random.default_rng(rank)
    widths = {"q": heads * rank, "q_rope": heads * rope_dim, "latent": rank, "k_rope": rope_dim}
    inputs = {name: (rng.standard_normal((length, width)) * 2).astype(F) for name, width in widths.items()}
    scale = float(F((rank + rope_dim) ** -0.5))
    op = LatentAttention(0, "", *widths, "out", "ls", "ks", heads, rank, rope_dim, length, scale, state)
    dtype = np.float16 if state is StateType.F16 else F
    states = {name: np.zeros((1, length, width), dtype) for name, width in (("ls", rank), ("ks", rope_dim))}
    run = reference_run(length=length, states=states, floats=dict(inputs))
    op.reference(run)

    stored = np.uint16 if state is StateType.F16 else F
    latents, keys = (np.full((length, width), np.nan, dtype).view(stored) for width in (rank, rope_dim))
    scores = np.full(length, np.nan, F)
    for position in range(length):
        got = np.full(heads * rank, np.nan, F)
        rows = (values[position] for values in inputs.values())
        shape = (heads, rank, rope_dim)
        kernels.call(f"latent_attention_{state}", got, *rows, latents, keys, scores, position, *shape, scale)
        assert same_bits(got, run.floats["out"][position])
    assert latents.view(dtype).tobytes() == states["ls"][0].tobytes()
    assert keys.view(dtype).tobytes() == states["ks"][0].tobytes()


@pytest.mark.parametrize("state", [StateType.F32, StateType.F16])
@pytest.mark.parametrize("reach", list(Reach))
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize(("heads", "head_dim", "source"), [(1, 2, 1), (3, 5, 8), (2, 16, 31), (4, 24, 9)])
def test_state_attention(
    kernels: Kernels, state: StateType, reach: Reach, biased: bool, heads: int, head_dim: int, source: int
) -> None:
    length, capacity, width = 19, 32, heads * head_dim
    rng = np.random.default_rng(head_dim)
    shape = heads, head_dim, capacity, float(F(0.7)), state, reach
    op = StateAttention(0, "", "q", "out", "ks", "vs", *shape, "bias" if biased else "")
    bias = rng.standard_normal((heads, op.distances)).astype(F) * 3
    # A row that is not in reach must not be read: it holds NaN.
    reached = source if reach is Reach.SOURCE else length
    wide = {name: np.full((1, capacity, width), np.nan, F) for name in ("ks", "vs")}
    for values in wide.values():
        values[0, :reached] = rng.standard_normal((reached, width)) * 2
    states = {name: to_f16(values) if state is StateType.F16 else values for name, values in wide.items()}
    q = (rng.standard_normal((length, width)) * 2).astype(F)
    run = reference_run({"bias": Vector(bias)}, length=length, states=states, floats={"q": q}, source=source)
    op.reference(run)
    stored = np.uint16 if state is StateType.F16 else F
    keys, values = (np.ascontiguousarray(states[name][0]).view(stored) for name in ("ks", "vs"))
    for position in range(length):
        got, scores = np.full(width, np.nan, F), np.full(capacity, np.nan, F)
        count = source if reach is Reach.SOURCE else position + 1
        begin = np.ascontiguousarray(bias.reshape(-1)[capacity - 1 - position :]) if biased else None
        sizes = op.distances, count, heads, head_dim, 0.7
        kernels.call(f"state_attention_{state}", got, q[position], keys, values, scores, begin, *sizes)
        assert same_bits(got, run.floats["out"][position])


def test_keep_and_recall(kernels: Kernels) -> None:
    x = np.concatenate([np.linspace(-9, 9, 20), [1e6, np.inf, 1e-8]]).astype(F)
    halves, floats, back = np.zeros(23, np.uint16), np.zeros(23, F), np.zeros(23, F)
    kernels.call("keep_f16", halves, x, 23)
    kernels.call("keep_f32", floats, x, 23)
    kernels.call("recall", back, floats, 23)
    assert np.array_equal(halves, to_f16(x).view(np.uint16))
    assert same_bits(floats, x) and same_bits(back, x)
