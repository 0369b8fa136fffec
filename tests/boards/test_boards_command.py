"""`colibri boards`."""

from __future__ import annotations

import msgspec
import pytest
from click.testing import CliRunner

from colibri.boards.load import board_names, load_board
from colibri.boards.profile import Board
from colibri.boards.table import memory_texts
from colibri.cli.boards import command


def test_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    done = CliRunner().invoke(command)
    assert done.exit_code == 0
    lines = done.output.splitlines()
    row = next(line for line in lines if line.startswith("stm32f405"))
    assert row.split() == ["stm32f405", "Cortex-M4F", "1", "MB", "192", "KB", "map"]
    assert "machine, isa" in done.output
    assert all(any(line.startswith(name) for line in lines) for name in board_names())
    assert len(lines) == 1 + len(board_names())


@pytest.mark.parametrize(("columns", "titles"), [("80", False), ("119", False), ("200", True)])
def test_a_line_for_each_board_in_any_width(monkeypatch: pytest.MonkeyPatch, columns: str, titles: bool) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    lines = CliRunner().invoke(command).output.splitlines()
    for name, line in zip(board_names(), lines[1:], strict=True):
        board = load_board(name)
        assert line.startswith(f"{name} ") and board.cpu.core in line and "…" not in line
        assert (board.title in line) == titles


def test_regions_that_are_the_applications_are_not_counted() -> None:
    assert memory_texts(load_board("nucleo-h743zi")) == ("2 MB", "960 KB")  # of 1060
    assert memory_texts(load_board("x86-64-v3")) == ("–", "–")


def test_json_is_the_profiles() -> None:
    done = CliRunner().invoke(command, ["--json"])
    assert done.exit_code == 0
    boards = msgspec.json.decode(done.output, type=list[Board])
    assert boards == [load_board(name) for name in board_names()]
