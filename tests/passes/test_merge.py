"""Two experts become one: hidden units matched, weights averaged, and the recipe makes the same again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_models import load_graph, sensor_arrays, write_mixtral, write_sensor

from colibri.checkpoint.checkpoint import Checkpoint
from colibri.errors import UsageError
from colibri.generate import build_graph
from colibri.graph.graph import Graph
from colibri.graph.interpret import Reference
from colibri.graph.ops import Experts
from colibri.graph.ops.experts import ExpertWeights
from colibri.passes.merge import Merge, lasting, match, merge_experts
from colibri.passes.prune import drop_experts
from colibri.recipe import parse_recipe, recipe_text
from colibri.recipe_file import recipe_bytes

IDS = np.arange(20) * 7 % 40


def expert(graph: Graph, layer: int, number: int) -> ExpertWeights:
    op = next(op for op in graph.ops if isinstance(op, Experts) and op.layer == layer)
    return next(one for one in op.kept if one.id == number)


def values(graph: Graph, name: str) -> np.ndarray:
    return graph.matrix(name).load().values


def shuffled_twin(folder: Path) -> tuple[Path, np.ndarray]:
    """A sensor model whose expert 3 is expert 1 with its hidden units in another order."""
    arrays = sensor_arrays()
    order = np.array([4, 2, 0, 5, 1, 3])
    for tail, axis in (("fc1.weight", 0), ("fc1.bias", 0), ("fc2.weight", 1)):
        arrays[f"moe.experts.3.{tail}"] = np.take(arrays[f"moe.experts.1.{tail}"], order, axis)
    arrays["moe.experts.3.fc2.bias"] = arrays["moe.experts.1.fc2.bias"]
    return write_sensor(folder, arrays), order


def test_a_shuffled_twin_is_found_and_nothing_changes(tmp_path: Path) -> None:
    folder, order = shuffled_twin(tmp_path / "m")
    graph = load_graph(folder)
    found = match(graph, expert(graph, 0, 3), expert(graph, 0, 1))
    assert found.order.tolist() == order.tolist() and found.similarity == pytest.approx(1, abs=1e-4)
    assert match(graph, expert(graph, 0, 0), expert(graph, 0, 1)).similarity < 0.9
    before = {name: values(graph, name) for name in expert(graph, 0, 1).slots().values()}
    assert merge_experts(graph, [Merge(0, 1, 3, 0.375)]) == {0: {3}}
    for name, old in before.items():
        assert np.array_equal(values(graph, name), old)


def test_the_average_and_its_biases(tmp_path: Path) -> None:
    graph = load_graph(write_sensor(tmp_path / "m"))
    into, gone = expert(graph, 0, 0), expert(graph, 0, 2)
    order = match(graph, into, gone).order
    assert sorted(order.tolist()) == list(range(6))
    old = {name: graph.matrix(name).load() for one in (into, gone) for name in one.slots().values()}
    merge_experts(graph, [Merge(0, 0, 2, 0.25)])
    for slot, name in into.slots().items():
        mine, its = old[name], old[gone.slots()[slot]]
        assert mine.bias is not None and its.bias is not None
        other = its.values[:, order] if slot == "down" else its.values[order]
        other_bias = its.bias if slot == "down" else its.bias[order]
        made = graph.matrix(name).load()
        assert made.bias is not None
        assert np.allclose(made.values, 0.75 * mine.values + 0.25 * other, atol=1e-6)
        assert np.allclose(made.bias, 0.75 * mine.bias + 0.25 * other_bias, atol=1e-6)


def test_always_the_best_pair_that_is_free() -> None:
    from colibri.passes.merge import _assigned

    rng = np.random.default_rng(4)
    for _ in range(20):
        scores = rng.integers(-5, 6, (7, 7)).astype(np.float64)  # with many ties
        free = scores.copy()
        want = np.full(7, -1)
        for _ in range(7):
            row, column = np.unravel_index(np.argmax(free), free.shape)
            want[row] = column
            free[row], free[:, column] = -np.inf, -np.inf
        found = _assigned(scores)
        assert sorted(found.tolist()) == list(range(7))
        assert scores[np.arange(7), found].sum() == scores[np.arange(7), want].sum()


def test_a_recipe_makes_it_again(tmp_path: Path) -> None:
    folder = write_mixtral(tmp_path / "m")
    options = parse_recipe("w8a8:drop=1.0,1.2:merge=1.2-3@0.4,0.1-0@0.125")
    assert options.merges == (Merge(1, 3, 2, 0.4), Merge(0, 0, 1, 0.125))
    assert recipe_text(options) == "w8a8:drop=1.0,1.2:merge=1.2-3@0.4,0.1-0@0.125"
    for share in (1e-5, 1 / 3, 0.0, 1.0):  # which a file may have
        text = recipe_text(replace(options, merges=(Merge(1, 3, 2, share),)))
        assert parse_recipe(text).merges[0].share == pytest.approx(share, abs=1e-9)
    graph = build_graph(Checkpoint.open(folder), options)
    assert graph.expert_counts() == (3, 2)
    (tmp_path / "recipe.json").write_bytes(recipe_bytes(graph, options, ""))
    again = build_graph(Checkpoint.open(folder), parse_recipe(str(tmp_path / "recipe.json")))
    for name in graph.weights:
        if "experts" in name:
            one, other = graph.matrix(name).load(), again.matrix(name).load()
            assert one.integers is not None and other.integers is not None
            assert np.array_equal(one.integers, other.integers)
    wide = load_graph(folder)
    drop_experts(wide, {0: {1}, 1: {0, 2}})
    merged = Reference(build_graph(Checkpoint.open(folder), parse_recipe("f32:merge=1.2-3@0.4,0.1-0@0.125:drop=1.0")))
    assert np.abs(merged.extend(IDS) - Reference(wide).extend(IDS)).max() > 1e-3


@pytest.mark.parametrize(
    ("merge", "message"),
    [
        (Merge(7, 0, 1, 0.5), "merged experts: no experts in layer 7"),
        (Merge(0, 0, 9, 0.5), "merged experts: layer 0 has no expert 9 to merge; it has [0, 1, 2, 3]"),
        (Merge(0, 2, 2, 0.5), "merged experts: layer 0 expert 2 cannot be merged with itself"),
        (Merge(0, 2, 1, 1.5), "merged experts: a share of 1.5 is not between 0 and 1"),
    ],
)
def test_merges_that_cannot_be_meant(tmp_path: Path, merge: Merge, message: str) -> None:
    graph = load_graph(write_mixtral(tmp_path / "m"))
    with pytest.raises(UsageError) as caught:
        merge_experts(graph, [merge])
    assert str(caught.value) == message


def test_what_has_gone_cannot_go_again(tmp_path: Path) -> None:
    graph = load_graph(write_mixtral(tmp_path / "m"))
    with pytest.raises(UsageError, match="layer 0 has no expert 1 to merge"):
        merge_experts(graph, [Merge(0, 0, 1, 0.5), Merge(0, 1, 2, 0.5)])


def test_what_goes_into_a_dropped_expert_is_lost(tmp_path: Path) -> None:
    graph = load_graph(write_mixtral(tmp_path / "m"))
    with pytest.raises(UsageError, match="layer 0 expert 1 goes into expert 2, which is dropped"):
        merge_experts(graph, [Merge(0, 2, 1, 0.5)], {0: {2}})
    chain = (Merge(0, 2, 1, 0.5), Merge(0, 3, 2, 0.5))
    assert lasting(chain, {0: {1, 2}}) == chain  # 1 is in 3 at the end
    assert lasting(chain, {0: {1, 2, 3}}) == ()
    assert lasting([*chain, Merge(1, 3, 0, 0.5)], {0: {3}}) == (Merge(1, 3, 0, 0.5),)
    assert merge_experts(graph, chain, {0: {1, 2}}) == {0: {1, 2}}
