"""docs/matrix.md: its table is of boards that are there, and says what the page claims."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from colibri.boards.load import board_names
from colibri.cli import main
from colibri.matrix.model import WORST
from colibri.matrix.table import COLUMNS
from colibri.recipe import parse_recipe

PAGE = (Path(__file__).parents[2] / "docs/matrix.md").read_text(encoding="utf-8")
ROWS = [
    dict(zip(COLUMNS, (cell.strip().replace("\\", "") for cell in line.strip("|").split(" | ")), strict=True))
    for line in PAGE.partition("<!-- begin: ci/matrix --write -->")[2].splitlines()
    if line.startswith("| ") and not line.startswith(("| board |", "| ---"))
]


def test_the_table_is_of_boards_that_are_there() -> None:
    assert {row["board"] for row in ROWS} <= set(board_names())


def test_every_board_is_built_and_most_run_to_the_same_bits() -> None:
    built = {row["board"] for row in ROWS if row["builds"] == "yes"}
    run = {row["board"] for row in ROWS if row["same digest"] == "yes"}
    assert len(built) >= 45 and len(run) >= 25
    assert {row["board"] for row in ROWS} == built
    assert "NO" not in {row["same digest"] for row in ROWS}


def test_what_the_page_says_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["matrix", "--help"]) == 0
    options = set(re.findall(r"--[a-z]+", capsys.readouterr().out))
    prose = PAGE.partition("## Every board")[0]
    assert set(re.findall(r"--[a-z]+", prose)) <= options
    codes = [
        int(code) for code in re.findall(r"\b(\d+) [a-z]", prose.partition("worst cell: ")[2].partition("\n\n")[0])
    ]
    assert codes == list(WORST)
    for recipe in re.findall(r"--recipe ([\w:=]+)", prose):
        parse_recipe(recipe)
