"""`colibri fit` from end to end on a sensor model, and what it refuses in a line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from small_models import ORACLE, SHAKESPEARE, sensor
from synthetic import MADE

from colibri.boards.load import load_board
from colibri.cli import main
from colibri.evaluate.evaluate import Cut, evaluate_package
from colibri.evaluate.model import SampleScores
from colibri.fit.sizes import Planner
from colibri.package import load_package

GOLDEN = ORACLE / "load-moe/top1-e4/golden.npz"
TOKENS = ORACLE / "shakespeare-moe/val_tokens.npy"


def test_a_sensor_model_from_data_to_package(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The flash that is left has room for 4-bit weights but not for 8."""
    planner = Planner(sensor("top1-e4"), load_board("stm32f405"), tmp_path / "p")
    small, large = ([planner.must(f"{coding}{bits}").flash for bits in ("a8", "a16")] for coding in ("w4", "w8"))
    limit = (max(small) + min(large)) // 2
    assert max(small) < limit < min(large)
    arguments = ["fit", str(sensor("top1-e4")), "--board", "stm32f405", "--data", str(GOLDEN), "--limit", "200"]
    arguments += ["--reserve-flash", str((1 << 20) - limit), "--budget", "8"]
    arguments += ["--only", "experts=w8,w4", "--only", "dropped=0", "--executor", "threads", "-o", str(tmp_path / "p")]
    assert main([*arguments, "--html", str(tmp_path / "page.html"), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    chosen, final = facts["front"][facts["chosen"]], facts["final"]
    assert chosen["values"]["0.experts"] == "w4" and final["regions"]["flash"] <= limit
    assert facts["points"] == 4 and facts["rows"]["fresh"] and facts["rows"]["calibration"].startswith("rows of the")
    assert (facts["rows"]["search"], facts["rows"]["final"]) == (73, 63)
    package = load_package(tmp_path / "p")
    assert chosen["recipe"] == f"{package.scheme}:calibrate={tmp_path / 'p.calibration.npz'}"
    assert (tmp_path / "p/calibration.npz").is_file() and package.board.memory[0].limit == limit
    assert "fit.jsonl" in next(tmp_path.glob("*.jsonl")).name
    page = (tmp_path / "page.html").read_text()
    assert f"<code>{package.scheme}:<wbr>calibrated</code>" in page and "http" not in page.replace("http-equiv", "")
    found = evaluate_package(tmp_path / "p", GOLDEN, Cut(limit=200), original=sensor("top1-e4"))
    scores = found.rows[0].scores
    assert isinstance(scores, SampleScores) and scores.mae is not None
    assert scores.mae.mean == pytest.approx((73 * chosen["loss"]["mean"] + 63 * final["loss"]["mean"]) / 136, rel=0.1)
    assert main([*arguments, "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "known from the journal" in out and "dropped: nothing" in out and "recipe: w" in out


def test_an_executor_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["fit", str(SHAKESPEARE), "--board", "stm32f405", "--data", str(TOKENS), "--limit", "8192"]
    arguments += ["--calibrate", "none", "--context-at-least", "64", "--only", "experts=w8,w4,w2", "--only", "kv=f16"]
    arguments += ["--only", "attention=w4", "--only", "embedding=w4", "--only", "head=w4", "--only", "activations=a8"]
    arguments += ["--only", "dropped=0", "--budget", "30", "--executor", "synthetic:make", "--dry-run"]
    arguments += ["-o", str(tmp_path / "p")]
    assert main([*arguments, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert MADE[-1].ended and len(MADE[-1].tasks) >= facts["evaluated"]
    assert all(one["flash"] <= 1 << 20 and one["context"] >= 64 for one in facts["front"])
    assert any(one["context"] > 64 for one in facts["front"])


def test_an_executor_that_loses_its_workers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What came before is kept, and one line says the rest."""
    arguments = ["fit", str(SHAKESPEARE), "--board", "stm32f405", "--data", str(TOKENS), "--limit", "2048"]
    arguments += ["--calibrate", "none", "--context-at-least", "64", "--only", "dropped=0", "--dry-run"]
    arguments += ["--executor", "synthetic:losing", "-o", str(tmp_path / "p")]
    assert main(arguments) == 7
    out, err = capsys.readouterr()
    said = "--executor: failed with LookupError: worker tcp://a:1 died\\nwith its task; what was measured is kept"
    assert out == "" and err == f"colibri: {said}\n"
    assert MADE[-1].ended and 1 < len((tmp_path / "p.fit.jsonl").read_text().splitlines()) <= 4


def test_code_for_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["fit", str(sensor("top1-e4")), "--board", "stm32f405", "--data", str(GOLDEN), "--limit", "100"]
    arguments += ["--only", "experts=w8", "--only", "dropped=0", "--calibrate", "none", "--executor", "threads"]
    flash = {}
    for what in ("speed", "size"):
        assert main([*arguments, "--optimise", what, "-o", str(tmp_path / what), "--json"]) == 0
        facts = json.loads(capsys.readouterr().out)
        flash[what] = facts["final"]["regions"]["flash"]
        assert load_package(tmp_path / what).optimise == what
        assert facts["front"][0]["recipe"].endswith(":optimise=size") == (what == "size")
    assert flash["size"] < flash["speed"]


def test_a_limit_of_instructions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Points are built until one keeps to it; the least that was counted is named where none does."""
    arguments = ["fit", str(sensor("top1-e4")), "--board", "microbit", "--data", str(GOLDEN), "--limit", "100"]
    arguments += ["--only", "experts=w8,w4", "--only", "dropped=0", "--only", "activations=a8"]
    arguments += ["--calibrate", "none", "--executor", "threads", "-j", "1", "-o", str(tmp_path / "p")]
    assert main([*arguments, "--max-instructions", "1"]) == 3
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and "more than 1; raise --max-instructions" in err
    least = int(err.split(": ")[2].split()[0].replace(",", ""))
    assert main([*arguments, "--max-instructions", str(least), "--json"]) == 0
    final = json.loads(capsys.readouterr().out)["final"]
    assert final["instructions"] == least > 1000 and final["unit"] == "call of 1 sample"


@pytest.mark.parametrize(
    ("more", "code", "words"),
    [
        (["--executor", "nothing"], 2, "--executor nothing: is no module:callable"),
        (["--executor", "no_such_module:x"], 2, "there is no module 'no_such_module'"),
        (["--executor", "json:nothing"], 2, "the module has no callable 'nothing'"),
        (["--executor", "builtins:dict"], 2, "returned a dict, not an executor"),
        (["--executor", "time:sleep"], 2, "failed with TypeError"),
        (["--dry-run", "--choose", "2"], 2, "--dry-run, --choose: contradict each other"),
        (["--dry-run", "--max-instructions", "2"], 2, "--dry-run, --max-instructions: contradict each other"),
        (["--board", "wasm32", "--max-instructions", "2"], 2, "no emulator of this board counts instructions"),
        (["--calibrate", "self", "-o", "a:b"], 2, "a:b.calibration.npz: recipes name this path, which has no ':' then"),
        (["--context-at-least", "500"], 2, "500 is more than the 256 of the checkpoint"),
        (["--context-at-least", "64", "--window", "65"], 2, "--window: 65 is more than --context-at-least 64"),
        (["--batch", "2"], 2, "--batch: is for sensor models"),
        (["--reserve-ram", "1T"], 2, "'1T' is no number of bytes"),
        (["--only", "kv=f9"], 2, "kv has no 'f9'"),
        (["--data", str(GOLDEN)], 5, "holds"),
        (["--board", "stm32f406"], 5, "stm32f406"),
        (["--time", "0"], 2, "--time: is over before a recipe that fits is measured; give more"),
        (["--html", "/no/such/page.html"], 2, "there is no such folder"),
    ],
)
def test_what_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], code: int, words: str
) -> None:
    arguments = ["fit", str(SHAKESPEARE), "--board", "stm32f405", "--data", str(TOKENS), "--limit", "2048"]
    arguments += ["--calibrate", "none", "-o", str(tmp_path / "p")]
    assert main([*arguments, *more]) == code
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and words in err
    assert not (tmp_path / "p").exists()


def test_a_folder_of_somebody_else_is_refused_before_the_search(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "mine.txt").write_text("mine")
    arguments = ["fit", str(SHAKESPEARE), "--board", "stm32f405", "--data", str(TOKENS), "--limit", "2048"]
    for name in ("letters", "letters/mine.txt"):
        assert main([*arguments, "--calibrate", "none", "-o", str(tmp_path / name)]) == 5
        err = capsys.readouterr().err
        assert err.count("\n") == 1 and "exists and is not a Colibri package; choose another with -o" in err
    assert [path.name for path in tmp_path.rglob("*")] == ["letters", "mine.txt"]  # and no journal


def test_what_fits_nothing_says_what_would(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["fit", str(SHAKESPEARE), "--board", "stm32f405", "--data", str(TOKENS), "--limit", "8192", "--dry-run"]
    arguments += ["--executor", "synthetic:make", "--budget", "60", "-o", str(tmp_path / "p"), "--calibrate", "none"]
    arguments += ["--only", "experts=w8,w4", "--only", "dropped=0", "--only", "kv=f16"]
    small = ["--only", "attention=w4", "--only", "embedding=w4", "--only", "head=w4"]
    assert main([*arguments, *small, "--context-at-least", "256", "--reserve-ram", "32K"]) == 3
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "even the smallest recipe lacks" in err
    assert "of flash and" in err and "--context-at-least" in err and "a larger board: see `colibri explain`" in err
    assert not (tmp_path / "p.fit.jsonl").exists()  # before anything is measured


def test_data_that_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, array, words in (
        ("beyond", np.array([1, 512] * 400), "has tokens beyond the vocabulary of 512"),
        ("empty", np.zeros(0, np.int32), "holds int32 [0], not tokens"),
        ("floats", np.full(900, np.nan), "holds float64 [900], not tokens"),
    ):
        np.save(tmp_path / f"{name}.npy", array)
        arguments = ["--data", str(tmp_path / f"{name}.npy"), "-o", str(tmp_path / "p")]
        assert main(["fit", str(SHAKESPEARE), "--board", "stm32f405", *arguments]) == 5
        err = capsys.readouterr().err
        assert words in err and err.count("\n") == 1
    assert not list(tmp_path.glob("*.jsonl"))
