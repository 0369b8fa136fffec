"""What is measured of experts, against whole models run without them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from small_models import ENCODERS, ORACLE, load_graph, sensor, write_mixtral

from colibri.evaluate.data import SampleData, TokenData, Window
from colibri.evaluate.statistics import log_probabilities
from colibri.graph.graph import Graph, Op
from colibri.graph.interpret import Reference, Run
from colibri.graph.ops import Experts
from colibri.graph.scheme import Scheme
from colibri.passes.prune import spare_experts, without
from colibri.prune.statistics import Statistics, uses
from colibri.prune.trial import Trials, batches_of

TOKENS = np.random.default_rng(7).integers(0, 40, 61)


def windows(length: int = 12, skipped: int = 0) -> TokenData:
    found = [Window(TOKENS[at : at + length], TOKENS[at + 1 : at + length + 1], skipped) for at in range(0, 48, length)]
    return TokenData(tuple(found), length, length, 0)


def loss_by_hand(graph: Graph, data: TokenData) -> float:
    """One window after the other."""
    found = []
    for window in data.windows:
        reference = Reference(graph)
        if window.source is not None:
            reference.encode(window.source)
        logs = log_probabilities(reference.extend(window.inputs, all_rows=True)[0])
        found += (-logs[np.arange(window.inputs.size), window.targets])[window.skipped :].tolist()
    return float(np.mean(found))


def expert_outputs(graph: Graph, layer: int, tokens: np.ndarray) -> np.ndarray:
    seen: list[np.ndarray] = []

    def watch(op: Op, run: Run) -> None:
        if isinstance(op, Experts) and op.layer == layer:
            seen.append(run.floats[op.out].astype(np.float64))

    Reference(graph, watch=watch).extend(tokens, all_rows=True)
    return seen[0]


@pytest.mark.parametrize("name", ["mixtral", "olmoe-base", "deepseekv3-base", "phimoe-base", "llama4-top1"])
def test_a_trial_is_the_model_without_the_expert(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It begins at the changed layer's router, with windows side by side in two batches."""
    monkeypatch.setattr("colibri.prune.trial._ROWS", 30)
    folder = write_mixtral(tmp_path / "m") if name == "mixtral" else ORACLE / name
    graph, data = load_graph(folder, Scheme.W8A16), windows(skipped=3)
    trials = Trials(graph, batches_of(data, 40))
    assert len(trials.batches) == 2 and trials.rows == 48
    whole = trials.base(graph)
    assert whole.loss == pytest.approx(loss_by_hand(graph, data), rel=1e-12)
    for layer, ids in spare_experts(graph).items():
        pruned = without(graph, {layer: {ids[0]}})
        assert trials.without(pruned, layer).loss == pytest.approx(loss_by_hand(pruned, data), rel=1e-12)
    layer = max(spare_experts(graph))
    pruned = without(graph, {layer: {spare_experts(graph)[layer][0]}})
    assert trials.base(pruned, layer).loss == trials.base(pruned).loss


@pytest.mark.parametrize("name", ENCODERS[:2])
def test_a_trial_of_an_encoder_runs_all_of_it(name: str) -> None:
    graph = load_graph(ORACLE / name, Scheme.W8A16)
    vocabulary = graph.output_width
    ids = np.random.default_rng(2).integers(2, vocabulary, 40)
    found = [Window(ids[at : at + 5], ids[at + 1 : at + 6], 0, ids[at + 10 : at + 16]) for at in (0, 6, 12)]
    data = TokenData((*found, Window(ids[:3], ids[1:4], 0, ids[:4])), 0, 0, 0)
    trials = Trials(graph, batches_of(data, vocabulary))
    assert len(trials.batches) == 2
    assert trials.base(graph).loss == pytest.approx(loss_by_hand(graph, data), rel=1e-12)
    spare = spare_experts(graph)
    assert len(spare) > 1
    for layer, ids_ in spare.items():
        pruned = without(graph, {layer: {ids_[0]}})
        assert trials.without(pruned, layer).loss == pytest.approx(loss_by_hand(pruned, data), rel=1e-12)
        assert trials.without(graph, layer).loss == trials.base(graph).loss


def test_samples_by_value_by_class_and_by_themselves() -> None:
    graph = load_graph(sensor("top2-e4-norm"), Scheme.W8A16)
    x = np.random.default_rng(1).standard_normal((50, 13)).astype(np.float32)
    out = Reference(graph).forward(x).astype(np.float64)
    values, classes = out + 1.5, out.argmax(axis=1)
    pruned = without(graph, {0: {1}})
    other = Reference(pruned).forward(x).astype(np.float64)

    def losses(data: SampleData) -> tuple[float, float]:
        trials = Trials(graph, batches_of(data, 2))
        return trials.base(graph).loss, trials.without(pruned, 0).loss

    assert losses(SampleData(x, values, None, 0)) == pytest.approx((1.5, np.abs(other - values).mean()))
    whole, without_it = losses(SampleData(x, None, classes, 0))
    assert whole == pytest.approx(-log_probabilities(out.astype(np.float32))[np.arange(50), classes].mean())
    assert without_it != whole
    assert losses(SampleData(x, None, None, 0)) == pytest.approx((0, np.abs(other - out).mean()))


@pytest.mark.parametrize("name", ["mixtral", "olmoe-base"])
def test_statistics_of_an_expert(name: str, tmp_path: Path) -> None:
    """The change of a layer's output is that of the whole model run without the expert: what is before is the same."""
    folder = write_mixtral(tmp_path / "m") if name == "mixtral" else ORACLE / name
    graph = load_graph(folder, Scheme.W8A16)
    data = TokenData((Window(TOKENS[:40], TOKENS[1:41]),), 40, 40, 0)
    trials = Trials(graph, batches_of(data, 40))
    statistics = Statistics(graph, 1)
    ran = trials.base(graph, None, statistics.watch)
    found, used = statistics.found(), uses(graph, ran)
    layers = {op.layer: op for op in graph.ops if isinstance(op, Experts)}
    for layer, ids in spare_experts(graph).items():
        op, whole = layers[layer], expert_outputs(graph, layer, TOKENS[:40])
        assert sum(used[layer, one.id].hits for one in op.kept) == 40 * op.top_k
        chosen, weights = ran.routes[layer]
        for number in ids:
            use = used[layer, number]
            assert use.hits == (chosen == number).sum()
            assert use.mass == pytest.approx(weights[chosen == number].astype(np.float64).sum())
            other = expert_outputs(without(graph, {layer: {number}}), layer, TOKENS[:40])
            change = np.sqrt(np.square(other - whole).sum() / np.square(whole).sum())
            assert found.error[layer, number] == pytest.approx(change, rel=1e-6)
            assert ((layer, number) in found.norm) == bool(use.hits)


def test_the_norm_of_what_an_expert_adds(tmp_path: Path) -> None:
    graph = load_graph(write_mixtral(tmp_path / "m"), Scheme.W8A16)
    data = TokenData((Window(TOKENS[:40], TOKENS[1:41]),), 40, 40, 0)
    terms: dict[tuple[int, int], list[float]] = {}

    def watch(op: Op, run: Run) -> None:
        if isinstance(op, Experts) and op.layer is not None:
            for index, one in enumerate(op.kept):
                rows, term = op.term(run, index)
                whole = run.floats[op.out][rows].astype(np.float64)
                rest = np.zeros_like(whole)
                for place in range(len(op.kept)):
                    if place != index:
                        others, other = op.term(run, place)
                        both = np.isin(rows, others)
                        rest[both] += other[np.isin(others, rows)]
                terms[op.layer, one.id] = np.sqrt(np.square(whole - rest).sum(axis=1)).tolist()
                assert np.allclose(whole - rest, term, atol=1e-5)

    Reference(graph, watch=watch).extend(TOKENS[:40], all_rows=True)
    statistics = Statistics(graph, 1)
    Trials(graph, batches_of(data, 40)).base(graph, None, statistics.watch)
    for key, norm in statistics.found().norm.items():
        assert norm == pytest.approx(np.mean(terms[key]), rel=1e-4)
