"""Calibrated models: nearer to the original, and the same bytes again from their recipe."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from small_models import ORACLE, load_graph, loaded, make_package, write_mixtral, write_sensor

from colibri.calibrate.data import Calibration, CalibrationData, Rounding, read_calibration
from colibri.calibrate.sequential import quantise_calibrated
from colibri.checkpoint.checkpoint import Checkpoint
from colibri.errors import BadInput
from colibri.generate import Options, build_graph
from colibri.graph.graph import Graph
from colibri.graph.interpret import Reference
from colibri.graph.ops import Experts
from colibri.graph.scheme import Scheme
from colibri.graph.weights import Matrix
from colibri.passes.rules import Rule
from colibri.recipe import parse_recipe, recipe_text

WINDOWS = np.random.default_rng(4).integers(0, 40, (24, 16))
HELD_OUT = np.random.default_rng(5).integers(0, 40, (8, 16))


@pytest.fixture(scope="module")
def mixtral(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_mixtral(tmp_path_factory.mktemp("m") / "m")


def logits(graph: Graph) -> np.ndarray:
    return Reference(graph, len(HELD_OUT)).extend(HELD_OUT, all_rows=True).astype(np.float64)


def calibrated(path: Path, scheme: str, rules: tuple[str, ...] = (), how: Rounding = Rounding.GPTQ) -> Graph:
    graph = load_graph(path, context=16)
    data = CalibrationData(windows=WINDOWS)
    quantise_calibrated(graph, Scheme.parse(scheme), tuple(map(Rule.parse, rules)), data, how)
    return graph


def test_logits_are_nearer_to_the_original(mixtral: Path) -> None:
    original = logits(load_graph(mixtral, context=16))

    def off(graph: Graph) -> float:
        return float(np.square(logits(graph) - original).mean())

    plain = off(load_graph(mixtral, Scheme.parse("w3a16"), context=16))
    assert off(calibrated(mixtral, "w3a16")) < 0.85 * plain
    assert off(calibrated(mixtral, "w3a16", how=Rounding.NEAREST)) < 1.2 * plain


def test_rules_and_floats_beside_integers(mixtral: Path) -> None:
    graph = calibrated(mixtral, "w4a8", ("head=f16", "attention.q=f32", "experts.down=w8a16"))
    names = {name: weight.coding for name, weight in loaded(graph).items() if isinstance(weight, Matrix)}
    assert str(names["head"]) == "f16"
    assert str(names["layers.0.q"]) == "f32"
    assert str(names["layers.0.experts.0.down"]) == "w8"
    assert np.isfinite(logits(graph)).all()


def test_experts_that_calibration_never_reaches_are_named(tmp_path: Path) -> None:
    graph = load_graph(write_mixtral(tmp_path / "m"), context=16)
    quantise_calibrated(graph, Scheme.W4A8, (), CalibrationData(windows=WINDOWS[:1, :1]))  # which takes 2 of 4 experts
    said = [line for line in graph.warnings if line.startswith("layer 0: calibration hardly reaches")]
    assert len(said) == 1
    assert said[0].count(" (0 rows)") == said[0].count(" (1 rows)") == 2
    op = next(op for op in graph.ops if isinstance(op, Experts))
    for expert in op.kept:
        for name in expert.slots().values():
            assert np.isfinite(graph.matrix(name).load().values).all()


def test_a_model_with_an_encoder(tmp_path: Path) -> None:
    graph = load_graph(ORACLE / "switch-base")
    path = tmp_path / "pairs.npz"
    rng = np.random.default_rng(1)
    np.savez(path, input_ids=rng.integers(2, 60, (6, 5)), labels=rng.integers(2, 60, (6, 4)))
    quantise_calibrated(graph, Scheme.W4A8, (), read_calibration(path, graph))
    for weight in loaded(graph).values():
        assert np.isfinite(weight.values).all()


@pytest.mark.parametrize("kind", ["tokens", "own", "samples"])
def test_a_recipe_builds_the_same_bytes_again(tmp_path: Path, kind: str) -> None:
    if kind == "samples":
        checkpoint, data = write_sensor(tmp_path / "m"), tmp_path / "x.npy"
        np.save(data, np.random.default_rng(2).standard_normal((64, 5)).astype(np.float32))
    else:
        checkpoint, data = write_mixtral(tmp_path / "m"), tmp_path / "tokens.npy"
        np.save(data, WINDOWS.reshape(-1))
    asked = Calibration(None if kind == "own" else data, 64)
    make_package(
        checkpoint, tmp_path / "a", scheme=Scheme.W4A8, calibration=asked, context=None if kind == "samples" else 16
    )
    data.unlink(missing_ok=True)
    again = parse_recipe(str(tmp_path / "a/recipe.json"))
    options = {name: getattr(again, name) for name in ("scheme", "rules", "kv", "context", "folds", "calibration")}
    make_package(checkpoint, tmp_path / "b", **options)
    for name in ("model.bin", "recipe.json", "calibration.npz", "package.json"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name
    (tmp_path / "a/calibration.npz").write_bytes((tmp_path / "a/calibration.npz").read_bytes()[:-1])
    with pytest.raises(BadInput):
        build_graph(Checkpoint.open(checkpoint), again)


def test_what_a_recipes_word_says_of_calibration() -> None:
    for text in ("w4a8:calibrate=self", "w4a8:kv=f16:calibrate=some/tokens.npy:rounding=nearest"):
        assert recipe_text(parse_recipe(text)) == text
    assert parse_recipe("w4a8:calibrate=self").calibration == Calibration()
    assert Options().calibration is None
