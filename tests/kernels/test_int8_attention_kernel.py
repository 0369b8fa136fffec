"""Attention over int8 states in C, row by row, against the numpy reference of the whole sequence."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_library import Kernels, reference_run, same_bits

from colibri.graph.attend_int8 import query_max, to_int8
from colibri.graph.graph import StateType
from colibri.graph.interpret import scales_of
from colibri.graph.ops import Attention, Keep, LatentAttention, StateAttention
from colibri.graph.ops.state_attention import Reach
from colibri.graph.weights import Vector, Weight

F = np.float32
KINDS = ("plain", "quiet", "extreme", "scattered")


def rows(kind: str, length: int, width: int, seed: int) -> np.ndarray:
    """Rows of queries, keys or values."""
    rng = np.random.default_rng(seed)
    x = (rng.standard_normal((length, width)) * 2).astype(F)
    if kind == "quiet":  # zeros, denormals, and what is just below and above the limit of quiet rows
        x *= np.asarray(rng.choice([0, 2.0**-140, 2.0**-101, 2.0**-99, 1], (length, 1)), F)
    elif kind == "extreme":
        with np.errstate(over="ignore"):
            x *= np.asarray(rng.choice([1e-30, 1, 1e18, 1e38], (length, 1)), F)
        x[rng.random(x.shape) < 0.02] = np.inf
        x[rng.random(x.shape) < 0.02] = np.nan
    elif kind == "scattered":  # scales far apart
        x *= np.asarray(2.0 ** rng.integers(-30, 8, (length, 1)), F)
    return np.ascontiguousarray(x, F)


def int8_states(capacity: int, *shapes: tuple[str, int, int]) -> dict[str, np.ndarray]:
    """States by name, with so many elements and pieces in a row."""
    states: dict[str, np.ndarray] = {}
    for name, width, pieces in shapes:
        states[name] = np.zeros((1, capacity, width), np.int8)
        states[scales_of(name)] = np.zeros((1, capacity, pieces), np.uint16)
    return states


def unwritten(states: dict[str, np.ndarray]) -> list[np.ndarray]:
    """The same for C, full of what must not be read."""
    return [
        np.full(state.shape[1:], 0x7F7F if state.dtype == np.uint16 else 127, state.dtype) for state in states.values()
    ]


@pytest.mark.parametrize("kernel", ["attention_int8", "soft_attention_int8"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("heads", "kv_heads", "head_dim", "window", "chunked", "sunk"),
    [
        (1, 1, 2, 0, False, False),
        (4, 2, 8, 0, False, True),
        (4, 4, 5, 0, False, False),
        (6, 2, 16, 7, False, False),
        (2, 1, 24, 8, False, True),
        (2, 1, 32, 19, True, False),
        (3, 1, 12, 1, False, False),
        (1, 1, 3, 0, False, False),
        (2, 2, 6, 0, False, True),
        (4, 2, 10, 13, True, False),
        (2, 1, 31, 0, False, False),
        (2, 2, 33, 9, False, True),
        (2, 1, 64, 0, False, False),
        (1, 1, 128, 0, False, False),
    ],
)
def test_attention(
    kernels: Kernels,
    kernel: str,
    kind: str,
    heads: int,
    kv_heads: int,
    head_dim: int,
    window: int,
    chunked: bool,
    sunk: bool,
) -> None:
    length, width = 40, kv_heads * head_dim
    capacity = window or length
    inputs = {
        name: rows(kind, length, n, seed)
        for seed, (name, n) in enumerate((("q", heads * head_dim), ("k", width), ("v", width)))
    }
    scale = float(F(head_dim**-0.5))
    sinks = np.linspace(-3, 120, heads).astype(F) if sunk else None
    shape = heads, kv_heads, head_dim, capacity, window
    names = "q", "k", "v", "out", "ks", "vs"
    op = Attention(0, "", *names, *shape, scale, StateType.I8, "sinks" if sunk else "", chunked)
    states = int8_states(capacity, ("ks", width, kv_heads), ("vs", width, kv_heads))
    weights: dict[str, Weight] = {} if sinks is None else {"sinks": Vector(sinks)}
    run = reference_run(weights, length=length, states=states, floats=dict(inputs))
    with np.errstate(all="ignore"):
        op.reference(run)

    memory = unwritten(states)
    scores, query = np.full(capacity, -1, np.int32), np.full(head_dim, -1, np.int8)
    for position in range(length):
        got = np.full(heads * head_dim, np.nan, F)
        one = [np.ascontiguousarray(x[position]) for x in inputs.values()]
        constants = *shape[:4], chunked, scale, float(query_max(head_dim))
        kernels.call(kernel, got, *one, *memory, scores, query, sinks, position, *constants)
        assert same_bits(got, run.floats["out"][position]), position
    for stored, state in zip(memory, states.values(), strict=True):
        assert stored.tobytes() == state[0].tobytes()


@pytest.mark.parametrize("soft", ["", "soft_"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("heads", "rank", "rope_dim"), [(1, 1, 2), (4, 16, 8), (3, 9, 6), (2, 512, 64)])
def test_latent_attention(kernels: Kernels, soft: str, kind: str, heads: int, rank: int, rope_dim: int) -> None:
    length = 21
    widths = {"q": heads * rank, "q_rope": heads * rope_dim, "latent": rank, "k_rope": rope_dim}
    inputs = {name: rows(kind, length, width, seed) for seed, (name, width) in enumerate(widths.items())}
    scale = float(F((rank + rope_dim) ** -0.5))
    op = LatentAttention(0, "", *widths, "out", "ls", "ks", heads, rank, rope_dim, length, scale, StateType.I8)
    states = int8_states(length, ("ls", rank, 1), ("ks", rope_dim, 1))
    run = reference_run(length=length, states=states, floats=dict(inputs))
    with np.errstate(all="ignore"):
        op.reference(run)

    memory = unwritten(states)
    scores, query = np.full(length, -1, np.int32), np.full(rank + rope_dim, -1, np.int8)
    qmax = query_max(rank + rope_dim)
    assert qmax == (127 if rank + rope_dim < 500 else 115)
    for position in range(length):
        got = np.full(heads * rank, np.nan, F)
        one = [np.ascontiguousarray(x[position]) for x in inputs.values()]
        sizes = position, heads, rank, rope_dim
        kernels.call(f"{soft}latent_attention_int8", got, *one, *memory, scores, query, *sizes, scale, float(qmax))
        assert same_bits(got, run.floats["out"][position]), position
    for stored, state in zip(memory, states.values(), strict=True):
        assert stored.tobytes() == state[0].tobytes()


@pytest.mark.parametrize("soft", ["", "soft_"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reach", list(Reach))
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize(("heads", "head_dim", "source"), [(1, 2, 1), (3, 5, 8), (2, 16, 31)])
def test_state_attention(
    kernels: Kernels, soft: str, kind: str, reach: Reach, biased: bool, heads: int, head_dim: int, source: int
) -> None:
    length, capacity, width = 19, 32, heads * head_dim
    shape = heads, head_dim, capacity, float(F(0.7)), StateType.I8, reach
    op = StateAttention(0, "", "q", "out", "ks", "vs", *shape, "bias" if biased else "")
    bias = (np.random.default_rng(head_dim).standard_normal((heads, op.distances)) * 3).astype(F)
    reached = source if reach is Reach.SOURCE else length
    states = int8_states(capacity, ("ks", width, heads), ("vs", width, heads))
    memory = unwritten(states)
    for pair, seed in ((0, 1), (2, 2)):
        with np.errstate(all="ignore"):
            elements, scales = to_int8(rows(kind, reached, width, seed), heads)
        for index, stored in ((pair, elements), (pair + 1, scales)):
            memory[index][:reached] = stored
            list(states.values())[index][0, :reached] = stored
    q = rows(kind, length, width, 3)
    run = reference_run({"bias": Vector(bias)}, length=length, states=states, floats={"q": q}, source=source)
    with np.errstate(all="ignore"):
        op.reference(run)
    for position in range(length):
        got, scores, query = np.full(width, np.nan, F), np.full(capacity, -1, np.int32), np.full(head_dim, -1, np.int8)
        count = source if reach is Reach.SOURCE else position + 1
        begin = np.ascontiguousarray(bias.reshape(-1)[capacity - 1 - position :]) if biased else None
        sizes = op.distances, count, heads, head_dim, 0.7, float(query_max(head_dim))
        kernels.call(f"{soft}state_attention_int8", got, q[position], *memory, scores, query, begin, *sizes)
        assert same_bits(got, run.floats["out"][position]), position


@pytest.mark.parametrize("kind", KINDS)
def test_keep(kernels: Kernels, kind: str) -> None:
    x = rows(kind, 9, 12, 4)
    states = int8_states(9, ("s", 12, 3))
    run = reference_run(length=9, states=states, floats={"x": x})
    with np.errstate(all="ignore"):
        Keep(0, "", "s", "x", "s", 12, StateType.I8, 3).reference(run)
    memory = unwritten(states)
    kernels.call("keep_int8", *memory, x, 27, 4)
    for stored, state in zip(memory, states.values(), strict=True):
        assert stored.tobytes() == state[0].tobytes()
