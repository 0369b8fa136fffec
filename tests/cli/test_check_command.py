"""`colibri check`: golden outputs that agree, that do not, and files that are none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_models import ORACLE, sensor

from colibri.cli import main
from colibri.errors import BadInput
from colibri.golden import compare_with_golden

MODEL = ORACLE / "variants/qwen3moe-plain"


def golden(folder: Path, **changes: Any) -> Path:
    """The model's golden file with some arrays changed; None takes one out."""
    with np.load(MODEL / "golden.npz") as stored:
        arrays = {name: stored[name] for name in stored} | changes
    path = folder / "golden.npz"
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    return path


def test_the_original_agrees(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(MODEL), "--golden", str(MODEL / "golden.npz")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5
    assert lines[3].startswith("input_ids_3") and "30 rows" in lines[3]
    assert lines[3].endswith("8 tokens continued: the same")
    assert lines[4].startswith("worst") and float(lines[4].split()[1]) < 1e-5


def test_names_stand_in_a_column(capsys: pytest.CaptureFixture[str]) -> None:
    model = ORACLE / "switch-base"
    assert main(["check", str(model), "--golden", str(model / "golden.npz")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {line.find(" rows, ") for line in lines[:-1]} == {len("decoder_input_ids_0") + 7}
    assert lines[-1].startswith("worst" + " " * 15)


def test_sensor_models(capsys: pytest.CaptureFixture[str]) -> None:
    stored = ORACLE / "load-moe/top1-e4/golden.npz"
    assert main(["check", str(sensor("top1-e4")), "--golden", str(stored), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["passed"] and [case["rows"] for case in facts["cases"]] == [792]


def test_one_logit_that_is_off_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logits = np.load(MODEL / "golden.npz")["logits_2"].copy()
    logits[4, 17] += 0.25
    assert main(["check", str(MODEL), "--golden", str(golden(tmp_path, logits_2=logits))]) == 1
    out, err = capsys.readouterr()
    assert "input_ids_2      9 rows, worst 0.25 at row 4, output 17" in out
    assert "worst difference 0.25 in input_ids_2, the tolerance is 0.0001" in err
    assert main(["check", str(MODEL), "--golden", str(tmp_path / "golden.npz"), "--tolerance", "0.3"]) == 0


def test_another_continuation_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    greedy = np.load(MODEL / "golden.npz")["greedy_1"].copy()
    greedy[5] = (greedy[5] + 1) % 40
    assert main(["check", str(MODEL), "--golden", str(golden(tmp_path, greedy_1=greedy))]) == 1
    out, err = capsys.readouterr()
    assert "8 tokens continued: token 5 is another" in out
    assert "input_ids_1 is continued differently" in err


def test_cases_longer_than_the_context_are_named(tmp_path: Path) -> None:
    result = compare_with_golden(MODEL, golden(tmp_path), context=10)
    assert [case.name for case in result.cases] == ["input_ids_0", "input_ids_1", "input_ids_2"]
    assert result.skipped == ("input_ids_3",)
    assert [case.continued for case in result.cases] == [8, 8, 1]
    with pytest.raises(BadInput, match="every case is longer than the context of 1"):
        compare_with_golden(MODEL, golden(tmp_path, input_ids_0=None), context=1)


def test_nan_is_no_agreement(tmp_path: Path) -> None:
    logits = np.load(MODEL / "golden.npz")["logits_0"].copy()
    logits[0, 3] = np.nan
    result = compare_with_golden(MODEL, golden(tmp_path, logits_0=logits))
    assert result.worst.worst == np.inf and not result.passed(1e9)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"logits_1": None}, "has no logits_1"),
        ({"logits_1": np.zeros((3, 40), np.float32)}, "has 2 tokens in input_ids_1 and 3 rows in logits_1"),
        ({"logits_1": np.zeros((2, 41), np.float32)}, "holds float32 [2 × 41], not numbers [rows, 40]"),
        ({"logits_1": np.zeros(2, "U3")}, "holds <U3 [2], not numbers"),
        ({"input_ids_1": np.array([1, 40])}, "has tokens beyond the vocabulary of 40"),
        ({"input_ids_1": np.zeros((2, 2), np.int32)}, "holds int32 of 2 dimensions, not tokens"),
        ({"greedy_1": np.array([0.5])}, "holds float64 of 1 dimensions, not tokens"),
        ({f"input_ids_{case}": None for case in range(4)}, "has no input_ids_0"),
    ],
)
def test_other_arrays_are_refused(
    tmp_path: Path, changes: dict[str, Any], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(MODEL), "--golden", str(golden(tmp_path, **changes))]) == 5
    out, err = capsys.readouterr()
    assert out == "" and words in err and err.count("\n") == 1


def test_a_file_that_is_none_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "golden.npz"
    path.write_bytes((MODEL / "golden.npz").read_bytes()[:900])
    assert main(["check", str(MODEL), "--golden", str(path)]) == 5
    assert "no array of numpy" in capsys.readouterr().err
