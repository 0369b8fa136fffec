"""`colibri boards new`, `show` and `check`: from a board of Colibri to one of one's own."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colibri.boards.load import board_names, load_board
from colibri.boards.new import new_board
from colibri.boards.profile import Board
from colibri.boards.toml_text import board_toml
from colibri.cli import main


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    """What a command printed, its standard error behind."""
    assert main(["boards", *arguments]) == code
    out, err = capsys.readouterr()
    return out + err


@pytest.mark.parametrize("parent", board_names())
def test_a_new_board_is_its_parent_until_changed(parent: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "new", "mine", "--from", parent).startswith(f"mine.toml: as {parent} until you change it")
    text = (here / "mine.toml").read_text()
    assert text.startswith("#:schema ./board.schema.json\n") and (here / "board.schema.json").is_file()
    board, other = load_board("mine.toml"), load_board(parent)
    assert board == msgspec.structs.replace(other, id="mine", title="mine", sources=())
    assert len(text) < 8000 and max(map(len, text.splitlines())) < 500


@pytest.mark.parametrize("name", board_names())
def test_show_prints_what_loads_again(name: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "show", name)
    (here / f"{name}.toml").write_text(text)
    assert load_board(f"{name}.toml") == load_board(name)
    assert "inherits" not in text and board_toml(load_board(f"{name}.toml")) == text
    assert msgspec.json.decode(said(capsys, "show", name, "--json"), type=Board) == load_board(name)


STM32F405 = load_board("stm32f405")


@settings(max_examples=40)
@given(st.text(max_size=20), st.integers(0, 1 << 40))
def test_any_text_and_number_survives(text: str, number: int) -> None:
    board = STM32F405
    region = msgspec.structs.replace(board.memory[0], length=number, origin=number)
    emulator = msgspec.structs.replace(board.emulators[0], note=text, origins={text: number})
    board = msgspec.structs.replace(board, title=text, memory=(region,), emulators=(emulator,))
    assert msgspec.convert({**tomllib.loads(board_toml(board)), "id": board.id}, Board) == board


def test_new_from_a_file_of_ones_own(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "new", "first", "--from", "stm32f405")
    said(capsys, "new", "second", "--from", "first.toml")
    assert 'inherits = "first"' in (here / "second.toml").read_text()
    assert load_board("second.toml").memory == load_board("stm32f405").memory
    (here / "sub").mkdir()
    wrong = said(capsys, "new", "third", "--from", "first.toml", "-o", "sub/third.toml", code=2)
    assert "a board inherits from one in its own folder" in wrong and not list((here / "sub").iterdir())


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("new", "there", "--from", "stm32f405"), 2, "there.toml: is there already; choose another name, or remove it"),
        (("new", "../x", "--from", "stm32f405"), 2, "'../x' is no name of a board; use letters, digits and ._-"),
        (("new", "_x", "--from", "stm32f405"), 2, "'_x' is no name of a board"),
        (("new", "x.toml", "--from", "stm32f405"), 2, "without .toml"),
        (("new", "n" * 65, "--from", "stm32f405"), 2, "at most 64"),
        (("new", "stm32f405", "--from", "stm32f405"), 2, "there is a board 'stm32f405' already"),
        (("new", "x", "--from", "stm32f407"), 5, "no board 'stm32f407'; did you mean 'stm32f405'?"),
        (("new", "x", "--from", "none.toml"), 5, "none.toml: no such file"),
        (("new", "x"), 2, "missing option '--from'"),
        (("new", "x", "--from", "stm32f405", "-o", "y.toml"), 2, "the file's name is the board's; end it with x.toml"),
        (("new", "x", "--from", "stm32f405", "-o", "none/x.toml"), 2, "none/x.toml: cannot be written: No such file"),
        (("check", "none.toml"), 5, "none.toml: no such file"),
        (
            ("check", "nothing"),
            5,
            "'nothing'; `colibri boards` lists them. One of your own is a path that ends with .toml",
        ),
        (("check", "there"), 5, "no board 'there'; the file here is there.toml: give it with its ending"),
        (("shwo",), 2, "no such command 'shwo'"),
    ],
)
def test_refusals(
    arguments: tuple[str, ...], code: int, message: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "there.toml").write_text("mine\n")
    assert message in said(capsys, *arguments, code=code)
    assert (here / "there.toml").read_text() == "mine\n"
    assert sorted(path.name for path in here.iterdir()) == ["there.toml"]


def test_a_schema_that_is_there_stays(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "board.schema.json").write_text("{}")
    said(capsys, "new", "mine", "--from", "stm32f405")
    assert (here / "board.schema.json").read_text() == "{}"


def test_check_says_everything_that_is_wrong(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "new", "mine", "--from", "stm32f405")
    text = (here / "mine.toml").read_text()
    text = text.replace("stack = 4096", "stack = 4095").replace('"Cortex-M4F"', '"Cortex-M44"')
    (here / "mine.toml").write_text(text)
    *lines, last = said(capsys, "check", "mine.toml", code=5).splitlines()
    assert [re.sub(r"^colibri: mine.toml:\d+: (\S+):.*", r"\1", line) for line in lines] == ["stack", "cpu.core"]
    assert last == "colibri: mine.toml: 2 faults"
    found = json.loads(said(capsys, "check", "mine.toml", "--json", code=5).split("\ncolibri:")[0])
    assert found["board"] == "mine" and len(found["faults"]) == 2 and found["notes"] == []


def test_check_asks_qemu_for_its_machines(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "new", "mine", "--from", "stm32f405")
    assert said(capsys, "check", "mine.toml").endswith("mine.toml: fine\n")
    (here / "mine.toml").write_text((here / "mine.toml").read_text().replace("netduinoplus2", "netduinoplus3"))
    line = said(capsys, "check", "mine.toml", code=5)
    assert re.search(
        r"mine.toml:\d+: emulators\[0\].args: qemu-system-arm does not know machine 'netduinoplus3'; "
        r"did you mean 'netduinoplus2'\?; asked: QEMU emulator version",
        line,
    )
    number = int(re.findall(r"mine.toml:(\d+):", line)[0])
    assert (here / "mine.toml").read_text().splitlines()[number - 1].startswith("args = ")


def test_notes_are_no_faults(here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    said(capsys, "new", "mine", "--from", "stm32f405")
    monkeypatch.setenv("PATH", str(here))
    text = said(capsys, "check", "mine.toml")
    assert "note: qemu-system-arm is not here to be asked for what netduinoplus2 needs" in text
    assert "note: sources is empty" in text and text.endswith("mine.toml: fine\n")
    (here / "none.toml").write_text('inherits = "stm32f405"\nemulators = []\n')
    assert "note: no emulator" in said(capsys, "check", "none.toml")


@pytest.mark.parametrize(("parent", "said_of_map"), [("stm32f405", True), ("raspberry-pi-5", False), ("wasm32", False)])
def test_only_boards_with_addresses_speak_of_a_map(parent: str, said_of_map: bool, here: Path) -> None:
    text = new_board("mine", parent).read_text()
    assert ("a machine with the addresses above" in text) is said_of_map
    assert ('`proves = "core"` is true only of an emulator of this core' in text) is not said_of_map
