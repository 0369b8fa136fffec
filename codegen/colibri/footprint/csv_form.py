"""Reports and comparisons for spreadsheets: one line for each row without others below it."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator

from colibri.footprint.attribute import GroupKind
from colibri.footprint.diff import Diff, by_weight, leaves
from colibri.footprint.groups import Group, Part
from colibri.footprint.report import Report
from colibri.footprint.stack import StackUse

_BETWEEN = " / "


def report_csv(report: Report) -> str:
    """Region, group, path, linked, predicted, observed and bound; the columns of bytes sum to the report's.

    Where a group as a whole is predicted, and not to the byte, or was observed, that stands in a line with an empty
    path and 0 bytes linked. The column ``bound`` has what the stack may take at most: a line for each frame of the
    deepest path, the exception frame, the margin and what rounds them up. They sum to what the program needs.
    """
    lines: list[tuple[object, ...]] = [("region", "group", "path", "linked", "predicted", "observed", "bound")]
    for region in report.regions:
        for group in region.groups:
            exact = group.predicted == group.bytes
            for path, size in _leaves(group):
                lines.append((region.name, group.kind.value, _BETWEEN.join(path), size, size if exact else "", "", ""))
            predicted = "" if group.predicted is None or exact else group.predicted
            observed = "" if group.observed is None else group.observed
            if predicted != "" or observed != "":
                lines.append((region.name, group.kind.value, "", 0, predicted, observed, ""))
    if report.stack is not None:
        lines += _stack_lines(report, report.stack)
    return _written(lines)


def _stack_lines(report: Report, stack: StackUse) -> Iterator[tuple[object, ...]]:
    """Nothing to sum where there is no bound: then one line says why."""
    kind = GroupKind.STACK
    home = next((region.name for region in report.regions for group in region.groups if group.kind is kind), "")
    if stack.program.bytes is None or stack.needed is None:
        yield home, kind.value, _BETWEEN.join(("not bounded", stack.program.unknown)), 0, "", "", ""
        return
    rest = stack.needed - stack.program.bytes - stack.exception - stack.margin
    rows = [(_BETWEEN.join(("deepest path", frame.function)), frame.bytes) for frame in stack.program.path]
    rows += [("exception frame", stack.exception), ("margin", stack.margin), ("rounding", rest)]
    for path, size in rows:
        if size:
            yield home, kind.value, path, 0, "", "", size


def diff_csv(diff: Diff) -> str:
    """Region, group, path, old and new bytes, difference and what it means; heaviest change of each region first.

    Bounds of the stack come last, in no region, since the bytes of the reserve are in theirs.
    """
    lines: list[tuple[object, ...]] = [("region", "group", "path", "old", "new", "delta", "change")]
    for region in diff.regions:
        for row in by_weight(leaves(region)):
            path = _BETWEEN.join(row.path)
            lines.append((region.name, row.group.value, path, row.old, row.new, row.delta, row.change.value))
    for figure in diff.stack.figures() if diff.stack else ():
        sizes = ("" if size is None else size for size in (figure.old, figure.new, figure.delta))
        lines.append(("", "stack bound", figure.name, *sizes, ""))
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
