"""Values in config.json that are out of bounds, contradict each other, or ask for what no family does."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_models import ORACLE, loaded

from colibri.checkpoint.checkpoint import Checkpoint
from colibri.checkpoint.families import ImportOptions, import_graph
from colibri.errors import BadInput, UsageError
from colibri.graph.graph import Graph
from colibri.graph.ops import Attention, GroupedRouter
from colibri.graph.weights import Vector

DELETED = object()
LONGROPE = {"rope_type": "longrope", "short_factor": [1.0] * 4, "long_factor": [1.0] * 4}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
WIDE = {"rope_type": "yarn", "factor": 2.0, "mscale": 1e30, "mscale_all_dim": 1e30}


def changed(folder: Path, name: str, changes: dict[str, Any]) -> Checkpoint:
    shutil.copytree(ORACLE / name, folder)
    config = json.loads((folder / "config.json").read_text()) | changes
    text = json.dumps({key: value for key, value in config.items() if value is not DELETED})
    (folder / "config.json").write_text(text)
    return Checkpoint.open(folder)


def graph_of(folder: Path, name: str, changes: dict[str, Any], context: int | None = None) -> Graph:
    return import_graph(changed(folder, name, changes), ImportOptions(context))


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("gptoss-base", {"num_hidden_layers": 2**31 - 1, "layer_types": None}, "expected 1 to 4096"),
        ("gptoss-base", {"head_dim": 2**31 - 2}, "head_dim is 2147483646, expected 2 to 65536"),
        (
            "olmoe-base",
            {"hidden_size": 2**31 - 8},
            "hidden_size makes heads of 536870910 values, expected at most 65536",
        ),
        ("gptoss-base", {"rms_norm_eps": 1e30}, "rms_norm_eps is 1e+30, expected 0.0 to 1.0"),
        ("llama4-top1", {"moe_layers": [1, 99]}, "moe_layers[1] is 99, expected 0 to 3"),
        ("llama4-top1", {"moe_layers": [-1]}, "moe_layers[0] is -1, expected 0 to 3"),
        (
            "llama4-top1",
            {"attention_chunk_size": None},
            "layer_types has 'chunked_attention', but attention_chunk_size",
        ),
        ("llama4-top1", {"attention_chunk_size": 0}, "attention_chunk_size is 0, expected at least 1"),
        ("llama4-top1", {"no_rope_layers": [1, 1, 2, 0]}, "no_rope_layers[2] is 2, expected 0 to 1"),
        ("phimoe-base", {"router_jitter_noise": -0.5}, "router_jitter_noise is -0.5, expected 0.0 to 1000000.0"),
        ("phimoe-base", {"router_jitter_noise": 3e38}, "router_jitter_noise is 3e+38, expected 0.0 to 1000000.0"),
        ("deepseekv3-base", {"qk_rope_head_dim": 2**31 - 2}, "qk_rope_head_dim is 2147483646, expected 2 to 65536"),
        ("deepseekv3-base", {"n_group": 0}, "n_group is 0, expected at least 1"),
        ("deepseekv3-base", {"n_group": 3}, "n_group 3 does not divide the 8 experts"),
        ("deepseekv3-base", {"topk_group": 5}, "topk_group is 5, but there are 4 groups"),
        ("deepseekv3-base", {"scoring_func": "softmax"}, "scoring_func is 'softmax', expected 'sigmoid'"),
        ("deepseekv3-base", {"topk_method": "greedy"}, "topk_method is 'greedy', expected 'noaux_tc'"),
        ("deepseekv2-lite", {"scoring_func": "sigmoid"}, "scoring_func is 'sigmoid', expected 'softmax'"),
        ("deepseekv3-base", {"rope_parameters": WIDE}, "mscale_all_dim is 1e+30, with which scores are too large"),
        (
            "granitemoe-base",
            {"residual_multiplier": 3e38, "embedding_multiplier": 1e-6},
            "times as large, which is beyond fp32",
        ),
        ("qwen3moe-base", {"partial_rotary_factor": 0.5}, "partial_rotary_factor is 0.5; only whole heads are turned"),
        (
            "llama-llama3rope-tied",
            {"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.25}},
            "rope_parameters.partial_rotary_factor is 0.25; only whole heads are turned",
        ),
        (
            "llama-llama3rope-tied",
            {"rope_parameters": YARN, "rope_scaling": YARN | {"factor": 8.0}},
            "rope_scaling.factor is 8.0 but rope_parameters.factor is 4.0; the two mean the same: keep one table",
        ),
        (
            "llama-llama3rope-tied",
            {"rope_parameters": {"rope_theta": 5.0}, "rope_theta": 7.0},
            "rope_theta is 7.0 but rope_parameters.rope_theta is 5.0",
        ),
        (
            "phimoe-base",
            {"rope_parameters": YARN | {"short_mscale": 1.2, "long_mscale": 1.2}},
            "rope_parameters.rope_type 'yarn' is not supported; one of default, longrope",
        ),
        (
            "gptoss-base",
            {"rope_parameters": DELETED, "rope_scaling": None},
            "rope_scaling is null, which transformers 4 reads as plain rope and transformers 5 as yarn",
        ),
        (
            "variants/mistral-window",
            {"use_sliding_window": False},
            "use_sliding_window is false, but sliding_window is 4, which this model type always has",
        ),
        ("switch-base", {"router_dtype": "bfloat16"}, "router_dtype is 'bfloat16'; routers run in float32"),
        ("deepseekv2-lite", {"rope_interleave": False}, "rope_interleave is false, which this model type does not"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_one_line_names_the_key(tmp_path: Path, name: str, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput) as caught:
        loaded(graph_of(tmp_path / "m", name, changes))
    assert words in str(caught.value) and str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("name", "key", "value", "words"),
    [
        (
            "llama-llama3rope-tied",
            "final_logit_softcapping",
            30.0,
            "is 30.0, which has no meaning for model type llama",
        ),
        ("llama-llama3rope-tied", "use_qk_norm", True, "is true, which has no meaning for model type llama"),
        ("llama-llama3rope-tied", "rope_interleave", True, "is true, which has no meaning for model type llama"),
        ("mixtral-base", "scoring_func", "sigmoid", 'is "sigmoid", which has no meaning for model type mixtral'),
        ("mixtral-base", "attention_multiplier", 0.5, "is 0.5, which has no meaning for model type mixtral"),
        (
            "mixtral-base",
            "layer_types",
            ["linear_attention"] * 2,
            "is set, which has no meaning for model type mixtral",
        ),
        ("mixtral-base", "layer_types", ["full_attention", "sliding_attention"], "is set, which has no meaning"),
        ("qwen3moe-base", "routed_scaling_factor", 2.5, "is 2.5, which has no meaning for model type qwen3_moe"),
        ("olmoe-base", "embedding_multiplier", 12.0, "is 12.0, which has no meaning for model type olmoe"),
    ],
)
def test_a_key_of_another_family_that_means_something(
    tmp_path: Path, name: str, key: str, value: object, words: str
) -> None:
    with pytest.raises(BadInput) as caught:
        graph_of(tmp_path / "m", name, {key: value})
    assert f"{key} {words}" in str(caught.value) and "remove the key" in str(caught.value)


def test_a_key_of_another_family_inside_the_table_of_positions(tmp_path: Path) -> None:
    rope = {"rope_type": "default", "rope_theta": 1e4, "llama_4_scaling_beta": 0.1}
    with pytest.raises(BadInput, match=r"rope_parameters\.llama_4_scaling_beta is 0\.1, which has no meaning"):
        graph_of(tmp_path / "m", "mixtral-base", {"rope_parameters": rope})


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("mixtral-base", {"layer_types": ["full_attention"] * 2, "scoring_func": "softmax", "logits_scaling": 1.0}),
        ("mixtral-base", {"final_logit_softcapping": None, "routed_scaling_factor": 1, "use_qk_norm": False}),
        ("qwen3moe-base", {"use_qk_norm": True, "sliding_window": 4096, "max_window_layers": 28}),
        ("granitemoe-base", {"attention_multiplier": 0.5, "position_embedding_type": "rope"}),
    ],
)
def test_keys_that_are_read_or_change_nothing(tmp_path: Path, name: str, changes: dict[str, Any]) -> None:
    graph_of(tmp_path / "m", name, changes)


def windows_of(folder: Path, name: str, changes: dict[str, Any]) -> list[int]:
    return [op.window for op in graph_of(folder, name, changes).ops if isinstance(op, Attention)]


def test_which_layers_of_qwen_have_windows(tmp_path: Path) -> None:
    name = "variants/qwen2-windows"
    assert windows_of(tmp_path / "a", name, {"layer_types": DELETED}) == [0, 6, 6]
    assert windows_of(tmp_path / "b", name, {"layer_types": DELETED, "sliding_window": None}) == [0, 0, 0]
    name, old = "variants/qwen2moe-windows", {"layer_types": DELETED}
    assert windows_of(tmp_path / "c", name, old | {"max_window_layers": 0}) == [0, 0, 0]
    assert windows_of(tmp_path / "d", name, old | {"max_window_layers": 3}) == [5, 0, 5]


def test_groups_of_the_original_where_the_key_is_absent(tmp_path: Path) -> None:
    graph = graph_of(tmp_path / "a", "deepseekv3-base", {"topk_group": DELETED})
    assert {op.groups_kept for op in graph.ops if isinstance(op, GroupedRouter)} == {4}


def test_a_key_that_the_original_ignores_is_told(tmp_path: Path) -> None:
    graph = graph_of(tmp_path / "m", "deepseekv2-lite", {"norm_topk_prob": True})
    assert [line for line in graph.warnings if "norm_topk_prob is true" in line]
    assert not graph_of(tmp_path / "n", "deepseekv2-lite", {"norm_topk_prob": False}).warnings


def test_empty_shared_experts_are_dropped_but_not_full_ones(tmp_path: Path) -> None:
    dropped = import_graph(Checkpoint.open(ORACLE / "variants/deepseekv3-no-shared-experts"), ImportOptions()).dropped
    assert any("shared_experts" in line and "n_shared_experts is 0" in line for line in dropped)
    with pytest.raises(
        BadInput, match=r"tensor\(s\) that this model does not have: 'model.layers.1.mlp.shared_experts"
    ):
        graph_of(tmp_path / "m", "deepseekv3-base", {"n_shared_experts": 0})


def test_more_positions_than_any_table_has(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--context: 2,147,483,647 positions; ask for at most 16,777,216"):
        graph_of(tmp_path / "m", "llama4-top1", {"max_position_embeddings": 2**31 - 1})


def rope_of(folder: Path, changes: dict[str, Any], context: int | None = None) -> list[np.ndarray]:
    graph = graph_of(folder, "llama-llama3rope-tied", changes, context)
    tables = [graph.weights[name] for name in ("rope_coarse", "rope_fine")]
    return [table.values for table in tables if isinstance(table, Vector)]


def test_original_positions_outside_the_table_count_first(tmp_path: Path) -> None:
    inside = rope_of(tmp_path / "a", {"rope_parameters": YARN})
    outside = rope_of(
        tmp_path / "b",
        {"rope_parameters": YARN | {"original_max_position_embeddings": 99}, "original_max_position_embeddings": 16},
    )
    other = rope_of(tmp_path / "c", {"rope_parameters": YARN | {"original_max_position_embeddings": 99}})
    assert all(np.array_equal(one, two) for one, two in zip(inside, outside, strict=True))
    assert not np.array_equal(inside[0], other[0])


def test_the_base_may_stand_in_the_older_table(tmp_path: Path) -> None:
    one = rope_of(tmp_path / "a", {"rope_parameters": DELETED, "rope_scaling": YARN | {"rope_theta": 50.0}})
    two = rope_of(tmp_path / "b", {"rope_parameters": YARN, "rope_theta": 50.0})
    assert all(np.array_equal(left, right) for left, right in zip(one, two, strict=True))


def test_usual_positions_of_gpt_oss(tmp_path: Path) -> None:
    yarn = {"rope_type": "yarn", "factor": 32.0, "truncate": False, "original_max_position_embeddings": 4096}
    said = graph_of(tmp_path / "a", "gptoss-base", {"rope_parameters": yarn | {"rope_theta": 150000.0}})
    usual = graph_of(tmp_path / "b", "gptoss-base", {"rope_parameters": DELETED})
    for name in ("rope_coarse", "rope_fine"):
        one, two = said.weights[name], usual.weights[name]
        assert isinstance(one, Vector) and isinstance(two, Vector) and np.array_equal(one.values, two.values)


def test_longrope_with_two_scales_changes_on_the_way(tmp_path: Path) -> None:
    rope = LONGROPE | {"original_max_position_embeddings": 32, "short_mscale": 1.25, "long_mscale": 1.5}
    changes = {"rope_parameters": rope | {"rope_theta": 1e4}}
    with pytest.raises(UsageError, match="64 positions: with longrope the frequencies change behind 32"):
        graph_of(tmp_path / "a", "phimoe-base", changes, context=64)
    graph_of(tmp_path / "b", "phimoe-base", changes, context=32)


def test_without_the_key_chunks_are_those_of_the_original(tmp_path: Path) -> None:
    long = {"max_position_embeddings": 16384, "attention_chunk_size": DELETED}
    graph = graph_of(tmp_path / "a", "llama4-top1", long)
    assert [op.window for op in graph.ops if isinstance(op, Attention)] == [8192, 8192, 8192, 0]
