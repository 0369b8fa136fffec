"""Reports and comparisons for spreadsheets: one line for each row without others below it."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator

from colibri.footprint.diff import Diff, by_weight, leaves
from colibri.footprint.report import Group, Part, Report

_BETWEEN = " / "


def report_csv(report: Report) -> str:
    """Region, group, path, linked and predicted bytes; both columns sum to the report's.

    Where a group as a whole is predicted, and not to the byte, its prediction stands in a line with an empty path and
    0 bytes linked.
    """
    lines: list[tuple[object, ...]] = [("region", "group", "path", "linked", "predicted")]
    for region in report.regions:
        for group in region.groups:
            exact = group.predicted == group.bytes
            for path, size in _leaves(group):
                lines.append((region.name, group.kind.value, _BETWEEN.join(path), size, size if exact else ""))
            if group.predicted is not None and not exact:
                lines.append((region.name, group.kind.value, "", 0, group.predicted))
    return _written(lines)


def diff_csv(diff: Diff) -> str:
    """Region, group, path, old and new bytes, difference and what it means; heaviest change of each region first."""
    lines: list[tuple[object, ...]] = [("region", "group", "path", "old", "new", "delta", "change")]
    for region in diff.regions:
        for row in by_weight(leaves(region)):
            path = _BETWEEN.join(row.path)
            lines.append((region.name, row.group.value, path, row.old, row.new, row.delta, row.change.value))
    return _written(lines)


def _leaves(group: Group) -> Iterator[tuple[tuple[str, ...], int]]:
    def walk(parts: tuple[Part, ...], path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], int]]:
        for part in parts:
            if part.parts:
                yield from walk(part.parts, (*path, part.name))
            else:
                yield (*path, part.name), part.bytes

    if group.parts:
        yield from walk(group.parts, ())
    elif group.bytes:
        yield (), group.bytes


def _written(lines: Iterable[tuple[object, ...]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()
