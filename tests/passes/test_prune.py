"""Dropped experts leave the graph; what stays computes what a hand-pruned checkpoint computes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from make_bad import CONFIG, tiny_mixtral, write_checkpoint
from small_models import (
    DECODERS,
    ORACLE,
    SENSOR_CONFIG,
    load_graph,
    sensor,
    sensor_arrays,
    write_mixtral,
    write_sensor,
)

from colibri.checkpoint.checkpoint import Checkpoint
from colibri.checkpoint.families import ImportOptions, import_graph
from colibri.errors import BadInput, UsageError
from colibri.graph.graph import Graph
from colibri.graph.interpret import Reference
from colibri.graph.ops import Experts, Router
from colibri.graph.weights import Matrix, Vector
from colibri.passes.prune import asked_to_drop, drop_experts, keep_only

IDS = np.arange(20) * 7 % CONFIG["vocab_size"]


def matrix(graph: Graph, name: str) -> Matrix:
    return graph.matrix(name).load()


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return load_graph(write_mixtral(tmp_path / "m"))


def kept(graph: Graph) -> list[list[int]]:
    return [[expert.id for expert in op.kept] for op in graph.ops if isinstance(op, Experts)]


def test_weights_and_router_rows_vanish(graph: Graph) -> None:
    before = matrix(graph, "layers.1.router").dense
    names = set(graph.weights)
    drop_experts(graph, {1: {0, 2}})
    gone = {f"layers.1.experts.{expert}.{part}" for expert in (0, 2) for part in ("gate", "up", "down")}
    assert names - set(graph.weights) == gone
    assert kept(graph) == [[0, 1, 2, 3], [1, 3]]
    assert graph.expert_counts() == (4, 2)
    router = matrix(graph, "layers.1.router")
    assert before is not None and router.dense is not None
    assert router.shape == (2, 16) and np.array_equal(router.dense, before[[1, 3]])
    assert [op.num_experts for op in graph.ops if isinstance(op, Router)] == [4, 2]
    assert graph.pruned == {1: {0, 2}}
    assert [note for note in graph.dropped if "asked" in note] == [
        "layer 1 expert 0: asked to drop it",
        "layer 1 expert 2: asked to drop it",
    ]


def test_parameters_fall_by_the_experts_and_their_router_rows(graph: Graph) -> None:
    before = graph.parameters()
    drop_experts(graph, {0: {3}})
    assert before - graph.parameters() == 3 * 16 * 24 + 16


def test_nothing_to_drop_changes_nothing(graph: Graph) -> None:
    ops, weights = list(graph.ops), dict(graph.weights)
    drop_experts(graph, {})
    drop_experts(graph, {0: set()})
    assert graph.ops == ops and graph.weights == weights


def test_output_equals_a_checkpoint_pruned_by_hand(tmp_path: Path, graph: Graph) -> None:
    """Expert 1 goes from both layers: the checkpoint with three experts, renumbered, has the same bits."""
    arrays = tiny_mixtral()
    for layer in range(2):
        block = f"model.layers.{layer}.block_sparse_moe"
        arrays[f"{block}.gate.weight"] = arrays[f"{block}.gate.weight"][[0, 2, 3]]
        for part in ("w1", "w2", "w3"):
            tail = f"{part}.weight"
            arrays[f"{block}.experts.1.{tail}"] = arrays.pop(f"{block}.experts.2.{tail}")
            arrays[f"{block}.experts.2.{tail}"] = arrays.pop(f"{block}.experts.3.{tail}")
    write_checkpoint(tmp_path / "byhand", CONFIG | {"num_local_experts": 3}, dict(sorted(arrays.items())))
    drop_experts(graph, {0: {1}, 1: {1}})
    want = Reference(load_graph(tmp_path / "byhand")).extend(IDS, all_rows=True)
    assert np.array_equal(Reference(graph).extend(IDS, all_rows=True), want)


def test_output_equals_a_router_masked_by_hand(tmp_path: Path, graph: Graph) -> None:
    """Other experts in each layer; the whole model, told never to choose them, agrees up to the softmax's order."""
    drops = {0: {0, 3}, 1: {2}}
    masked = load_graph(tmp_path / "m")
    for op in masked.ops:
        if isinstance(op, Router):
            assert op.layer is not None
            bias = np.zeros(4, np.float32)
            bias[sorted(drops[op.layer])] = -1e30
            masked.weights[op.weight] = Matrix(
                matrix(masked, op.weight).coding, (4, 16), dense=matrix(masked, op.weight).dense, bias=bias
            )
    whole = Reference(load_graph(tmp_path / "m")).extend(IDS, all_rows=True)
    drop_experts(graph, drops)
    pruned = Reference(graph).extend(IDS, all_rows=True)
    assert np.allclose(pruned, Reference(masked).extend(IDS, all_rows=True), atol=1e-5, rtol=0)
    assert np.abs(pruned - whole).max() > 1e-2


def test_router_bias_of_a_sensor_model_is_pruned_too(tmp_path: Path) -> None:
    arrays = sensor_arrays()
    few = {name: values for name, values in arrays.items() if ".experts.2." not in name and ".experts.3." not in name}
    for tail in ("weight", "bias"):
        few[f"moe.gate.{tail}"] = arrays[f"moe.gate.{tail}"][[0, 1, 3]]
        for part in ("fc1", "fc2"):
            few[f"moe.experts.2.{part}.{tail}"] = arrays[f"moe.experts.3.{part}.{tail}"]
    byhand = load_graph(write_sensor(tmp_path / "byhand", few, num_experts=3))
    graph = load_graph(write_sensor(tmp_path / "whole", arrays))
    drop_experts(graph, {0: {2}})
    x = np.random.default_rng(1).standard_normal((30, SENSOR_CONFIG["input_dim"])).astype(np.float32)
    assert np.array_equal(Reference(graph).forward(x), Reference(byhand).forward(x))


def test_down_to_as_many_as_the_router_chooses() -> None:
    graph = load_graph(sensor("top1-e4"))
    drop_experts(graph, {0: {0, 1, 3}})
    assert kept(graph) == [[2]]
    out = Reference(graph).forward(np.ones((1, 13), np.float32))
    assert np.isfinite(out).all()


@pytest.mark.parametrize(
    ("drops", "message"),
    [
        ({2: {0}}, "dropped experts: no experts in layer 2; layers with experts: 0, 1"),
        ({0: {4}}, "dropped experts: layer 0 has no expert 4; it has [0, 1, 2, 3]"),
        ({0: {1}, 1: {9, 7}}, "dropped experts: layer 1 has no expert 7; it has [0, 1, 2, 3]"),
        (
            {1: {0, 1, 2}},
            "dropped experts: layer 1 would keep 1 expert, but its router chooses 2; keep more",
        ),
    ],
)
def test_impossible_drops_are_one_line_and_change_nothing(
    graph: Graph, drops: dict[int, set[int]], message: str
) -> None:
    ops, weights = list(graph.ops), dict(graph.weights)
    with pytest.raises(BadInput) as caught:
        drop_experts(graph, drops)
    assert str(caught.value) == message and caught.value.exit_code == 5
    assert graph.ops == ops and graph.weights == weights and not graph.pruned


def test_keep_only_is_the_complement(graph: Graph) -> None:
    assert keep_only(graph, {1: {0, 3}}) == {1: {1, 2}}
    assert keep_only(graph, {0: {0, 1, 2, 3}}) == {0: set()}
    assert keep_only(graph, {}) == {}


@pytest.mark.parametrize(
    ("keep", "message"),
    [
        ({5: {0}}, "kept experts: no experts in layer 5"),
        ({0: {0, 8}}, "kept experts: layer 0 has no expert 8; it has [0, 1, 2, 3]"),
    ],
)
def test_impossible_keeps(graph: Graph, keep: dict[int, set[int]], message: str) -> None:
    with pytest.raises(BadInput) as caught:
        keep_only(graph, keep)
    assert str(caught.value).startswith(message) and "\n" not in str(caught.value)


def test_keeping_too_few_is_found_when_they_are_dropped(graph: Graph) -> None:
    with pytest.raises(BadInput, match="layer 0 would keep 1 expert, but its router chooses 2"):
        drop_experts(graph, keep_only(graph, {0: {2}}))


def test_ids_stay_the_checkpoints_own_after_a_second_drop(graph: Graph) -> None:
    rows = matrix(graph, "layers.0.router").dense
    drop_experts(graph, {0: {0}})
    drop_experts(graph, {0: {2}})
    assert kept(graph)[0] == [1, 3]
    left = matrix(graph, "layers.0.router").dense
    assert rows is not None and left is not None and np.array_equal(left, rows[[1, 3]])
    assert graph.pruned == {0: {0, 2}}


MIXTURES = [name for name in DECODERS if name not in ("llama-llama3rope-tied", "qwen2-swa")]


@pytest.mark.parametrize("name", MIXTURES)
def test_every_family_agrees_with_its_router_masked_by_hand(name: str) -> None:
    """A whole model, told never to choose the first expert of a layer, answers as the one without it."""
    whole, masked, pruned = (import_graph(Checkpoint.open(ORACLE / name), ImportOptions(24)) for _ in range(3))
    layers = {op.layer: op for op in whole.ops if isinstance(op, Experts)}
    for layer in layers:
        router = f"layers.{layer}.router"
        old, correction = matrix(masked, router), masked.weights.get(f"{router}_correction")
        bias = np.zeros(old.shape[0], np.float32) if old.bias is None else old.bias.copy()
        bias[0] = -1e30
        masked.weights[router] = replace(old, bias=bias)
        if isinstance(correction, Vector):
            values = correction.values.copy()
            values[0] = -1e30
            masked.weights[f"{router}_correction"] = replace(correction, values=values)
    drop_experts(pruned, {layer: {0} for layer in layers if layer is not None})
    assert pruned.expert_counts() == tuple(max(1, count - 1) for count in whole.expert_counts())
    answers = [Reference(graph).extend(IDS, all_rows=True) for graph in (whole, masked, pruned)]
    assert np.allclose(answers[2], answers[1], atol=1e-5, rtol=0)
    assert np.abs(answers[2] - answers[0]).max() > 1e-3


def test_groups_that_could_not_be_filled_are_the_users_fault() -> None:
    graph = import_graph(Checkpoint.open(ORACLE / "deepseekv3-base"), ImportOptions(24))
    drops = {1: {0, 2}}  # of 4 groups of 2, of which the router opens 2 to choose 3
    for check, where in ((drop_experts, "dropped experts"), (partial(asked_to_drop, where="drop=0.1"), "drop=0.1")):
        error = BadInput if check is drop_experts else UsageError
        with pytest.raises(error, match=rf"{where}: layer 1 would keep too few experts \(2\) in some 2 of its groups"):
            check(graph, drops)
    assert graph.pruned == {}
