"""The report for people: a bar for each region, then its rows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby

from rich.console import Console
from rich.text import Text

from colibri.errors import in_bytes
from colibri.footprint.attribute import TITLES, GroupKind
from colibri.footprint.groups import Group, Part
from colibri.footprint.heat_table import ranges
from colibri.footprint.report import RegionUse, Report
from colibri.footprint.rows import Rows
from colibri.footprint.stack_table import print_observed, print_stack

_BAR = 28
_INDENT = "  "
_COLOURS = {
    GroupKind.CODE: "cyan",
    GroupKind.WEIGHTS: "magenta",
    GroupKind.TABLES: "blue",
    GroupKind.DATA: "yellow",
    GroupKind.CONTEXT: "bright_cyan",
    GroupKind.STATES: "green",
    GroupKind.ARENA: "bright_magenta",
    GroupKind.STACK: "bright_yellow",
    GroupKind.PADDING: "bright_black",
    GroupKind.UNATTRIBUTED: "red",
}
_OPENED = {GroupKind.CODE, GroupKind.WEIGHTS, GroupKind.TABLES, GroupKind.DATA, GroupKind.UNATTRIBUTED}
_TERSE = {GroupKind.WEIGHTS, GroupKind.CONTEXT, GroupKind.STATES, GroupKind.ARENA, GroupKind.STACK}
_NUMBERED = re.compile(r"^(.*\D)(\d+)$")


def print_report(report: Report, console: Console, *, full: bool = False) -> None:
    """Print every region with its rows.

    Args:
        full: each expert, function and table on a row of its own.
    """
    console.print(
        Text.assemble((report.package, "bold"), f"  {report.made}  {report.board}  {report.title}"), soft_wrap=True
    )
    for region in report.regions:
        if region.groups:
            console.print()
            console.print(_headline(region, _name_width(report)), soft_wrap=True)
            _rows(region, full, observed=bool(report.observed)).print(console)
    console.print()
    if report.observed:
        print_observed(report.observed, console)
        console.print()
    if report.stack is not None:
        print_stack(report.stack, console, full=full)
    if unused := [f"{region.name} {region.limit:,}" for region in report.regions if not region.groups and region.limit]:
        console.print(f"unused: {', '.join(unused)} bytes")
    if report.modelled is not None:
        console.print(report.modelled.text(report.board))
    if report.library is not None:
        console.print(report.library.text(), soft_wrap=True)
    _print_verdict(report, console)
    for emulator in report.emulators:
        note = f": {emulator.note}" if emulator.note else ""
        console.print(Text(f"bits and instructions: {emulator.name} proves the {emulator.proves}{note}", "dim"))


def _name_width(report: Report) -> int:
    return max((len(region.name) for region in report.regions), default=0)


def _headline(region: RegionUse, width: int) -> Text:
    line = Text()
    line.append(f"{region.name:<{width}}  ", "bold")
    if not region.limit:
        return line.append(f"{in_bytes(region.used)}, no limit")
    _append_bar(line, region)
    share = 100 * (region.used + region.reserve) / region.limit
    line.append(f"  {region.used:,} of {in_bytes(region.limit)}  ")
    line.append(f"{share:.1f} %", "bold red" if region.over else "bold yellow" if share > 90 else "bold green")
    if region.reserve:
        line.append(f"  ({region.reserve:,} reserved)")
    return line


def _append_bar(line: Text, region: RegionUse) -> None:
    """A bar in which each group has its colour; what is above the limit stands at its end."""
    whole = max(region.limit, region.used + region.reserve)
    wall = min(round(_BAR * region.limit / whole), _BAR - 1 if region.over else _BAR)
    position = drawn = 0
    for size, colour, shade in (
        *((group.bytes, _COLOURS[group.kind], "█") for group in region.groups),
        (region.reserve, "bright_black", "▒"),
        (whole - region.used - region.reserve, "bright_black", "░"),
    ):
        position += size
        end = round(_BAR * position / whole)
        within = max(0, min(end, wall) - drawn)
        line.append(shade * within, colour)
        line.append("▓" * (end - drawn - within), "red")
        drawn = end


def _rows(region: RegionUse, full: bool, *, observed: bool) -> Rows:
    table = Rows("linked", "predicted", *(["observed"] if observed else []), "share")
    for group in region.groups:
        exact = group.predicted in (None, group.bytes)
        table.add(
            Text(_INDENT + TITLES.get(group.kind, group.kind.value), f"bold {_COLOURS[group.kind]}"),
            Text(f"{group.bytes:,}", "bold"),
            Text("–" if group.predicted is None else f"{group.predicted:,}", "" if exact else "yellow"),
            *(["–" if group.observed is None else f"{group.observed:,}"] if observed else []),
            f"{100 * group.bytes / region.used:.1f} %" if region.used else "–",
        )
        for depth, name, size in below(group, full):
            table.add(_INDENT * (depth + 2) + name, f"{size:,}")
    return table


def below(group: Group, full: bool) -> Iterator[tuple[int, str, int]]:
    """Depth, name and bytes of the rows under a group."""
    if full:
        yield from _all(group.parts, 0, terse=group.kind in _TERSE)
    elif group.kind is GroupKind.WEIGHTS:
        for part in group.parts:
            yield 0, part.name, part.bytes
            # Matrices are for the full form; what consists of them (router, experts) is not.
            if any(inner.parts or _NUMBERED.match(inner.name) for inner in part.parts):
                yield from ((1, name, size) for name, size in _compact(part.parts))
    elif group.kind in _OPENED:
        yield from ((0, part.name, part.bytes) for part in group.parts)


def _all(parts: tuple[Part, ...], depth: int, *, terse: bool) -> Iterator[tuple[int, str, int]]:
    """Every row.

    Args:
        terse: leave out the only part of a whole, which repeats it.
    """
    if terse and len(parts) == 1 and not parts[0].parts:
        return
    for part in parts:
        yield depth, part.name, part.bytes
        yield from _all(part.parts, depth + 1, terse=terse)


def _compact(parts: tuple[Part, ...]) -> Iterator[tuple[str, int]]:
    """Neighbours that differ only in their number become one row: ``experts 0-2, 5 (4 × 1,234)``."""
    for stem, run in groupby(parts, lambda part: match[1] if (match := _NUMBERED.match(part.name)) else None):
        members = list(run)
        if stem is None or len(members) == 1:
            yield from ((part.name, part.bytes) for part in members)
            continue
        numbers = ranges((int(part.name[len(stem) :]) for part in members), "-")
        least, most = min(part.bytes for part in members), max(part.bytes for part in members)
        each = f"{most:,}" if least == most else f"{least:,} to {most:,}"
        plural = f"{stem.rstrip()}s " if stem.endswith(" ") else stem
        yield f"{plural}{numbers} ({len(members)} × {each})", sum(part.bytes for part in members)


def _print_verdict(report: Report, console: Console) -> None:
    for region in report.regions:
        if region.over:
            budget = region.used + region.reserve <= region.length
            what = f"over its budget (the memory has {region.length:,})" if budget else "more than there are"
            console.print(Text(f"{region.name}: {in_bytes(region.over)} {what}", "bold red"), soft_wrap=True)
    if not report.linked:
        how = "linked past the limits to be measured; there is no product"
    elif all(region.printed is None for region in report.regions):
        how = "by its program headers" if report.image.endswith(".elf") else "by its sections"
    else:
        how = "at the board's own addresses, by its program headers, equal to what the linker printed"
    console.print(f"sizes: {report.image}, {how}")
