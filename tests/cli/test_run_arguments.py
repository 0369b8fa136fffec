"""`colibri run`: prompts and CSV files that cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_models import HOST_BOARD, ORACLE, make_package, sensor

from colibri.cli import main
from colibri.running import AnswerStream


@pytest.fixture(scope="module")
def sensor_package(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("sensor") / "p"
    make_package(sensor("top1-e3-tiny"), folder)
    return str(folder)


@pytest.fixture(scope="module")
def token_package(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("tokens") / "p"
    make_package(ORACLE / "mixtral-base", folder, context=12)
    return str(folder)


def fails(capsys: pytest.CaptureFixture[str], code: int, *arguments: str) -> str:
    assert main(["run", *arguments]) == code
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("colibri: ") and err.count("\n") == 1
    return err


def test_something_to_run_on_is_needed(
    capsys: pytest.CaptureFixture[str], sensor_package: str, token_package: str
) -> None:
    assert "this package needs a CSV file" in fails(capsys, 2, sensor_package)
    assert "this package needs a prompt" in fails(capsys, 2, token_package)


def test_an_emulator_that_the_board_has_not(capsys: pytest.CaptureFixture[str], sensor_package: str) -> None:
    message = fails(capsys, 2, sensor_package, "x.csv", "--emulator", "vax")
    assert f"board {HOST_BOARD} has no emulator 'vax'; it has native, " in message


@pytest.mark.parametrize(
    ("prompt", "code", "words"),
    [
        ("ROMEO:", 2, "the package has no tokenizer; give --tokenizer FOLDER, or token ids"),
        ("1 2 x", 2, "the package has no tokenizer"),
        ("1 -2", 2, "the package has no tokenizer"),
        ("١ ٢", 2, "the package has no tokenizer"),
        ("", 5, "the prompt has no tokens"),
        ("1 160", 5, "token 160 is not in the vocabulary of 160"),
        ("1 " + "9" * 5000, 2, "the package has no tokenizer"),
        ("1 999999999", 5, "token 999999999 is not in the vocabulary of 160"),
        ("0 " * 13, 5, "13 prompt tokens and 1 more do not fit into a context of 12"),
    ],
    ids=["words", "letter", "minus", "arabic", "empty", "beyond", "huge", "large", "long"],
)
def test_prompts(capsys: pytest.CaptureFixture[str], token_package: str, prompt: str, code: int, words: str) -> None:
    assert words in fails(capsys, code, token_package, prompt, "-n", "1")


def test_the_hint_for_a_full_context_is_right(capsys: pytest.CaptureFixture[str], token_package: str) -> None:
    message = fails(capsys, 5, token_package, "1 2 3", "-n", "11")
    assert "ask for at most 10 with -n, or build for more with --context" in message


def test_a_tokenizer_that_is_not_there(capsys: pytest.CaptureFixture[str], token_package: str, tmp_path: Path) -> None:
    assert str(tmp_path) in fails(capsys, 5, token_package, "hi", "--tokenizer", str(tmp_path))


@pytest.mark.parametrize("size", [1, 2, 5, 1000])
def test_answers_arrive_in_any_pieces(size: int) -> None:
    output = b"hello\n> 00000001 ffffffff\r\n>zz\n> 0000000\n> 3f800000\n"
    got: list[list[int]] = []
    stream = AnswerStream(got.append)
    for start in range(0, len(output), size):
        stream.push(output[start : start + size])
    assert got == [[1, 0xFFFFFFFF], [0x3F800000]]
