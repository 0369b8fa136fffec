"""Budgets: bytes that a region, a group or a row may take before a report warns or fails."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

from colibri.boards.words import nearest
from colibri.checkpoint.untrusted import read_toml
from colibri.errors import BadInput, DoesNotFit, in_bytes
from colibri.footprint.attribute import TITLES, GroupKind
from colibri.footprint.groups import Part
from colibri.footprint.report import Report

_HINT_LENGTH = 200
_OTHER_NAMES = {
    **{title: kind for kind, title in TITLES.items()},
    ".data": GroupKind.DATA,
    ".bss": GroupKind.DATA,
    "bss": GroupKind.DATA,
    ".rodata": GroupKind.TABLES,
    "rodata": GroupKind.TABLES,
    "constants": GroupKind.TABLES,
    ".text": GroupKind.CODE,
    "text": GroupKind.CODE,
    "memory block": GroupKind.ARENA,
}


class Level(StrEnum):
    """How bad it is: a warning, or exit code 3."""

    WARN = "warn"
    FAIL = "fail"


class Budget(msgspec.Struct, frozen=True):
    """What one row may take.

    Attributes:
        path: region, then group, then rows, as the report names them.
        warn: bytes above which the report warns; None for never.
        fail: bytes above which it fails; None for never.
    """

    path: tuple[str, ...]
    warn: int | None
    fail: int | None


class Finding(msgspec.Struct, frozen=True):
    """A budget that is exceeded.

    Attributes:
        path: as in `Budget`.
        used: bytes of the image there.
        reserve: bytes kept for the application, which count too against a board's own levels.
        limit: the budget of this level.
        over: bytes above it.
        source: name of the budget file; empty for the board's own levels.
    """

    level: Level
    path: tuple[str, ...]
    used: int
    reserve: int
    limit: int
    over: int
    source: str

    def __str__(self) -> str:
        """``flash / code: 12,345 bytes, 345 bytes over the limit of 12,000 in budget.toml (fail)``."""
        reserve = f" and {self.reserve:,} reserved" if self.reserve else ""
        used = f"{' / '.join(self.path)}: {in_bytes(self.used)}{reserve}"
        limit = (
            f"the board's limit of {self.limit:,}" if self.of_board else f"the limit of {self.limit:,} in {self.source}"
        )
        return f"{used}, {in_bytes(self.over)} over {limit} ({self.level})"

    @property
    def of_board(self) -> bool:
        """Whether it is the board's own level that is exceeded."""
        return not self.source


def load_budgets(path: Path) -> tuple[Budget, ...]:
    """Read a budget file: a table for each region, in it ``warn`` and ``fail``, and tables for what is inside.

    Raises:
        BadInput: not TOML, or not of this shape; names are compared with the report by `check`.
    """
    _, tables = read_toml(path)
    budgets = tuple(_walk(tables, (), path))
    if not budgets:
        raise BadInput("no budget inside", where=str(path), hint="for instance: [flash] fail = 1_000_000")
    return budgets


def check(report: Report, budgets: tuple[Budget, ...], source: str) -> tuple[Finding, ...]:
    """What is over: the board's own levels and its stack first, then each budget once, at its worse level.

    Args:
        source: name of the budget file.

    Raises:
        BadInput: a budget for a region, group or row that the report does not have.
    """
    found = []
    for one in report.regions:
        taken = one.used + one.reserve
        if one.over:
            found.append(Finding(Level.FAIL, (one.name,), one.used, one.reserve, one.limit, one.over, ""))
        elif one.warn and taken > one.warn:
            found.append(Finding(Level.WARN, (one.name,), one.used, one.reserve, one.warn, taken - one.warn, ""))
    if report.stack is not None and report.stack.overflows:
        stack = report.stack
        depth = (stack.program.bytes or 0) + stack.exception
        found.append(Finding(Level.FAIL, ("stack",), depth, 0, stack.reserve, depth - stack.reserve, ""))
    for budget in budgets:
        used = _bytes(report, budget.path, source)
        for level, limit in ((Level.FAIL, budget.fail), (Level.WARN, budget.warn)):
            if limit is not None and used > limit:
                found.append(Finding(level, budget.path, used, 0, limit, used - limit, source))
                break
    return tuple(found)


def require_budgets(findings: tuple[Finding, ...], source: str) -> None:
    """Do nothing when no budget of a file is exceeded beyond a warning.

    Raises:
        DoesNotFit: names each one that is.
    """
    failed = [one for one in findings if one.level is Level.FAIL and not one.of_board]
    if failed:
        rows = ", ".join(f"{' / '.join(one.path)} by {in_bytes(one.over)}" for one in failed)
        raise DoesNotFit(f"over budget: {rows}", where=source)


def _walk(table: dict[str, Any], path: tuple[str, ...], file: Path) -> Iterator[Budget]:
    levels: dict[str, int] = {}
    for name, value in table.items():
        here = ".".join((*path, name))
        if isinstance(value, dict):
            continue
        if name not in ("warn", "fail"):
            raise BadInput(f"{here}: unknown key", where=str(file), hint=nearest(name, ("warn", "fail")))
        if not path:
            raise BadInput(f"{name} stands outside every region", where=str(file), hint="put it below [flash], say")
        if type(value) is not int or value < 0:
            raise BadInput(f"{here}: a number of bytes is wanted", where=str(file), hint="for instance 900_000")
        levels[name] = value
    inner = {name: value for name, value in table.items() if isinstance(value, dict)}
    if levels:
        warn, fail = levels.get("warn"), levels.get("fail")
        if warn is not None and fail is not None and warn > fail:
            raise BadInput(f"{'.'.join(path)}: warn is above fail", where=str(file))
        yield Budget(path, warn, fail)
    elif path and not inner:
        raise BadInput(f"{'.'.join(path)}: neither warn nor fail", where=str(file))
    for name, value in inner.items():
        yield from _walk(value, (*path, name), file)


def _bytes(report: Report, path: tuple[str, ...], source: str) -> int:
    """Size of what a path names."""
    regions = {region.name: region for region in report.regions}
    region = regions.get(path[0])
    if region is None:
        raise _unknown("region", path[:1], regions, source)
    if len(path) == 1:
        return region.used
    if path[1] not in list(GroupKind):
        meant = _OTHER_NAMES.get(path[1].strip().lower())
        hint = f"did you mean {meant.value!r}?" if meant else ""
        raise _unknown("group", path[:2], [kind.value for kind in GroupKind], source, hint)
    group = next((one for one in region.groups if one.kind == path[1]), None)
    if len(path) == 2:
        return group.bytes if group else 0
    parts: tuple[Part, ...] = group.parts if group else ()
    size = 0
    for depth, name in enumerate(path[2:], 3):
        here = [part for part in parts if part.name == name]
        if not here:
            raise _unknown("row", path[:depth], [part.name for part in parts], source)
        size, parts = sum(part.bytes for part in here), tuple(inner for part in here for inner in part.parts)
    return size


def _unknown(what: str, path: tuple[str, ...], known: Iterable[str], source: str, hint: str = "") -> BadInput:
    words = list(known)
    hint = hint or (nearest(path[-1], words) if words else "the report has nothing there")
    if len(hint) > _HINT_LENGTH:
        hint = "`colibri report --full` names all"
    return BadInput(f"{' / '.join(path)}: no such {what} in the report", where=source, hint=hint)
