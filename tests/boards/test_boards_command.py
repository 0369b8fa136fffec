"""`colibri boards`."""

from __future__ import annotations

import msgspec
import pytest
from click.testing import CliRunner

from colibri.boards.load import board_names, load_board
from colibri.boards.profile import Board
from colibri.cli.boards import command


def test_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    done = CliRunner().invoke(command)
    assert done.exit_code == 0
    lines = done.output.splitlines()
    row = next(line for line in lines if line.startswith("stm32f405"))
    assert "1 MB" in row
    assert "128 KB sram" in row
    assert "netduinoplus2 (map)" in row
    assert "native (machine)" in done.output
    assert all(any(line.startswith(name) for line in lines) for name in board_names())
    assert "sram3" not in done.output


def test_json_is_the_profiles() -> None:
    done = CliRunner().invoke(command, ["--json"])
    assert done.exit_code == 0
    boards = msgspec.json.decode(done.output, type=list[Board])
    assert boards == [load_board(name) for name in board_names()]
