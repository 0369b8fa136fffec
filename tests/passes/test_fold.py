"""Folded scales: the same function with other numbers, where the graph proves it, and found where weights agree."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from make_bad import CONFIG, tiny_mixtral, write_checkpoint
from small_models import ENCODERS, ORACLE, load_graph, sensor_arrays, write_mixtral, write_sensor

from colibri.checkpoint.checkpoint import Checkpoint
from colibri.checkpoint.families import ImportOptions, import_graph
from colibri.errors import BadInput
from colibri.generate import build_graph
from colibri.graph.graph import Graph
from colibri.graph.interpret import Reference
from colibri.graph.scheme import Scheme
from colibri.graph.weights import Vector
from colibri.options import Options
from colibri.passes.fold import apply_folds, fold_text, input_factors, read_folds
from colibri.passes.fold_places import PlaceKind, find_places
from colibri.passes.fold_scales import folds_of_weights
from colibri.passes.prune import drop_experts

FAMILIES = (
    "deepseekv2-lite",
    "deepseekv3-base",
    "granitemoe-base",
    "llama4-top1",
    "mixtral-base",
    "qwen2moe-base",
    "variants/gptoss-mxfp4",
    "variants/olmoe-clip",
    "variants/phimoe-tied-head-bias",
    *ENCODERS[:1],
)


def imported(path: Path) -> Graph:
    return import_graph(Checkpoint.open(path), ImportOptions())


def answers(graph: Graph) -> np.ndarray:
    if graph.input_width:
        samples = np.linspace(-2, 2, 6 * graph.input_width, dtype=np.float32).reshape(6, -1)
        return Reference(graph).forward(samples)
    reference = Reference(graph)
    if graph.source:
        reference.encode(np.arange(1, 8))
    return reference.extend(np.arange(9) * 5 % graph.output_width, all_rows=True)


def any_folds(graph: Graph, seed: int = 0) -> dict[str, tuple[int, ...]]:
    rng = np.random.default_rng(seed)
    return {place.name: tuple(rng.integers(-3, 4, place.width).tolist()) for place in find_places(graph).found}


def left(graph: Graph) -> dict[str, str]:
    return {one.name: one.why for one in find_places(graph).left}


def names(graph: Graph, kind: PlaceKind) -> list[str]:
    return [place.name for place in find_places(graph, (kind,)).found]


@pytest.mark.parametrize("family", FAMILIES)
def test_every_place_of_a_family_keeps_the_bits(family: str) -> None:
    graph = imported(ORACLE / family)
    before, folds = answers(graph), any_folds(graph)
    assert folds
    apply_folds(graph, folds)
    assert graph.folds == folds
    assert np.array_equal(answers(graph), before)


@pytest.mark.parametrize("changes", [{}, {"layer_norm": True, "shared_expert_hidden": 5}, {"activation": "identity"}])
def test_a_sensor_model_keeps_the_bits(tmp_path: Path, changes: dict[str, object]) -> None:
    arrays = sensor_arrays()
    if "layer_norm" in changes:
        rng = np.random.default_rng(4)
        arrays |= {f"moe.norm.{part}": rng.uniform(0.5, 2, 8).astype(np.float32) for part in ("weight", "bias")}
        arrays |= {"moe.shared.fc1.weight": rng.standard_normal((5, 8)).astype(np.float32)}
        arrays |= {"moe.shared.fc2.weight": rng.standard_normal((8, 5)).astype(np.float32)}
        arrays |= {f"moe.shared.fc{i}.bias": rng.standard_normal(n).astype(np.float32) for i, n in ((1, 5), (2, 8))}
    graph = imported(write_sensor(tmp_path / "s", arrays, **changes))
    before, folds = answers(graph), any_folds(graph)
    assert len(folds) == (6 if "layer_norm" in changes else 4)
    apply_folds(graph, folds)
    assert np.array_equal(answers(graph), before)


def test_all_readers_of_a_norm_take_part() -> None:
    graph = imported(ORACLE / "qwen2moe-base")
    places = {place.name: place for place in find_places(graph).found}
    readers = places["layers.0.expert_norm"].readers
    experts = {f"layers.0.experts.{expert}.{slot}" for expert in range(6) for slot in ("gate", "up")}
    shared = {f"layers.0.shared.{slot}" for slot in ("gate", "up", "scale")}
    assert set(readers) == experts | shared | {"layers.0.router"}
    assert places["layers.0.attention_norm"].readers == tuple(f"layers.0.{slot}" for slot in "qkv")
    assert places["final_norm"].readers == ("head",)


def test_values_of_a_group_of_heads_share_their_scales() -> None:
    graph = imported(ORACLE / "mixtral-base")
    place = next(place for place in find_places(graph).found if place.kind is PlaceKind.VALUE)
    assert place.repeats == 2
    factors = np.arange(place.width, dtype=np.float32)
    columns = place.columns(factors)
    assert columns.size == graph.matrix(place.readers[0]).shape[1]
    head, repeats = place.head_dim, place.repeats
    for column, factor in enumerate(columns.tolist()):
        assert factor == column // head // repeats * head + column % head


@pytest.mark.parametrize(
    ("family", "name", "why"),
    [
        ("llama-llama3rope-tied", "final_norm", "embedding is used elsewhere"),
        ("variants/olmoe-clip", "layers.0.v", "values are changed on their way to attention"),
        ("variants/olmoe-clip", "layers.0.q_norm", "Clip reads q_normed, too"),
        ("gptoss-base", "layers.0.experts.0.up", "its hidden values are clipped"),
        ("variants/gptoss-mxfp4", "layers.0.expert_norm", "layers.0.experts.0.gate is fp4 in the checkpoint"),
        ("deepseekv3-base", "layers.0.latent_norm", "LatentAttention reads latent_normed, too"),
        ("switch-base", "encoder_norm", "Keep reads normed, too"),
    ],
)
def test_what_is_not_proven_is_left_and_said(family: str, name: str, why: str) -> None:
    graph = imported(ORACLE / family)
    assert left(graph)[name] == why
    assert name not in any_folds(graph)


def test_an_mlp_whose_activation_is_no_line_through_zero_is_left(tmp_path: Path) -> None:
    graph = imported(write_sensor(tmp_path / "s", activation="gelu"))
    assert names(graph, PlaceKind.MLP) == []
    assert left(graph)["layers.0.experts.0.up"] == "gelu of a part is not the part of gelu"


def outlier_mixtral(folder: Path, factor: float, channels: tuple[int, ...] = (1, 6)) -> Path:
    """The tiny Mixtral with weights of two norms times a factor, and the columns behind them divided by it."""
    arrays = tiny_mixtral(CONFIG, 20)
    for norm, readers in (("layers.0.input_layernorm", ".self_attn."), ("layers.1.post_attention_layernorm", ".block")):
        arrays[f"model.{norm}.weight"][list(channels)] *= np.float32(factor)
        layer = norm.split(".")[1]
        for name, values in arrays.items():
            if f"layers.{layer}{readers}" in name and not name.endswith(("o_proj.weight", "w2.weight")):
                values[:, list(channels)] /= np.float32(factor)
    write_checkpoint(folder, CONFIG, arrays)
    return folder


def test_what_norm_and_matrices_agree_on_is_found(tmp_path: Path) -> None:
    folds = folds_of_weights(imported(outlier_mixtral(tmp_path / "m", 32)))
    assert set(folds) == {"layers.0.attention_norm", "layers.1.expert_norm"}
    for octaves in folds.values():
        assert {channel for channel, octave in enumerate(octaves) if octave} == {1, 6}
        assert all(abs(octave - 5) <= 1 for octave in octaves if octave)
    folds = folds_of_weights(imported(outlier_mixtral(tmp_path / "inverse", 1 / 32)))
    assert {octave < -3 for octaves in folds.values() for octave in octaves if octave} == {True}


def test_an_ordinary_model_stays_as_it_is_and_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = imported(write_mixtral(tmp_path / "m"))
    monkeypatch.setattr(
        "colibri.passes.fold_scales.largest_columns", lambda graph, place: pytest.fail("read for nothing")
    )
    assert folds_of_weights(graph) == {}


def test_a_large_norm_weight_before_ordinary_columns_stays(tmp_path: Path) -> None:
    arrays = tiny_mixtral(CONFIG, 20)
    arrays["model.layers.0.input_layernorm.weight"][3] *= np.float32(32)
    write_checkpoint(tmp_path / "m", CONFIG, arrays)
    assert folds_of_weights(imported(tmp_path / "m")) == {}


def test_outliers_that_have_to_stay_are_named(tmp_path: Path) -> None:
    config = CONFIG | {"tie_word_embeddings": True}
    arrays = tiny_mixtral(config, 20)
    del arrays["lm_head.weight"]
    arrays["model.norm.weight"][:] = 1
    arrays["model.norm.weight"][[2, 3]] = 40
    write_checkpoint(tmp_path / "m", config, arrays)
    graph = imported(tmp_path / "m")
    assert folds_of_weights(graph) == {}
    assert graph.warnings == [
        "final_norm: 2 of its weights stand out by 16 times or more, and their scales cannot be folded: "
        "embedding is used elsewhere"
    ]


def test_folded_outliers_cost_nothing(tmp_path: Path) -> None:
    """In 8 bits, with a power of two, the folded model has the bits of the one without outliers."""
    plain = write_mixtral(tmp_path / "plain")
    outliers = outlier_mixtral(tmp_path / "outliers", 32)
    found = folds_of_weights(imported(outliers))
    exact = {place: tuple(5 if octave else 0 for octave in octaves) for place, octaves in found.items()}
    options = Options(scheme=Scheme.parse("w8a8"), folds=fold_text(exact))
    tokens = np.arange(20) * 7 % CONFIG["vocab_size"]
    got = [
        Reference(build_graph(Checkpoint.open(path), one)).extend(tokens, all_rows=True)
        for path, one in ((plain, Options()), (outliers, options), (outliers, Options(folds={})))
    ]
    assert np.array_equal(got[0], got[1])
    assert not np.array_equal(got[0], got[2])


def test_it_is_done_by_default_where_something_is_quantised(tmp_path: Path) -> None:
    folder = outlier_mixtral(tmp_path / "m", 32)
    assert build_graph(Checkpoint.open(folder), Options()).folds
    assert not build_graph(Checkpoint.open(folder), Options(scheme=Scheme.parse("f32"))).folds
    assert not build_graph(Checkpoint.open(folder), Options(folds={})).folds


def test_text_and_back(tmp_path: Path) -> None:
    graph = imported(write_mixtral(tmp_path / "m"))
    folds = any_folds(graph)
    assert read_folds(graph, fold_text(folds), "recipe") == folds


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ({"layers.9.attention_norm": {"1": [0]}}, "no scales can be folded at 'layers.9.attention_norm' of this model"),
        (
            {"layers.0.attention_norm": {"1": [99]}},
            "channel 99 of 'layers.0.attention_norm' is there twice, or beyond 15",
        ),
        ({"layers.0.attention_norm": {"1": [0], "2": [0]}}, "channel 0 of 'layers.0.attention_norm' is there twice"),
        ({"layers.0.attention_norm": {"25": [0]}}, "'25' is no power of two to fold, expected -24 to 24 without 0"),
        ({"layers.0.attention_norm": {"0": [0]}}, "'0' is no power of two to fold"),
        ({"layers.0.attention_norm": {"x": [0]}}, "'x' is no power of two to fold"),
    ],
)
def test_a_recipe_that_cannot_be_meant(tmp_path: Path, text: dict[str, dict[str, list[int]]], what: str) -> None:
    graph = imported(write_mixtral(tmp_path / "m"))
    with pytest.raises(BadInput) as error:
        read_folds(graph, text, "recipe.json")
    assert what in str(error.value) and error.value.where == "recipe.json"


def test_weights_beyond_fp32_are_refused(tmp_path: Path) -> None:
    arrays = tiny_mixtral(CONFIG, 20)
    arrays["model.layers.0.self_attn.q_proj.weight"][0, 0] = 2.0**127
    write_checkpoint(tmp_path / "m", CONFIG, arrays)
    graph = imported(tmp_path / "m")
    apply_folds(graph, {"layers.0.attention_norm": (1,) + (0,) * 15})
    with pytest.raises(BadInput, match=r"make 'layers.0.q' larger than fp32 holds"):
        graph.matrix("layers.0.q").load()


def test_statistics_made_before_a_fold_can_follow_it(tmp_path: Path) -> None:
    graph = imported(write_mixtral(tmp_path / "m"))
    folds = {"layers.0.attention_norm": (3,) + (0,) * 15}
    factors = input_factors(graph, folds)
    assert set(factors) == {f"layers.0.{slot}" for slot in "qkv"}
    assert factors["layers.0.q"].tolist() == [8.0] + [1.0] * 15


def test_dropped_experts_are_no_places(tmp_path: Path) -> None:
    graph = imported(write_mixtral(tmp_path / "m"))
    drop_experts(graph, {0: {1}})
    assert "layers.0.experts.1.up" not in any_folds(graph)
    assert "layers.0.experts.0.up" in any_folds(graph)


def test_quantised_ones_are_left(tmp_path: Path) -> None:
    graph = load_graph(write_mixtral(tmp_path / "m"), Scheme.parse("w8a8"))
    assert find_places(graph).found == []
    assert isinstance(graph.weights["layers.0.attention_norm"], Vector)
