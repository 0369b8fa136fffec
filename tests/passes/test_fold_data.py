"""Scales that calibration data asks for: outliers that no norm shows, and never a change of the function."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from make_bad import CONFIG, tiny_mixtral, write_checkpoint
from small_models import load_graph, write_mixtral, write_sensor

from colibri.calibrate.data import Calibration, CalibrationData
from colibri.calibrate.fold import folds_of_data
from colibri.checkpoint.checkpoint import Checkpoint
from colibri.generate import build_graph
from colibri.graph.graph import Graph
from colibri.graph.interpret import Reference
from colibri.graph.scheme import Scheme
from colibri.options import Options
from colibri.passes.fold import apply_folds, fold_text

FACTOR = np.float32(64)
DATA = CalibrationData(windows=np.arange(1024).reshape(64, 16) ** 2 % CONFIG["vocab_size"])
UP, DOWN = "model.layers.0.block_sparse_moe.experts.3.w3.weight", "model.layers.0.block_sparse_moe.experts.3.w2.weight"
VALUE, OUT = "model.layers.1.self_attn.v_proj.weight", "model.layers.1.self_attn.o_proj.weight"


def hidden_outliers(folder: Path) -> Path:
    """One hidden value of an expert and one element of a value head, which no norm's weights show."""
    arrays = tiny_mixtral(CONFIG, 20)
    heads, groups = CONFIG["num_attention_heads"], CONFIG["num_key_value_heads"]
    head = CONFIG["hidden_size"] // heads
    arrays[UP][2] *= FACTOR
    arrays[DOWN][:, 2] /= FACTOR
    arrays[VALUE][1] *= FACTOR
    for query in range(heads // groups):
        arrays[OUT][:, query * head + 1] /= FACTOR
    write_checkpoint(folder, CONFIG, arrays)
    return folder


def logits(graph: Graph) -> np.ndarray:
    return Reference(graph).extend(np.arange(20) * 3 % CONFIG["vocab_size"], all_rows=True)


@pytest.mark.parametrize("scheme", ["w8a8", "w4a16"])
def test_hidden_outliers_are_found(tmp_path: Path, scheme: str) -> None:
    graph = load_graph(hidden_outliers(tmp_path / "m"))
    folds = folds_of_data(graph, Scheme.parse(scheme), (), DATA)
    assert folds["layers.0.experts.3.up"][2] in (5, 6, 7)
    assert folds["layers.1.v"][1] in (5, 6, 7)


def test_the_function_stays_and_the_loss_shrinks(tmp_path: Path) -> None:
    folder = hidden_outliers(tmp_path / "m")
    graph = load_graph(folder)
    before = logits(graph)
    folds = folds_of_data(graph, Scheme.W8A8, (), DATA)
    apply_folds(graph, folds)
    assert np.array_equal(logits(graph), before)
    lost = [
        float(np.abs(logits(build_graph(Checkpoint.open(folder), Options(folds=text))) - before).max())
        for text in ({}, fold_text(folds))
    ]
    assert lost[1] < lost[0] / 3


def test_an_expert_that_no_row_reaches_stays(tmp_path: Path) -> None:
    arrays = tiny_mixtral(CONFIG, 20)
    arrays["model.layers.0.block_sparse_moe.gate.weight"][3] = -100 * np.abs(arrays[UP]).max()
    arrays[UP][2] *= FACTOR
    write_checkpoint(tmp_path / "m", CONFIG, arrays)
    graph = load_graph(tmp_path / "m")
    once = CalibrationData(windows=np.zeros((1, 1), np.int64))
    reached = {name.split(".")[3] for name in folds_of_data(graph, Scheme.W8A8, (), once) if ".experts." in name}
    assert len(reached) <= CONFIG["num_experts_per_tok"]


def test_nothing_is_folded_for_floats(tmp_path: Path) -> None:
    assert folds_of_data(load_graph(hidden_outliers(tmp_path / "m")), Scheme.F32, (), DATA) == {}


def test_samples_tell_too(tmp_path: Path) -> None:
    graph = load_graph(write_sensor(tmp_path / "s"))
    samples = np.random.default_rng(0).standard_normal((64, graph.input_width)).astype(np.float32)
    folds = folds_of_data(graph, Scheme.W8A8, (), CalibrationData(samples=samples))
    assert all(name.startswith("layers.0.experts.") for name in folds)


def test_calibration_folds_and_the_recipe_says_how(tmp_path: Path) -> None:
    folder = hidden_outliers(tmp_path / "m")
    np.save(tmp_path / "data.npy", DATA.windows)
    options = Options(calibration=Calibration(tmp_path / "data.npy"))
    graph = build_graph(Checkpoint.open(folder), options)
    assert graph.folds["layers.0.experts.3.up"][2] in (5, 6, 7)
    again = build_graph(Checkpoint.open(folder), Options(calibration=options.calibration, folds=fold_text(graph.folds)))
    assert np.array_equal(logits(graph), logits(again))


def test_without_data_the_ordinary_model_stays(tmp_path: Path) -> None:
    assert not build_graph(Checkpoint.open(write_mixtral(tmp_path / "m")), Options()).folds
