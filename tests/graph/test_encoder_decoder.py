"""Models with an encoder: the outputs of the originals, written orders, and what encode and decode refuse."""

from __future__ import annotations

import re

import numpy as np
import pytest
from small_models import ENCODERS, ORACLE, load_graph

from colibri.checkpoint.checkpoint import Checkpoint
from colibri.checkpoint.families import ImportOptions, import_graph
from colibri.golden import compare_with_golden
from colibri.graph.float32 import exp
from colibri.graph.graph import Graph, ModelKind, StateType
from colibri.graph.interpret import Reference, Route, Run
from colibri.graph.ops import Keep, Recall, Router, StateAttention
from colibri.graph.ops.state_attention import Reach
from colibri.graph.scheme import Scheme
from colibri.graph.weights import Vector

F = np.float32
BASE = ORACLE / ENCODERS[0]
WORST = 2.4e-6  # the worst difference that was seen


@pytest.mark.parametrize("name", ENCODERS)
def test_logits_and_greedy_tokens(name: str) -> None:
    result = compare_with_golden(ORACLE / name, ORACLE / name / "golden.npz", context=40)
    assert len(result.cases) == 4 and not result.skipped
    assert result.passed(WORST)
    assert all(case.continued >= 8 and case.rows > 1 for case in result.cases)


def test_every_router_chooses_the_same_expert(monkeypatch: pytest.MonkeyPatch) -> None:
    golden = np.load(BASE / "golden.npz")
    routes: dict[int | None, Route] = {}
    choose = Router.reference

    def choose_and_tell(router: Router, run: Run) -> None:
        choose(router, run)
        routes[router.layer] = run.routes[router.route]

    monkeypatch.setattr(Router, "reference", choose_and_tell)
    reference = Reference(load_graph(BASE, context=40))
    reference.encode(golden["input_ids_3"])
    reference.extend(golden["decoder_input_ids_3"], all_rows=True)
    stored = {key.rpartition("/")[0] for key in golden if key.startswith("router_3/")}
    assert len(stored) == len(routes) == 2
    for prefix in stored:
        stack, layer = re.findall(r"/(encoder|decoder)\.block\.(\d+)\.", prefix)[0]
        route = routes[int(layer) + (2 if stack == "decoder" else 0)]
        assert np.array_equal(route.index[:, 0], golden[f"{prefix}/dispatch"][0].argmax(axis=1))
        assert np.allclose(route.weight, golden[f"{prefix}/prob"][0], atol=1e-5, rtol=0)


def bits(values: np.ndarray) -> list[int]:
    return np.asarray(values, F).reshape(-1).view(np.uint32).tolist()


@pytest.mark.parametrize("state", [StateType.F32, StateType.F16])
@pytest.mark.parametrize(("reach", "biased"), [(Reach.PAST, True), (Reach.SOURCE, True), (Reach.SOURCE, False)])
def test_attention_in_the_written_order(reach: Reach, biased: bool, state: StateType) -> None:
    rows, heads, dim, capacity, position, source = 3, 2, 5, 24, 9, 17
    rng = np.random.default_rng(4)
    graph = Graph("test", ModelKind.TOKENS, 0, 8, capacity, "")
    op = StateAttention(
        0, "", "q", "out", "k", "v", heads, dim, capacity, float(F(0.3)), state, reach, "bias" if biased else ""
    )
    bias = rng.standard_normal((heads, op.distances)).astype(F)
    graph.weights["bias"] = Vector(bias)
    dtype = np.float16 if state is StateType.F16 else F
    states = {name: rng.standard_normal((1, capacity, heads * dim)).astype(dtype) for name in "kv"}
    run = Run(graph, 1, rows, position, True, states, source=source)
    run.floats["q"] = rng.standard_normal((rows, heads * dim)).astype(F)
    op.reference(run)
    keys, values = (states[name][0].astype(F).reshape(capacity, heads, dim) for name in "kv")
    for row in range(rows):
        at = position + row
        seen = range(at + 1 if reach is Reach.PAST else source)
        for head in range(heads):
            scores = []
            for j in seen:
                lanes = [F(0)] * 8
                for d in range(dim):
                    lanes[d % 8] = F(lanes[d % 8] + F(run.floats["q"][row, head * dim + d] * keys[j, head, d]))
                for half in (4, 2, 1):
                    lanes = [F(lanes[i] + lanes[i + half]) for i in range(half)]
                score = F(lanes[0] * F(0.3))
                scores.append(F(score + bias[head, j - at + capacity - 1]) if biased else score)
            top = max(scores)
            lanes, total = [F(0)] * 8, np.zeros(dim, F)
            for j in seen:
                term = exp(np.array(scores[j] - top, F))[()]
                lanes[j % 8] = F(lanes[j % 8] + term)
                total = total + term * values[j, head]
            for half in (4, 2, 1):
                lanes = [F(lanes[i] + lanes[i + half]) for i in range(half)]
            assert bits(run.floats["out"][row].reshape(heads, dim)[head]) == bits(total * F(F(1) / lanes[0]))


def test_keep_and_recall_are_inverse_but_for_halves() -> None:
    graph = Graph("test", ModelKind.TOKENS, 0, 8, 8, "")
    states = {"a": np.zeros((1, 8, 4), F), "b": np.zeros((1, 8, 4), np.float16)}
    run = Run(graph, 1, 3, 2, True, states)
    run.floats["x"] = x = np.linspace(-1, 1, 12).astype(F).reshape(3, 4)
    Keep(0, "", "a", "x", "a", 4, StateType.F32).reference(run)
    Keep(0, "", "b", "x", "b", 4, StateType.F16).reference(run)
    Recall(0, "", "a", "y", "a", 4).reference(run)
    assert np.array_equal(run.floats["y"], x)
    assert np.array_equal(states["b"][0, 2:5], x.astype(np.float16))
    assert not states["a"][0, :2].any() and not states["a"][0, 5:].any()


@pytest.mark.parametrize("scheme", [Scheme.F32, Scheme.W8A8, Scheme.W4A16])
def test_decoding_in_chunks_is_decoding_at_once(scheme: Scheme) -> None:
    reference = Reference(load_graph(BASE, scheme, StateType.F16, context=12))
    source, tokens = np.arange(3, 12), np.arange(0, 120, 11)
    reference.encode(source)
    whole = reference.extend(tokens, all_rows=True)[0]
    reference.encode(source)
    assert reference.position == 0
    steps = np.concatenate([reference.extend(tokens[i : i + 1], all_rows=True)[0] for i in range(tokens.size)])
    assert np.array_equal(whole, steps)


def test_sources_do_not_leave_anything_behind() -> None:
    reference = Reference(load_graph(BASE, context=12))
    reference.encode(np.arange(5))
    fresh = reference.extend(np.array([0]))
    reference.encode(np.arange(20, 32))
    reference.extend(np.arange(6))
    reference.encode(np.arange(5))
    assert np.array_equal(reference.extend(np.array([0])), fresh)


def test_what_encode_and_decode_refuse() -> None:
    reference = Reference(import_graph(Checkpoint.open(BASE), ImportOptions(context=6, source=4)))
    with pytest.raises(ValueError, match="encode comes first"):
        reference.extend(np.array([0]))
    for count in (0, 5):
        with pytest.raises(ValueError, match="a source has 1 to 4 tokens"):
            reference.encode(np.zeros(count, int))
    reference.encode(np.zeros(4, int))
    with pytest.raises(ValueError, match="context of 6 is full"):
        reference.extend(np.zeros(7, int))
