"""Long tables: the same rows as short ones, laid out by other means."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.text import Text

from colibri.footprint import rows
from colibri.footprint.rows import Rows


def text(table: Rows, width: int) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    table.print(console)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def both(monkeypatch: pytest.MonkeyPatch, table: Rows, width: int) -> tuple[str, str]:
    short = text(table, width)
    monkeypatch.setattr(rows, "_LONG", 0)
    return short, text(table, width)


@pytest.mark.parametrize("width", [80, 100, 400])
@pytest.mark.parametrize("words", [False, True])
@pytest.mark.parametrize("longest", [10, 36, 50, 130])
def test_long_and_short_tables_are_alike(
    monkeypatch: pytest.MonkeyPatch, width: int, words: bool, longest: int
) -> None:
    table = Rows("linked", "predicted", words=words)
    table.add(
        Text("  code", "bold cyan"), Text("1,234,567,890", "bold"), "–", *([Text("grew", "red")] if words else [])
    )
    for size in range(1, longest + 1, 3):
        table.add("    " + "f" * size, f"{size:,}")
    table.add("    [bold]名前 :smile:", "1")
    short, long = both(monkeypatch, table, width)
    assert long == short


def test_names_of_several_words_lose_no_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Rows("old", "new")
    table.add("  " + " / ".join(["a name of several words"] * 9), "1", "2")
    short, long = ("".join(one.split()) for one in both(monkeypatch, table, 80))
    assert sorted(long) == sorted(short) and "12" in long


def test_more_rows_than_a_layout_takes_are_all_there() -> None:
    table = Rows("linked")
    for index in range(20_000):
        table.add(f"fn_{index}", f"{index:,}")
    lines = [line.split() for line in text(table, 80).splitlines()]
    assert lines == [["linked"], *([f"fn_{index}", f"{index:,}"] for index in range(20_000))]
