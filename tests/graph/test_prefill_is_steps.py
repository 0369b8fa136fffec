"""The invariant: tokens taken in together, in chunks or one by one leave the same bits."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from small_models import ORACLE, SENSORS, load_graph, sensor

from colibri.checkpoint.checkpoint import Checkpoint
from colibri.checkpoint.families import ImportOptions, import_graph
from colibri.graph.graph import Graph, StateType
from colibri.graph.interpret import Reference
from colibri.graph.scheme import SCHEMES, Scheme
from colibri.passes.quantise import quantise_graph
from colibri.passes.rules import Rule, ordered

BASE, WINDOWED = "mixtral-base", "mixtral-sharded-swa"
LENGTHS = {BASE: 19, WINDOWED: 37}  # the window holds 16: it wraps, within chunks and between them


@cache
def graph_of(name: str, scheme: Scheme, kv: StateType) -> Graph:
    return load_graph(ORACLE / name, scheme, kv)


def tokens(count: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 160, count).astype(np.int32)


def in_chunks(graph: Graph, ids: np.ndarray, chunk: int, *, first: int = 0) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Logits of every position, and the states at the end."""
    reference = Reference(graph)
    cuts = sorted({0, first, *range(first, ids.size, chunk), ids.size})
    rows = [reference.extend(ids[a:b], all_rows=True)[0] for a, b in pairwise(cuts)]
    return np.concatenate(rows), reference.states


@pytest.mark.parametrize("name", [BASE, WINDOWED])
@pytest.mark.parametrize("kv", list(StateType))
@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_every_chunking_gives_the_same_bits(name: str, scheme: Scheme, kv: StateType) -> None:
    graph, ids = graph_of(name, scheme, kv), tokens(LENGTHS[name])
    whole, states = in_chunks(graph, ids, ids.size)
    assert np.isfinite(whole).all()
    for chunk in (1, 2, 3, 7):
        logits, after = in_chunks(graph, ids, chunk)
        assert np.array_equal(whole.view(np.uint32), logits.view(np.uint32)), chunk
        assert all(np.array_equal(states[key], after[key]) for key in states)


def test_chunks_with_many_schemes_in_one_model() -> None:
    """Layers differ, and buffers are quantised to 8 and to 16 bits, or stay floats, for different readers."""
    graph = import_graph(Checkpoint.open(ORACLE / WINDOWED), ImportOptions())
    texts = ("experts=w3g64za16", "1.experts.down=f16", "attention.v=w8a16", "0.attention.q=f32", "router=w4a8+o9")
    quantise_graph(graph, Scheme.W4A8, ordered(map(Rule.parse, texts)))
    ids = tokens(LENGTHS[WINDOWED])
    whole, states = in_chunks(graph, ids, ids.size)
    for chunk in (1, 3, 7):
        logits, after = in_chunks(graph, ids, chunk)
        assert np.array_equal(whole.view(np.uint32), logits.view(np.uint32)), chunk
        assert all(np.array_equal(states[key], after[key]) for key in states)


def test_uneven_chunks_and_the_window_wrapping_inside_one() -> None:
    graph, ids = graph_of(WINDOWED, Scheme.W8A8, StateType.F32), tokens(50, seed=4)
    whole, _ = in_chunks(graph, ids, 50)
    for first, chunk in ((15, 2), (16, 17), (1, 32), (13, 5)):
        assert np.array_equal(whole, in_chunks(graph, ids, chunk, first=first)[0])


@pytest.mark.parametrize("name", [BASE, WINDOWED])
@pytest.mark.parametrize("scheme", [Scheme.F32, Scheme.W8A8, Scheme.W4A16])
def test_sequences_side_by_side_do_not_meet(name: str, scheme: Scheme) -> None:
    graph, length = graph_of(name, scheme, StateType.F32), LENGTHS[name]
    prompts = np.stack([tokens(length, seed) for seed in (1, 2, 3)])
    many = Reference(graph, sequences=3)
    first = many.extend(prompts[:, : length - 2], all_rows=True)
    rest = many.extend(prompts[:, length - 2 :], all_rows=True)
    together = np.concatenate([first, rest], axis=1)
    for prompt, logits in zip(prompts, together, strict=True):
        assert np.array_equal(in_chunks(graph, prompt, length)[0], logits)


def test_only_the_last_row_is_kept_unless_all_are_asked_for() -> None:
    graph, ids = graph_of(BASE, Scheme.W8A8, StateType.F32), tokens(9)
    last, rows = Reference(graph).extend(ids), Reference(graph).extend(ids, all_rows=True)
    assert last.shape == (1, 160) and rows.shape == (1, 9, 160)
    assert np.array_equal(last[0], rows[0, -1])


def test_reset_forgets_everything() -> None:
    reference = Reference(graph_of(WINDOWED, Scheme.W4A8, StateType.F16))
    fresh = reference.extend(tokens(20))
    reference.extend(tokens(30, seed=8))
    reference.reset()
    assert reference.position == 0
    assert np.array_equal(reference.extend(tokens(20)), fresh)


def test_a_full_context_is_refused_and_changes_nothing() -> None:
    reference = Reference(load_graph(ORACLE / BASE, context=8))
    reference.extend(tokens(6))
    before = {name: state.copy() for name, state in reference.states.items()}
    with pytest.raises(ValueError, match="context of 8 is full"):
        reference.extend(tokens(3))
    assert reference.position == 6
    assert all(np.array_equal(before[name], reference.states[name]) for name in before)
    reference.extend(tokens(2))


def test_half_precision_states_change_the_bits_but_little() -> None:
    ids = tokens(LENGTHS[BASE])
    full, _ = in_chunks(graph_of(BASE, Scheme.F32, StateType.F32), ids, 7)
    half, states = in_chunks(graph_of(BASE, Scheme.F32, StateType.F16), ids, 7)
    assert {state.dtype for state in states.values()} == {np.dtype(np.float16)}
    assert 0 < np.max(np.abs(full - half)) < 0.02


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
@pytest.mark.parametrize("name", SENSORS)
def test_samples_in_a_batch_do_not_meet(name: str, scheme: Scheme) -> None:
    reference = Reference(load_graph(sensor(name), scheme))
    samples = np.random.default_rng(7).standard_normal((11, 13)).astype(np.float32)
    together = reference.forward(samples)
    for batch in (1, 2, 5):
        parts = [reference.forward(samples[i : i + batch]) for i in range(0, 11, batch)]
        assert np.array_equal(np.concatenate(parts), together)
