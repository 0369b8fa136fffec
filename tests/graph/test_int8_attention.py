"""Attention over int8 states: step by step as docs/numerics.md has it, in Python's integers, and near the softmax."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from small_models import ENCODERS, ORACLE, load_graph, write_mixtral

from colibri.checkpoint.checkpoint import Checkpoint
from colibri.errors import UsageError
from colibri.generate import build_graph
from colibri.graph.attend_int8 import MOST_POSITIONS, attend, query_max, to_int8
from colibri.graph.float32 import exp, quantise
from colibri.graph.graph import State, StateType
from colibri.graph.interpret import Reference
from colibri.options import Options

F = np.float32


def floats(*bits: int) -> np.ndarray:
    return np.array(bits, np.uint32).view(F)


def exp2_steps(x: int) -> int:
    f = (x >> 12) & 0x7FFF
    p = 2596
    for c in (15149, 45324, 65536):
        p = c - (p * f >> 15)
    return (p << 7) >> (x >> 27)


def power(exponent: int) -> np.float32:
    return F(2.0 ** max(exponent, -126))


def one_head(q: np.ndarray, keys: np.ndarray, values: np.ndarray, scale: float, sink: np.float32 | None) -> list[F]:
    """One row in reach of all keys and values ``[positions, head_dim]``."""
    integers, q_scale = quantise(q[None], min(127, (2**31 - 1) // (127 * 255 * q.size)))
    (k, k_scales), (v, v_scales) = to_int8(keys, 1), to_int8(values, 1)
    e, m = (
        [[int(s) >> 7 for s in one[:, 0]] for one in (k_scales, v_scales)],
        [[128 | int(s) & 127 for s in one[:, 0]] for one in (k_scales, v_scales)],
    )
    most = max(e[0])
    score = [
        sum(int(a) * int(b) for a, b in zip(integers[0], key, strict=True)) * m[0][j] >> min(most - e[0][j], 31)
        for j, key in enumerate(k)
    ]
    assert all(abs(s) < 2**31 for s in score)
    unit = F(F(q_scale[0] * F(scale)) * power(most - 134))
    c = int(np.asarray(F(unit * F(float.fromhex("0x1.715476p+0")))).view(np.uint32))
    g, r = (c & 0x7FFFFF | 0x800000) >> 8, 12 + (c >> 23) - 127
    top = max(score)
    far = [(top - s) << min(r, 16) if r > 0 else (top - s) >> min(-r, 31) for s in score]
    term = [exp2_steps(d * g if d < 2**16 else 2**32 - 1) for d in far]
    largest = max(e[1])
    weight = [t * m[1][j] >> min(largest - e[1][j], 31) for j, t in enumerate(term)]
    z = next(z for z in range(64) if max(*weight, sum(weight) >> 9) >> z <= 32766)
    weight = [w + 2**z // 2 >> z for w in weight]
    assert max(weight) <= 32767 and 127 * sum(weight) < 2**31
    total = F(F(sum(term) >> 23) + F(F(sum(term) % 2**23) * F(2.0**-23)))
    if sink is not None:
        total = F(total + exp(np.array([sink - F(F(top) * unit)], F))[0])
    factor = F(power(largest + z - 157) / total)
    return [F(F(sum(w * int(x) for w, x in zip(weight, column, strict=True))) * factor) for column in v.T]


@pytest.mark.parametrize("sunk", [False, True])
@pytest.mark.parametrize("spread", [0, 6, 30])
@pytest.mark.parametrize(("positions", "width"), [(1, 4), (37, 8), (700, 5)])
def test_every_step(positions: int, width: int, spread: int, sunk: bool) -> None:
    rng = np.random.default_rng(positions + spread)
    q, sink = (rng.standard_normal(width) * 3).astype(F), F(1.5) if sunk else None
    keys, values = (
        (rng.standard_normal((positions, width)) * 2.0 ** rng.integers(-spread, 3, (positions, 1))).astype(F)
        for _ in range(2)
    )
    (k, k_scales), (v, v_scales) = to_int8(keys[None], 1), to_int8(values[None], 1)
    masked = np.zeros((1, positions), np.bool_)
    got = attend([q[None, None]], [(k, k_scales[..., 0])], (v, v_scales[..., 0]), masked, 0.4, sink=sink)
    want = np.array(one_head(q, keys, values, 0.4, sink), F)
    assert got[0, 0].view(np.uint32).tolist() == want.view(np.uint32).tolist()


@pytest.mark.parametrize("positions", [1, 5, 64, 3000])
def test_it_is_near_the_softmax(positions: int) -> None:
    """What is lost is what 8 bits of query, key and value lose."""
    rng = np.random.default_rng(positions)
    q, keys, values = (rng.standard_normal((1, rows, 32)).astype(F) for rows in (4, positions, positions))
    (k, k_scales), (v, v_scales) = to_int8(keys, 1), to_int8(values, 1)
    masked = np.zeros((4, positions), np.bool_)
    got = attend([q], [(k, k_scales[..., 0])], (v, v_scales[..., 0]), masked, 32**-0.5)
    scores = q[0].astype(np.float64) @ keys[0].T.astype(np.float64) * 32**-0.5
    terms = np.exp(scores - scores.max(axis=1, keepdims=True))
    want = (terms / terms.sum(axis=1, keepdims=True)) @ values[0].astype(np.float64)
    assert np.abs(got[0] - want).max() < 0.02


def test_the_exponential_of_integers() -> None:
    """Exact at 0, never above, falling, and within the error that the page states."""
    x = np.arange(0, 1 << 27, 4096)
    got = np.array([exp2_steps(int(one)) for one in x[::7]])
    assert got[0] == 1 << 23 and (np.diff(got) <= 0).all()
    assert np.abs(got / (1 << 23) / 2.0 ** -(x[::7] / 2**27) - 1).max() < 1.4e-4
    assert exp2_steps(2**32 - 1) == 0


def test_a_scale_is_never_too_small_and_hardly_too_large() -> None:
    rng = np.random.default_rng(1)
    x = (rng.standard_normal((500, 8)) * 2.0 ** rng.integers(-90, 90, (500, 1))).astype(F)
    integers, scales = to_int8(x, 2)
    wide = floats(*(int(s) << 16 for s in scales.reshape(-1))).reshape(500, 2)
    tops = np.abs(x.reshape(500, 2, 4)).max(axis=2)
    for top, scale in zip(tops.reshape(-1), wide.reshape(-1), strict=True):
        assert Fraction(float(top)) <= 127 * Fraction(float(scale)) * (1 + Fraction(1, 2**23))
        assert Fraction(float(scale)) <= Fraction(float(top)) / 127 * (1 + Fraction(1, 127))
    assert integers.min() >= -127
    assert np.abs(integers.reshape(500, 2, 4) * wide[..., None] - x.reshape(500, 2, 4)).max() <= wide.max() / 2 * 1.001


def test_quiet_rows_and_rows_that_are_no_numbers() -> None:
    x = np.array([[0, -0.0], [2.0**-101, 0], [np.nan, 1], [np.inf, 1], [-np.inf, np.nan], [3e38, -3e38]], F)
    with np.errstate(all="ignore"):
        integers, scales = to_int8(x, 1)
    assert integers.tolist() == [[0, 0], [0, 0], [-127, 126], [-127, 0], [-127, -127], [127, -127]]
    assert scales[:2].tolist() == [[0], [0]] and scales[3:5].tolist() == [[0x7F80], [0x7F80]]


def test_bounds_of_queries() -> None:
    assert [query_max(width) for width in (1, 128, 522, 523, 576, 4096)] == [127, 127, 127, 126, 115, 16]
    assert all(query_max(width) * 127 * 255 * width < 2**31 for width in range(1, 5000))
    assert 127 * (2**24 + MOST_POSITIONS // 2) < 2**31


def test_bytes_of_a_state() -> None:
    assert State("s", StateType.I8, 10, 25, 5).bytes == 256 + 100  # scales begin at a multiple of 16
    assert State("s", StateType.F16, 10, 24, 3).bytes == 480


@pytest.mark.parametrize("name", ["gptoss-base", "llama4-top1", "deepseekv3-base", "qwen2-swa"])
def test_sinks_chunks_latents_and_windows_in_chunks(name: str) -> None:
    graph = load_graph(ORACLE / name, kv=StateType.I8, context=40)
    ids = np.random.default_rng(2).integers(0, 100, 37)
    whole = Reference(graph).extend(ids, all_rows=True)[0]
    for chunk in (1, 6):
        reference = Reference(graph)
        parts = [reference.extend(ids[at : at + chunk], all_rows=True)[0] for at in range(0, ids.size, chunk)]
        assert np.array_equal(whole.view(np.uint32), np.concatenate(parts).view(np.uint32))


def test_an_encoder_and_its_decoder_in_steps() -> None:
    reference = Reference(load_graph(ORACLE / ENCODERS[0], kv=StateType.I8, context=12))
    assert {state.dtype for name, state in reference.states.items() if name.endswith("key")} == {np.dtype(np.int8)}
    source, tokens = np.arange(3, 12), np.arange(0, 120, 11)
    reference.encode(source)
    whole = reference.extend(tokens, all_rows=True)[0]
    reference.encode(source)
    steps = [reference.extend(tokens[at : at + 1], all_rows=True)[0] for at in range(tokens.size)]
    assert np.array_equal(whole.view(np.uint32), np.concatenate(steps).view(np.uint32))


def test_more_positions_than_sums_have_room_for(tmp_path: Path) -> None:
    checkpoint = Checkpoint.open(write_mixtral(tmp_path / "long", max_position_embeddings=1 << 19))
    with pytest.raises(UsageError, match="int8 states hold at most 262,144 positions"):
        build_graph(checkpoint, Options(kv=StateType.I8, context=MOST_POSITIONS + 1))
