"""docs/report-check.md: each table is of every board, and nothing in it failed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from colibri.boards.load import board_names, load_board
from colibri.boards.profile import BoardKind

PAGE = (Path(__file__).parents[2] / "docs/report-check.md").read_text(encoding="utf-8")
TABLES = {
    title: [
        re.split(r" \| ", line.strip("| ")) for line in text.splitlines() if re.match(r"\| [a-z0-9-]+ \| [\d–]", line)
    ]
    for title, text in re.findall(r"^### (.*?)\n(.*?)(?=^### |\Z)", PAGE, re.MULTILINE | re.DOTALL)
}
TOLD = {
    BoardKind.BARE: {"size -A", "objcopy"},
    BoardKind.LINUX: {"size -A", r"PT\_LOAD"},
    BoardKind.WINDOWS: {"size -A", "SizeOfImage"},
    BoardKind.WASM: {"file", "wasmtime"},
}


@pytest.mark.parametrize("title", ["The sensor model", "The language model"])
def test_every_board_is_in_the_table(title: str) -> None:
    assert [row[0] for row in TABLES[title]] == board_names()


@pytest.mark.parametrize("title", TABLES)
def test_all_that_was_built_was_compared_and_run_or_refused(title: str) -> None:
    for board, rows, told, _, depths, wall in TABLES[title]:
        if rows == "–":  # the compiler asked for builds nothing for the board
            assert title.endswith("by clang")
            continue
        assert set(told.split(", ")) >= TOLD[load_board(board).kind], board
        for observed, bound in re.findall(r"(\d+) of (\d+)", depths):
            assert int(bound) >= int(observed) >= 0.7 * int(bound), board
        assert wall == "refused" or " in " in wall, board
    assert ", 0 failed." in PAGE
