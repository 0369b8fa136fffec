"""Data of an evaluation: how it is cut, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_models import ORACLE, sensor

from colibri.cli import main
from colibri.errors import BadInput, UsageError
from colibri.evaluate.data import read_labelled, read_tokens
from colibri.package import ModelFacts

TOKENS = ModelFacts("tokens", "", 0, 0, 40, (4,), 2, "")
SAMPLES = ModelFacts("samples", "", 0, 13, 2, (4,), 1, "")
TRANSLATOR = ModelFacts("tokens", "", 0, 0, 40, (4,), 1, "", source=6, start=0)


def saved(folder: Path, array: Any) -> Path:
    path = folder / "data.npy"
    np.save(path, array)
    return path


def test_windows_follow_each_other(tmp_path: Path) -> None:
    data = read_tokens(saved(tmp_path, np.arange(23) % 40), TOKENS, 64, 10, None, None)
    assert [window.inputs.tolist() for window in data.windows] == [list(range(10)), list(range(10, 20))]
    assert data.windows[1].targets.tolist() == list(range(11, 21))
    assert (data.count, data.left_out, data.stride) == (20, 2, 10)


def test_with_a_stride_each_token_counts_once(tmp_path: Path) -> None:
    data = read_tokens(saved(tmp_path, np.arange(23)), TOKENS, 64, 10, 4, None)
    assert [window.targets[window.skipped :].tolist() for window in data.windows] == [
        list(range(1, 11)),
        list(range(11, 15)),
        list(range(15, 19)),
        list(range(19, 23)),
    ]
    assert (data.count, data.left_out) == (22, 0)


def test_rows_are_texts_of_their_own(tmp_path: Path) -> None:
    data = read_tokens(saved(tmp_path, np.arange(24).reshape(2, 12)), TOKENS, 64, None, None, None)
    assert [window.inputs.tolist() for window in data.windows] == [list(range(11)), list(range(12, 23))]
    assert data.left_out == 0


def test_a_limit_keeps_whole_windows(tmp_path: Path) -> None:
    path = saved(tmp_path, np.arange(33))
    data = read_tokens(path, TOKENS, 8, None, None, 17)
    assert (len(data.windows), data.count, data.left_out) == (2, 16, 16)
    with pytest.raises(UsageError, match="7 tokens are less than the first window scores"):
        read_tokens(path, TOKENS, 8, None, None, 7)


def test_windows_that_cannot_be_meant(tmp_path: Path) -> None:
    path = saved(tmp_path, np.arange(33))
    with pytest.raises(UsageError, match="--window: 9 is more than the context of 8"):
        read_tokens(path, TOKENS, 8, 9, None, None)
    with pytest.raises(UsageError, match="--stride: 5 is more than the window of 4"):
        read_tokens(path, TOKENS, 8, 4, 5, None)


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.array([3, 40, 1]), "has tokens beyond the vocabulary of 40"),
        (np.array([3, -1, 1]), "has tokens beyond the vocabulary of 40"),
        (np.zeros(0, np.int32), "holds int32 [0], not tokens"),
        (np.zeros((2, 2, 2), np.int32), "holds int32 [2 × 2 × 2], not tokens"),
        (np.array([1.0, np.nan]), "holds float64 [2], not tokens"),
        (np.array(3), "holds int64 [], not tokens"),
        (np.arange(8), "has 8 tokens; one window takes 9"),
        (np.zeros((4, 1), np.int32), "has 1 tokens a row; one window takes 2"),
    ],
)
def test_tokens_that_are_refused(tmp_path: Path, array: Any, words: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_tokens(saved(tmp_path, array), TOKENS, 8, None, None, None)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"y": np.zeros((3, 2))}, "has no x"),
        ({"x": np.zeros((3, 12))}, "x: holds float64 [3 × 12], not numbers [samples, 13]"),
        ({"x": np.zeros((0, 13))}, "x: holds float64 [0 × 13], not numbers"),
        ({"x": np.full((3, 13), np.nan)}, "x: holds numbers that are not finite in fp32"),
        ({"x": np.zeros((3, 13)), "y": np.zeros((2, 2))}, "y: holds float64 [2 × 2] for 3 samples"),
        ({"x": np.zeros((3, 13)), "y": np.full((3, 2), np.inf)}, "y: holds numbers that are not finite"),
        ({"x": np.zeros((3, 13)), "y": np.zeros((3, 5))}, "y: holds float64 [3 × 5], not numbers [samples, 2]"),
        ({"x": np.zeros((3, 13)), "y": np.array([0, 1, 2])}, "y: has classes beyond the 2 outputs"),
    ],
)
def test_samples_that_are_refused(tmp_path: Path, arrays: dict[str, Any], words: str) -> None:
    np.savez(tmp_path / "data.npz", **arrays)
    with pytest.raises(BadInput) as caught:
        read_labelled(tmp_path / "data.npz", SAMPLES, None)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"labels": None}, "has no labels"),
        ({"labels": np.array([[1, 2]])}, "has 2 rows in input_ids and 1 in labels"),
        ({"labels": np.array([[1, 2], [-100, 1]])}, "row 1 has 0 tokens, the model takes 1 to 8"),
        (
            {"labels": np.array([[1, 2], [1, 2**64 - 100]], np.uint64)},
            "labels, row 1: has tokens beyond the vocabulary",
        ),
        ({"input_ids": np.ones((2, 7), int)}, "row 0 has 7 tokens, the model takes 1 to 6"),
        ({"input_ids": np.array([[1], [40]])}, "row 1: has tokens beyond the vocabulary of 40"),
    ],
)
def test_translations_that_are_refused(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    arrays = {"input_ids": np.ones((2, 3), int), "labels": np.ones((2, 2), int)} | changes
    np.savez(tmp_path / "data.npz", **{name: array for name, array in arrays.items() if array is not None})
    with pytest.raises(BadInput) as caught:
        read_tokens(tmp_path / "data.npz", TRANSLATOR, 8, None, None, None)
    assert words in str(caught.value)


def test_the_command_says_it_in_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = ORACLE / "variants/qwen3moe-plain"
    assert main(["eval", str(model), "--data", str(saved(tmp_path, np.array([1, 40] * 99)))]) == 5
    assert main(["eval", str(sensor("top1-e4")), "--data", str(saved(tmp_path, np.zeros((3, 13)))), "--alone"]) == 5
    assert main(["eval", str(tmp_path / "no"), "--data", str(tmp_path / "data.npy")]) == 5
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 3
    first, second, _ = err.splitlines()
    assert first.endswith("data.npy: has tokens beyond the vocabulary of 40")
    assert "has neither y nor pred, and there is no original to compare with" in second


def test_what_is_no_array_is_not_to_be_trusted(tmp_path: Path) -> None:
    (tmp_path / "tokens.csv").write_text("1,2,3\n")
    with pytest.raises(BadInput, match=r"tokens.csv: no array of numpy: neither .npy nor .npz$"):
        read_tokens(tmp_path / "tokens.csv", TOKENS, 8, None, None, None)


def test_options_that_contradict(capsys: pytest.CaptureFixture[str]) -> None:
    model = str(sensor("top1-e4"))
    assert main(["eval", model, "--data", "x.npz", "--alone", "--original", model]) == 2
    assert main(["eval", model, "--data", "x.npz", "--recipe", "w5"]) == 2
    assert capsys.readouterr().err.count("\n") == 2
