"""``--json`` prints JSON and nothing else, with the same facts as the text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_models import HOST_BOARD, ORACLE, load_graph, sensor

from colibri.boards.load import board_names
from colibri.cli import main
from colibri.cli.output import make_console
from colibri.graph.interpret import Reference
from colibri.graph.scheme import Scheme
from colibri.inspection import inspect_checkpoint, print_inspection, ram_left
from colibri.package import Block, Memory
from colibri.passes.sharing import Room

SENSOR = str(sensor("top1-e3-tiny"))


def parsed(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert main([*arguments, "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == "" and out.endswith("\n")
    return json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def text(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 0
    return capsys.readouterr().out


def test_generate(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arguments = ("generate", SENSOR, "--board", HOST_BOARD, "-o", str(tmp_path / "out"))
    facts = parsed(capsys, *arguments)
    assert facts == json.loads((tmp_path / "out/package.json").read_text())
    assert facts["model"]["experts"] == [3] and facts["scheme"] == "w8a8"
    said = text(capsys, *arguments)
    assert f"{facts['model_bin_bytes']:,} bytes" in said and f"{facts['memory']['total']:,} bytes" in said


def test_build_run_and_test(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    report = parsed(capsys, "build", SENSOR, "--board", HOST_BOARD, "-o", out)
    assert report == parsed(capsys, "report", out)
    assert report["board"] == HOST_BOARD and report["scheme"] == "w8a8" and report["linked"] is True
    results = parsed(capsys, "test", out, "--emulator", "native")
    assert [result["emulator"] for result in results] == ["native"]
    assert results[0]["mismatches"] == [] and len(results[0]["digest"]) == 64 and results[0]["outputs"] > 0
    assert results[0]["digest"][:16] in text(capsys, "test", out, "--emulator", "native")
    csv = tmp_path / "samples.csv"
    csv.write_text("\n".join(",".join(str(0.1 * i + j) for i in range(13)) for j in range(3)))
    rows = parsed(capsys, "run", out, str(csv), "--emulator", "native")
    assert len(rows) == 3 and all(len(row) == 2 for row in rows)
    heading, *lines = text(capsys, "run", out, str(csv), "--emulator", "native").splitlines()
    assert heading == "demand at t+1 (30 min),demand at t+48 (24 h)"
    assert [[np.float32(cell) for cell in line.split(",")] for line in lines] == np.array(rows, np.float32).tolist()


def test_run_with_token_ids(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    parsed(capsys, "build", str(ORACLE / "mixtral-base"), "--board", HOST_BOARD, "-o", out, "--context", "12")
    made = parsed(capsys, "run", out, "3 1 4", "-n", "5", "--emulator", "native")
    assert made["prompt"] == [3, 1, 4] and len(made["tokens"]) == 5 and made["text"] is None
    said = text(capsys, "run", out, "3 1 4", "-n", "5", "--emulator", "native")
    assert [int(word) for word in said.split()] == made["tokens"]


def test_run_predicts_what_the_reference_does(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Five samples in calls of two: the last call is filled up, in order, and its rest is not shown."""
    out, csv = str(tmp_path / "out"), tmp_path / "samples.csv"
    parsed(capsys, "build", SENSOR, "--board", HOST_BOARD, "-o", out, "--batch", "2")
    samples = np.random.default_rng(4).standard_normal((5, 13)).astype(np.float32)
    csv.write_text("\n".join(",".join(map(repr, row)) for row in samples.tolist()))
    rows = parsed(capsys, "run", out, str(csv), "--emulator", "native")
    want = Reference(load_graph(sensor("top1-e3-tiny"), Scheme.W8A8)).forward(samples)
    assert np.array(rows, np.float32).tolist() == want.tolist()


def test_run_chooses_the_tokens_that_the_reference_does(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    parsed(capsys, "build", str(ORACLE / "mixtral-base"), "--board", HOST_BOARD, "-o", out, "--context", "12")
    made = parsed(capsys, "run", out, "3 1 4", "-n", "10", "--emulator", "native")
    reference = Reference(load_graph(ORACLE / "mixtral-base", Scheme.W8A8, context=12))
    logits, want = reference.extend(np.array([3, 1, 4])), []
    while len(want) < 10:
        want.append(int(np.argmax(logits)))
        if len(want) < 10:
            logits = reference.extend(np.array(want[-1:]))
    assert made["tokens"] == want and len(set(want)) > 3


@pytest.mark.parametrize("source", [SENSOR, str(ORACLE / "mixtral-base")], ids=["sensor", "mixtral"])
def test_inspect(capsys: pytest.CaptureFixture[str], source: str) -> None:
    facts = parsed(capsys, "inspect", source)
    assert {fit["board"] for fit in facts["fits"]} == set(board_names())
    assert {fit["scheme"] for fit in facts["fits"]} == {"f32", "w8a8", "w8a16", "w4a8", "w4a16"}
    assert f"{facts['parameters']:,} parameters" in text(capsys, "inspect", source)


@pytest.mark.parametrize("source", [SENSOR, str(ORACLE / "mixtral-base")], ids=["sensor", "mixtral"])
def test_inspect_predicts_what_generate_makes(capsys: pytest.CaptureFixture[str], tmp_path: Path, source: str) -> None:
    facts = parsed(capsys, "inspect", source)
    for board in ("stm32f405", "raspberry-pi-5"):
        arguments = ("generate", source, "--board", board, "--scheme", "w4a8", "-o", str(tmp_path / board))
        package = parsed(capsys, *arguments)
        fit = next(fit for fit in facts["fits"] if (fit["board"], fit["scheme"]) == (board, "w4a8"))
        assert (fit["weights"], fit["memory"]) == (package["model_bin_bytes"], package["memory"]["total"])
    said = text(capsys, "inspect", source)
    sizes = {fit["weights"] for fit in facts["fits"] if fit["scheme"] == "w4a8"}
    assert f"{min(sizes):,}" in said and f"{max(sizes):,}" in said


def test_what_is_left_of_ram_is_a_sum() -> None:
    """Of what does not fit into its region, or of all that stays free."""

    def memory(**blocks: int) -> Memory:
        made = [Block(f"memory_{name}", name, 0, 0, size, size, size, True, ()) for name, size in blocks.items()]
        return Memory(tuple(made), sum(blocks.values()))

    rooms = [Room("dtcm", 100, 1), Room("axi", 200, 2), Room("sram1", 50, 3)]
    assert ram_left(memory(dtcm=130, axi=207), rooms) == -37
    assert ram_left(memory(dtcm=130, axi=1), rooms) == -30
    assert ram_left(memory(dtcm=60, axi=200), rooms) == 40 + 0 + 50
    assert ram_left(memory(dtcm=100, axi=200, sram1=50), rooms) == 0
    assert ram_left(memory(ram=9), [Room("ram", None, 1)]) is None


def test_boards(capsys: pytest.CaptureFixture[str]) -> None:
    boards = parsed(capsys, "boards")
    assert [board["id"] for board in boards] == list(board_names())
    said = text(capsys, "boards")
    assert all(name in said for name in board_names())


def test_inspect_says_once_where_everything_fits(capsys: pytest.CaptureFixture[str]) -> None:
    """And of each other board what serves there, or what is missing at least."""
    inspection = inspect_checkpoint(ORACLE.parents[1] / "examples" / "shakespeare-moe", None)
    facts = json.loads(inspection.to_json())
    print_inspection(inspection, make_console())
    lines = capsys.readouterr().out.splitlines()
    rows = {line.split()[0]: line.split()[1:] for line in lines if line.split()[:1]}
    for board in board_names():
        fits = [fit for fit in facts["fits"] if fit["board"] == board]
        holds = [all(fit[key] is None or fit[key] >= 0 for key in ("flash_left", "ram_left")) for fit in fits]
        has_row = len(rows.get(board, [])) > 4 and rows[board][0] in ("yes", "no", "kv")
        assert has_row == (any(holds) and not all(holds))
    assert "stm32f405 (226K flash)" in " ".join(" ".join(lines).split())
    assert rows["nucleo-h743zi"] == ["no", "no", "no", "yes", "yes"]
