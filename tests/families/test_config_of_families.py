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
from colibri.graph.ops import Attention
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
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_one_line_names_the_key(tmp_path: Path, name: str, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput) as caught:
        loaded(graph_of(tmp_path / "m", name, changes))
    assert words in str(caught.value) and str(caught.value).isprintable()


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
