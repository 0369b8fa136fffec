"""The language model is found inside checkpoints of several parts, whatever prefix it has there."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from make_bad import CONFIG, Arrays, tiny_mixtral, write_checkpoint
from small_models import load_graph

from colibri.checkpoint.checkpoint import Checkpoint
from colibri.errors import BadInput
from colibri.graph.interpret import Reference

OUTER = {"model_type": "mixtral_with_eyes", "text_config": CONFIG, "vision_config": {"model_type": "eyes"}}
EYES: Arrays = {"vision_tower.w": np.ones((2, 3), np.float32), "model.visual.blocks.0.b": np.ones(4, np.float32)}


def below(prefix: str) -> Callable[[str], str]:
    return lambda name: prefix + name


def inside(prefix: str) -> Callable[[str], str]:
    return lambda name: name.replace("model.", prefix, 1) if name.startswith("model.") else name


def plain(name: str) -> str:
    return name


@pytest.mark.parametrize(
    "rename", [below("language_model."), inside("model.language_model."), inside("model.text_model."), plain]
)
def test_the_graph_is_that_of_the_text_alone(rename: Callable[[str], str], tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "outer", OUTER, {rename(name): v for name, v in tiny_mixtral().items()} | EYES)
    write_checkpoint(tmp_path / "alone")
    graph = load_graph(tmp_path / "outer")
    assert graph.dropped == [
        "visual.*: not of the language model: 1 tensor(s), 16 bytes",
        "vision_tower.*: not of the language model: 1 tensor(s), 24 bytes",
    ]
    ids = np.arange(9) * 3 % 40
    outer, alone = (Reference(made).extend(ids, all_rows=True) for made in (graph, load_graph(tmp_path / "alone")))
    assert np.array_equal(outer, alone)


def test_a_head_is_tied_where_either_table_says_so_and_none_is_stored(tmp_path: Path) -> None:
    arrays = {f"language_model.{name}": values for name, values in tiny_mixtral().items()}
    text = {key: value for key, value in CONFIG.items() if key != "tie_word_embeddings"}
    headless = {name: values for name, values in arrays.items() if "lm_head" not in name}
    tied = {"tie_word_embeddings": True}
    for config in (OUTER | tied | {"text_config": text}, OUTER | {"text_config": text | tied}):
        write_checkpoint(tmp_path, config, headless)
        assert "head" not in load_graph(tmp_path).weights
    write_checkpoint(tmp_path, OUTER | {"tie_word_embeddings": False, "text_config": CONFIG | tied}, arrays)
    assert "head" in load_graph(tmp_path).weights
    write_checkpoint(tmp_path, OUTER | {"tie_word_embeddings": False}, headless)
    with pytest.raises(BadInput, match=r"lm_head\.weight is missing"):
        load_graph(tmp_path)


@pytest.mark.parametrize(
    ("changes", "more", "words"),
    [
        ({"text_config": 3}, {}, "text_config is 3, expected an object"),
        ({"text_config": CONFIG | {"hidden_size": "x"}}, {}, "text_config.hidden_size is 'x', expected an integer"),
        ({"quantization_config": {"quant_method": "awq"}}, {}, "quantization_config awq is not readable"),
        ({}, {"model.norm.weight": np.ones(16, np.float32)}, "are the same part of the language model"),
        ({}, {"ears.w": np.ones(2, np.float32)}, "unknown tensor ears.w"),
        ({}, {"language_model.vision_tower.w": np.ones(2, np.float32)}, "unknown tensor vision_tower.w"),
        ({"text_config": CONFIG | {"model_type": "eyes_text"}}, {}, "model type 'eyes_text' is not supported"),
    ],
)
def test_what_is_refused(changes: dict[str, Any], more: Arrays, words: str, tmp_path: Path) -> None:
    arrays = {f"language_model.{name}": values for name, values in tiny_mixtral().items()}
    write_checkpoint(tmp_path, json.loads(json.dumps(OUTER)) | changes, arrays | EYES | more)
    with pytest.raises(BadInput) as caught:
        load_graph(tmp_path)
    assert words in str(caught.value)


def test_the_licence_is_that_of_the_whole(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, OUTER | {"license": "mit"}, tiny_mixtral())
    assert Checkpoint.open(tmp_path).licence() == "mit"
