"""Sensor models with a norm, an expert that always runs, and classes: against the formula of the page in float64."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from small_models import SENSOR_CONFIG, load_graph, make_package, sensor_arrays, write_sensor

from colibri.cli import main
from colibri.errors import BadInput
from colibri.graph.interpret import Reference
from colibri.graph.scheme import Scheme
from colibri.testing import check_package

FULL = {"layer_norm": True, "layer_norm_eps": 1e-3, "shared_expert_hidden": 7, "activation": "tanh"}


def arrays(**form: object) -> dict[str, np.ndarray]:
    """Tensors of a sensor model with what the form adds."""
    found, width, rng = sensor_arrays(), SENSOR_CONFIG["model_dim"], np.random.default_rng(8)
    if form.get("layer_norm"):
        found |= {f"moe.norm.{part}": rng.standard_normal(width).astype(np.float32) for part in ("weight", "bias")}
    if hidden := form.get("shared_expert_hidden"):
        assert isinstance(hidden, int)
        for name, shape in (("fc1", (hidden, width)), ("fc2", (width, hidden))):
            found[f"moe.shared.{name}.weight"] = rng.standard_normal(shape).astype(np.float32)
            found[f"moe.shared.{name}.bias"] = rng.standard_normal(shape[0]).astype(np.float32)
    return found


def expected(tensors: dict[str, np.ndarray], x: np.ndarray, **form: object) -> np.ndarray:
    wide = {name: values.astype(np.float64) for name, values in tensors.items()}

    def linear(name: str, values: np.ndarray) -> np.ndarray:
        return np.asarray(values @ wide[f"{name}.weight"].T + wide[f"{name}.bias"])

    def expert(name: str, values: np.ndarray) -> np.ndarray:
        return linear(f"{name}.fc2", np.tanh(linear(f"{name}.fc1", values)))

    z = np.tanh(linear("inp", x.astype(np.float64)))
    n = z
    if form.get("layer_norm"):
        n = (z - z.mean(1, keepdims=True)) / np.sqrt(z.var(1, keepdims=True) + 1e-3)
        n = n * wide["moe.norm.weight"] + wide["moe.norm.bias"]
    scores = linear("moe.gate", n)
    p = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    kept = np.where(p >= np.sort(p, axis=1)[:, -2:-1], p, 0)
    mixed = sum(kept[:, e : e + 1] * expert(f"moe.experts.{e}", n) for e in range(p.shape[1]))
    return linear("out", z + mixed + (expert("moe.shared", n) if form.get("shared_expert_hidden") else 0))


@pytest.mark.parametrize("left_out", [(), ("layer_norm",), ("shared_expert_hidden",)])
def test_the_formula_of_the_page(left_out: tuple[str, ...], tmp_path: Path) -> None:
    form = {key: value for key, value in FULL.items() if key not in left_out}
    tensors = arrays(**form)
    graph = load_graph(write_sensor(tmp_path / "m", tensors, **form))
    x = np.random.default_rng(1).standard_normal((60, 5)).astype(np.float32)
    np.testing.assert_allclose(Reference(graph).forward(x), expected(tensors, x, **form), rtol=0, atol=2e-6)


@pytest.mark.emulator
@pytest.mark.parametrize("scheme", [Scheme.W8A8, Scheme.W4A16])
def test_a_classifier_has_its_bits_and_names_its_class(
    scheme: Scheme, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    form = {**FULL, "task": "classification", "outputs": ["idle", 'a "b", c']}
    source, folder = write_sensor(tmp_path / "m", arrays(**form), **form), tmp_path / "package"
    make_package(source, folder, "stm32f405", scheme=scheme, batch=2)
    results = check_package(folder, check_memory=True, instructions=False)
    assert [result.mismatches for result in results] == [()]
    samples = np.random.default_rng(2).standard_normal((9, 5)).astype(np.float32)
    (tmp_path / "x.csv").write_text("\n".join(",".join(map(repr, map(float, row))) for row in samples))
    assert main(["run", str(folder), str(tmp_path / "x.csv")]) == 0
    names, *lines = capsys.readouterr().out.splitlines()
    assert names == 'class,idle,"a ""b"", c"'
    best = Reference(load_graph(source, scheme)).forward(samples).argmax(1)
    assert len(set(best)) == 2
    assert [line.startswith("idle,") for line in lines] == [number == 0 for number in best]
    assert all(line.startswith(("idle,", '"a ""b"", c",')) for line in lines)
    assert "the scores of classes" in (folder / "model.h").read_text()


@pytest.mark.parametrize(
    ("form", "missing", "message"),
    [
        ({"layer_norm": True}, "moe.norm.bias", "no tensor 'moe.norm.bias'"),
        ({"shared_expert_hidden": 7}, "moe.shared.fc2.weight", "no tensor 'moe.shared.fc2.weight'"),
        ({"task": "ranking"}, "", "task is 'ranking', expected 'classification' or 'regression'"),
    ],
)
def test_what_does_not_belong_together(form: dict[str, object], missing: str, message: str, tmp_path: Path) -> None:
    tensors = arrays(**form)
    tensors.pop(missing, None)
    with pytest.raises(BadInput, match=message):
        load_graph(write_sensor(tmp_path / "m", tensors, **form))


@pytest.mark.parametrize("key", ["layer_norm", "shared_expert_hidden"])
def test_tensors_that_the_config_does_not_name_are_refused(key: str, tmp_path: Path) -> None:
    form = {key: FULL[key]}
    with pytest.raises(BadInput, match="that this model does not have"):
        load_graph(write_sensor(tmp_path / "m", arrays(**form)))
