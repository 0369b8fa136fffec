"""Golden vectors: which inputs a package is tested on, and that the answers are the reference's."""

from __future__ import annotations

import numpy as np
import pytest
from small_models import ORACLE, ROOT, load_graph, sensor

from colibri import vectors
from colibri.graph.graph import Graph
from colibri.graph.interpret import Reference
from colibri.graph.scheme import Scheme
from colibri.vectors import BAD_TOKEN, CONTEXT_FULL, NOT_FINITE, Case, load_vectors, make_vectors, save_vectors

CONTEXT = 30


def tokens_of(case: Case) -> np.ndarray:
    return np.frombuffer(case.payload, "<u4")


def floats(payload: bytes) -> np.ndarray:
    return np.frombuffer(payload, "<f4")


def token_cases(prefill: int, context: int = CONTEXT) -> tuple[Graph, list[Case]]:
    graph = load_graph(ORACLE / "mixtral-base", Scheme.W8A8, context=context)
    return graph, make_vectors(graph, rows=prefill, model_bytes=64, memory_bytes=128)


@pytest.mark.parametrize(
    ("prefill", "lengths"), [(1, {1, 2, 24}), (2, {1, 2, 3, 24}), (8, {1, 2, 7, 8, 9, 26}), (29, {1, 2, 28, 29, 30})]
)
def test_prompts_around_the_prefill_width(prefill: int, lengths: set[int]) -> None:
    _, cases = token_cases(prefill)
    prompts = {case.title: tokens_of(case).size for case in cases if case.title.startswith("prompt of ")}
    assert all(title == f"prompt of {size} tokens" for title, size in prompts.items())
    assert set(prompts.values()) - {7} == lengths - {7}


def test_steps_and_one_call_have_the_same_tokens_and_the_same_last_answer() -> None:
    _, cases = token_cases(4)
    steps = next(case for case in cases if case.title.endswith("step by step"))
    once = next(case for case in cases if case.title.endswith("at once"))
    assert (steps.op, once.op) == ("S", "P") and steps.payload == once.payload
    assert len(steps.answers) == tokens_of(steps).size == 24 and steps.answers[-1:] == once.answers


def test_generation_fills_the_context_and_is_greedy() -> None:
    graph, cases = token_cases(4)
    at = next(i for i, case in enumerate(cases) if case.title == "greedy generation to the end of the context")
    reset, prompt, made, beyond, longer = cases[at - 2 : at + 3]
    assert (reset.op, prompt.op, made.op) == ("R", "P", "S")
    assert tokens_of(prompt).size + tokens_of(made).size == CONTEXT
    logits = [floats(prompt.answers[0].payload), *(floats(answer.payload) for answer in made.answers)]
    assert tokens_of(made).tolist() == [int(np.argmax(row)) for row in logits[:-1]]
    reference = Reference(graph)
    assert np.array_equal(reference.extend(tokens_of(prompt))[0], logits[0])
    assert np.array_equal(reference.extend(tokens_of(made), all_rows=True)[0], np.array(logits[1:]))
    assert [(case.op, tokens_of(case).size, case.answers[0].status) for case in (beyond, longer)] == [
        ("S", 1, CONTEXT_FULL),
        ("P", 1, CONTEXT_FULL),
    ]


def test_a_long_context_is_not_filled(monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs/numerics.md").read_text(encoding="utf-8")
    assert f"a context above {vectors.LONGEST:,} to position {vectors.LONGEST:,}" in page
    monkeypatch.setattr(vectors, "LONGEST", 12)
    _, cases = token_cases(1)
    *_, made, longer = cases
    assert made.title == "greedy generation to position 12 of 30" and tokens_of(made).size == 12 - 7
    assert tokens_of(longer).size == 30 - 12 + 1 and longer.answers[0].status == CONTEXT_FULL
    assert "one step beyond the context" not in {case.title for case in cases}


def test_a_token_beyond_the_vocabulary() -> None:
    graph, cases = token_cases(1)
    (case,) = [case for case in cases if case.answers[0].status == BAD_TOKEN]
    assert tokens_of(case).tolist() == [graph.output_width]


@pytest.mark.parametrize("batch", [1, 3])
def test_samples_of_every_kind(batch: int) -> None:
    graph = load_graph(sensor("top2-e4-norm"), Scheme.W8A8)
    cases = make_vectors(graph, rows=batch, model_bytes=64, memory_bytes=128)
    inputs = {case.title: floats(case.payload).reshape(batch, 13) for case in cases if case.op == "F"}
    assert len([title for title in inputs if title.startswith("random samples")]) == 32
    assert not inputs["zeros"].any()
    least = np.finfo(np.float32).tiny
    assert 0 < np.abs(inputs["denormal values"]).max() < least < np.abs(inputs["tiny values"]).max() < 1e-28
    assert np.abs(inputs["large values"]).max() > 1e5
    reference = Reference(graph)
    for case in (case for case in cases if case.op == "F"):
        if np.isfinite(inputs[case.title]).all():
            right = reference.forward(inputs[case.title])
            assert case.answers[0].status == 0 and case.answers[0].payload == right.astype("<f4").tobytes()
        else:
            assert (case.answers[0].status, case.answers[0].payload) == (NOT_FINITE, b"")
    refused = [title for title, values in inputs.items() if not np.isfinite(values).all()]
    assert refused == ["an infinite input", "an input that is not a number"]
    overflown = next(case for case in cases if case.title == "values that overflow")
    assert not np.isfinite(floats(overflown.answers[0].payload)).any()


def test_they_come_back_as_they_were() -> None:
    _, cases = token_cases(2)
    assert load_vectors(save_vectors(cases), "here") == cases
    assert [case.op for case in cases[:2]] == ["V", "I"]
    assert [answer.payload for case in cases[:2] for answer in case.answers] == [
        (64).to_bytes(4, "little"),
        (128).to_bytes(4, "little"),
    ]


@pytest.mark.parametrize("prefill", [1, 3])
@pytest.mark.parametrize("name", ["mixtral-base", "switch-base"])
def test_a_huge_model_has_few_tokens(name: str, prefill: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = load_graph(ORACLE / name, Scheme.W4A8, context=24)
    monkeypatch.setattr(vectors, "_WEIGHTS_IN_ALL", 63 * graph.parameters())
    cases = make_vectors(graph, rows=prefill, model_bytes=64, memory_bytes=128)
    count = max(2, prefill + 1)
    (prompt,) = (case for case in cases if case.title == f"prompt of {count} tokens")
    (steps,) = (case for case in cases if case.title == f"the same {count} tokens step by step")
    assert tokens_of(prompt).size == count == len(steps.answers)
    assert prompt.answers[0].payload == steps.answers[-1].payload
    assert cases[-1].answers[0].status == CONTEXT_FULL
