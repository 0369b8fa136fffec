"""A comparison for people: a line for each region, then the rows that changed, heaviest first; last the stack."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from colibri.errors import in_bytes
from colibri.footprint.attribute import TITLES
from colibri.footprint.diff import Change, Diff, RegionDiff, Row, Side, by_weight, leaves
from colibri.footprint.report import made
from colibri.footprint.rows import Rows
from colibri.footprint.stack_table import print_stack_diff

_ROWS_SHOWN = 25
_COLOURS = {
    Change.CAME: "red",
    Change.GREW: "red",
    Change.WENT: "green",
    Change.SHRANK: "green",
    Change.SAME: "dim",
}


def print_diff(diff: Diff, console: Console, *, full: bool = False) -> None:
    """Print every region with what changed in it.

    Args:
        full: all rows, those without a change too.
    """
    console.print(Text.assemble("old  ", _side(diff.old)), soft_wrap=True)
    console.print(Text.assemble("new  ", _side(diff.new)), soft_wrap=True)
    width = max((len(region.name) for region in diff.regions), default=0)
    for region in (one for one in diff.regions if one.old or one.new):
        console.print()
        console.print(_headline(region, width), soft_wrap=True)
        if any(row.delta for row in leaves(region)) or full:
            _rows(region, full).print(console)
    if diff.stack is not None:
        console.print()
        print_stack_diff(diff.stack, console, full=full)


def _side(side: Side) -> Text:
    return Text.assemble((side.package, "bold"), f"  {made(side.scheme, side.optimise)}  {side.board}  {side.image}")


def _headline(region: RegionDiff, width: int) -> Text:
    line = Text.assemble((f"{region.name:<{width}}  ", "bold"), f"{region.old:,} → {in_bytes(region.new)}  ")
    line.append(_signed(region.delta), f"bold {_COLOURS[region.change]}")
    if region.over:
        line.append(f"  {region.over:,} over its limit", "bold red")
    return line


def _rows(region: RegionDiff, full: bool) -> Rows:
    table = Rows("old", "new", "change", words=True)
    rows = by_weight(leaves(region, fold=True))
    changed = [row for row in rows if row.delta]
    shown = rows if full else changed[:_ROWS_SHOWN]
    for row in shown:
        name = " / ".join((TITLES.get(row.group, row.group.value), *row.path))
        _add(table, name, row.old, row.new, row.change.value, _COLOURS[row.change])
    if not full:
        _add_sum(table, "smaller changes", changed[_ROWS_SHOWN:])
        _add_sum(table, "the same", [row for row in rows if not row.delta])
    _add(table, "total", region.old, region.new, "", "bold")
    return table


def _add_sum(table: Rows, title: str, rows: list[Row]) -> None:
    if rows:
        name = f"{len(rows):,} {title}"
        _add(table, name, sum(row.old for row in rows), sum(row.new for row in rows), "", "dim")


def _add(table: Rows, name: str, old: int, new: int, word: str, style: str) -> None:
    table.add(f"  {name}", f"{old:,}", f"{new:,}", Text(_signed(new - old), style), Text(word, style))


def _signed(number: int) -> str:
    return f"{number:+,}" if number else "0"
