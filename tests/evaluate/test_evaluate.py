"""`colibri eval` against the same figures from the numpy reference, on checkpoints and packages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from small_models import ORACLE, SENSOR_CONFIG, load_graph, make_package, sensor, write_sensor

from colibri.cli import main
from colibri.evaluate.statistics import estimate, ratio
from colibri.graph.graph import StateType
from colibri.graph.interpret import Reference
from colibri.graph.scheme import Scheme
from colibri.testing import read_cases
from colibri.vectors import save_vectors

MODEL = ORACLE / "variants/qwen3moe-plain"
GOLDEN = ORACLE / "load-moe/top1-e4/golden.npz"


def evaluated(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    assert main(["eval", *map(str, arguments), "--json"]) == 0
    facts: dict[str, Any] = json.loads(capsys.readouterr().out)
    return facts


def log_softmax(logits: np.ndarray) -> np.ndarray:
    wide = logits.astype(np.float64)
    return wide - np.log(np.exp(wide).sum(-1, keepdims=True))


def test_tokens(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Looked at five positions at a time, and by two programs of each model."""
    monkeypatch.setattr("colibri.evaluate.measure._PIECE_BYTES", 5 * 40 * 4)
    tokens = np.random.default_rng(1).integers(0, 40, 40)
    np.save(tmp_path / "tokens.npy", tokens)
    cut = ["--window", 12, "--stride", 9, "-j", 4]
    facts = evaluated(capsys, MODEL, "--data", tmp_path / "tokens.npy", *cut, "--recipe", "w4a8:kv=f16")
    wide, small = load_graph(MODEL), load_graph(MODEL, Scheme.W4A8, StateType.F16)
    sums = []
    for start in range(0, 40 - 12, 9):
        first = 0 if start == 0 else 3
        targets = tokens[start + 1 + first : start + 13]
        logs = [
            log_softmax(Reference(graph).extend(tokens[start : start + 12], all_rows=True)[0])[first:]
            for graph in (wide, small)
        ]
        nats = [-one[np.arange(len(targets)), targets].sum() for one in logs]
        divergence = (np.exp(logs[0]) * (logs[0] - logs[1])).sum()
        sums.append([*nats, divergence, (logs[0].argmax(1) == logs[1].argmax(1)).sum(), len(targets)])
    *parts, counts = np.array(sums, np.float64).T
    means = [part.sum() / counts.sum() for part in parts]
    original, row = facts["original"], facts["rows"][0]
    scores = row["scores"]
    assert original["scores"]["nats"]["mean"] == pytest.approx(means[0], rel=1e-12)
    assert scores["nats"]["mean"] == pytest.approx(means[1], rel=1e-12)
    assert scores["perplexity"] == pytest.approx(np.exp(means[1]))
    assert scores["lost"]["mean"] == pytest.approx(means[1] - means[0], rel=1e-9)
    assert scores["divergence"]["mean"] == pytest.approx(means[2], rel=1e-9)
    assert scores["agreement"]["mean"] == pytest.approx(means[3])
    assert scores["lost"]["within"] == pytest.approx(estimate(parts[1] - parts[0], counts).within)
    assert row["checked"] == original["checked"] == 48 and row["against"] == "the numpy reference"
    assert 0.5 < row["routing"] < 1 and row["weight_bytes"] < original["weight_bytes"]
    assert (facts["count"], facts["left_out"], facts["blocks"]) == (39, 0, 4)


def test_sensors_by_package(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of bare metal, with weights in two places; against what ci/quality says of the scheme."""
    make_package(sensor("top1-e4"), tmp_path / "p", "stm32h750b-dk", scheme=Scheme.W8A8, batch=5)
    assert (tmp_path / "p/hot.bin").is_file()
    facts = evaluated(capsys, tmp_path / "p", "--data", GOLDEN, "--original", sensor("top1-e4"))
    with np.load(GOLDEN) as golden:
        predicted = Reference(load_graph(sensor("top1-e4"), Scheme.W8A8)).forward(golden["x"])
        errors = np.abs(predicted.astype(np.float64) - golden["y"]).mean(axis=0)
    row = facts["rows"][0]
    assert [one["mean"] for one in row["scores"]["mae_of"]] == pytest.approx(errors.tolist(), rel=1e-12)
    assert row["scores"]["loss"]["mean"] == pytest.approx(0.0026, abs=1e-4)
    assert row["against"] == "its golden vectors" and row["checked"] > 100
    assert (facts["count"], facts["left_out"], facts["blocks"]) == (792, 0, 100)


def test_classes_and_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = write_sensor(tmp_path / "model", output_dim=2)
    x = np.random.default_rng(5).standard_normal((60, SENSOR_CONFIG["input_dim"])).astype(np.float32)
    chosen = Reference(load_graph(model)).forward(x).argmax(axis=1)
    np.savez(tmp_path / "data.npz", x=x, y=np.where(np.arange(60) < 15, 1 - chosen, chosen))
    assert main(["eval", str(model), "--data", str(tmp_path / "data.npz"), "--recipe", "f32", "--limit", "50"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("data.npz: 50 samples; 10 left out\n")
    original = next(line for line in out.splitlines() if line.startswith("f32"))
    assert original.split()[2] == "70.00"
    assert "bits equal: 50 samples against the numpy reference" in out
    assert max(map(len, out.splitlines()[1:5])) <= 80


def test_figures_beyond_a_million_stay_short(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "x.npz", x=np.full((4, 5), 1e30, np.float32), y=np.zeros((4, 2), np.float32))
    assert main(["eval", str(write_sensor(tmp_path / "m")), "--data", str(tmp_path / "x.npz")]) == 0
    out = capsys.readouterr().out
    assert "e+" in out and max(map(len, out.split())) < 30


def test_an_encoder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labels = np.array([[3, 4, 5, -100], [1, 2, -100, -100]])
    np.savez(tmp_path / "data.npz", input_ids=np.array([[5, 6, 7], [8, 9, 1]]), labels=labels)
    facts = evaluated(capsys, ORACLE / "switch-base", "--data", tmp_path / "data.npz", "--alone", "--recipe", "f32")
    reference, nats = Reference(load_graph(ORACLE / "switch-base")), 0.0
    for source, target in (([5, 6, 7], [3, 4, 5]), ([8, 9, 1], [1, 2])):
        reference.encode(np.array(source))
        logs = log_softmax(reference.extend(np.array([reference.graph.start, *target[:-1]]), all_rows=True)[0])
        nats -= logs[np.arange(len(target)), target].sum()
    assert facts["rows"][0]["scores"]["nats"]["mean"] == pytest.approx(nats / 5, rel=1e-12)


def test_kernels_of_an_older_processor_of_this_machine_s_kind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_package(sensor("top1-e4"), tmp_path / "p", "x86-64-v2", scheme=Scheme.W8A8)
    assert (tmp_path / "p/runtime/kernels/sse41").is_dir()
    row = evaluated(capsys, tmp_path / "p", "--data", GOLDEN, "--limit", 100, "--alone")["rows"][0]
    assert row["against"] == "its golden vectors" and row["checked"] > 0


def test_kernels_of_another_processor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_package(sensor("top1-e4"), tmp_path / "p", "graviton-3", scheme=Scheme.W8A8)
    arguments = ["eval", str(tmp_path / "p"), "--data", str(GOLDEN), "--limit", "100"]
    assert main(arguments) == 2
    assert "this machine cannot run its kernels: neon, neon_i8mm; name the checkpoint" in capsys.readouterr().err
    assert main([*arguments, "--original", str(sensor("top1-e3-tiny"))]) == 2
    assert "top1-e3-tiny: is not the checkpoint of" in capsys.readouterr().err
    facts = evaluated(capsys, *arguments[1:], "--original", sensor("top1-e4"))
    assert facts["rows"][0]["against"] == "its golden vectors" and facts["rows"][0]["name"] == "p"


def test_other_bits_and_other_weights_are_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "p"
    make_package(sensor("top1-e4"), folder, "stm32f405")
    cases = read_cases(folder)
    answer = cases[7].answers[0]
    other = msgspec.structs.replace(answer, payload=bytes([answer.payload[0] ^ 1, *answer.payload[1:]]))
    cases[7] = msgspec.structs.replace(cases[7], answers=(other,))
    (folder / "test/vectors.msgpack").write_bytes(save_vectors(cases))
    assert main(["eval", str(folder), "--data", str(GOLDEN)]) == 1
    assert "the program of this machine has other bits than the reference" in capsys.readouterr().err
    weights = bytearray((folder / "model.bin").read_bytes())
    weights[len(weights) // 2] ^= 1
    (folder / "model.bin").write_bytes(weights)
    assert main(["eval", str(folder), "--data", str(GOLDEN)]) == 5
    assert capsys.readouterr().err.count("\n") == 1
    assert main(["eval", str(folder), "--data", str(GOLDEN), "--recipe", "f32"]) == 2


def test_intervals_hold_what_they_promise() -> None:
    rng = np.random.default_rng(11)
    inside = 0
    for _ in range(1000):
        found = estimate(rng.normal(3.0, 1.0, 100) * 8, np.full(100, 8.0))
        assert found.within is not None
        inside += abs(found.mean - 3.0) < found.within
    assert 930 <= inside <= 970


def test_one_block_has_no_interval_and_nothing_no_ratio() -> None:
    assert estimate(np.array([6.0]), np.array([3.0])).within is None
    assert ratio(np.ones(4), np.zeros(4)) is None
    found = ratio(np.full(4, 2.2), np.full(4, 2.0))
    assert found is not None and found.mean == pytest.approx(0.1) and found.within == pytest.approx(0.0, abs=1e-9)
