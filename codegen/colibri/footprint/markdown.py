"""Reports and comparisons for a pull request: a table of the regions, and the rows folded away below it."""

from __future__ import annotations

from collections.abc import Iterator

from colibri.emit.markdown import head, line, plain, signed, size
from colibri.footprint.attribute import TITLES
from colibri.footprint.budget import Finding, Level
from colibri.footprint.diff import Diff, RegionDiff, Side, by_weight, leaves
from colibri.footprint.report import RegionUse, Report, made
from colibri.footprint.stack_markdown import stack_diff_lines, stack_lines
from colibri.footprint.table import below

_ROWS_SHOWN = 100
_INDENT = "&emsp;"


def report_markdown(report: Report, findings: tuple[Finding, ...] = (), *, full: bool = False) -> str:
    """The report.

    Args:
        findings: what is over a budget; stands above the table.
        full: each expert, function and table on a row of its own.
    """
    return "\n".join([*_report_lines(report, findings, full), ""])


def diff_markdown(diff: Diff, findings: tuple[Finding, ...] = (), *, full: bool = False) -> str:
    """The comparison.

    Args:
        findings: what of the newer image is over a budget; stands above the table.
        full: every row that changed, instead of the heaviest.
    """
    return "\n".join([*_diff_lines(diff, findings, full), ""])


def _report_lines(report: Report, findings: tuple[Finding, ...], full: bool) -> Iterator[str]:
    yield f"### Footprint of {_heading(report.package, report.made, report.board)}"
    yield ""
    yield from _findings(findings)
    yield from head("region", "used", "limit", "full", "free")
    shown = [region for region in report.regions if region.groups]
    for region in shown:
        yield _region_line(region)
    for region in shown:
        yield ""
        largest = ", ".join(f"{group.kind.value} {group.bytes:,}" for group in region.groups if group.bytes)
        yield f"<details><summary>{plain(region.name)}: {largest}</summary>"
        yield ""
        yield from head("", "linked", "predicted", *(["observed"] if report.observed else []))
        for group in region.groups:
            observed = [size(group.observed)] if report.observed else []
            title = f"**{TITLES.get(group.kind, group.kind.value)}**"
            yield line(title, f"{group.bytes:,}", size(group.predicted), *observed)
            for depth, name, count in below(group, full):
                yield line(_INDENT * (depth + 1) + plain(name), f"{count:,}", "", *(["" for _ in observed]))
        yield ""
        yield "</details>"
    if report.stack is not None:
        yield from stack_lines(report.stack, report.observed, full=full)
    if report.modelled is not None:
        yield ""
        yield f"{plain(report.modelled.text(report.board))}."
    if report.library is not None:
        yield ""
        yield f"{plain(report.library.text())}."
    if not report.linked:
        yield ""
        yield "Linked past the limits to be measured; there is no product."


def _region_line(region: RegionUse) -> str:
    taken = region.used + region.reserve
    used = f"{region.used:,}" + (f" + {region.reserve:,} reserved" if region.reserve else "")
    if not region.limit:
        return line(plain(region.name), used, "–", "–", "–")
    share, free = f"{100 * taken / region.limit:.1f} %", f"{region.limit - taken:,}"
    return line(plain(region.name), used, f"{region.limit:,}", share, f"**{free}**" if region.over else free)


def _diff_lines(diff: Diff, findings: tuple[Finding, ...], full: bool) -> Iterator[str]:
    changed = [f"{plain(region.name)} {region.delta:+,}" for region in diff.regions if region.delta]
    yield f"### Footprint of {_side(diff.new)}: {', '.join(changed) if changed else 'no region changed'}"
    yield ""
    yield f"Compared with {_side(diff.old)}."
    yield ""
    yield from _findings(findings)
    yield from head("region", "old", "new", "change", "of the limit")
    used = [region for region in diff.regions if region.old or region.new]
    for region in used:
        share = f"{100 * region.new / region.limit:.1f} %" if region.limit else "–"
        yield line(plain(region.name), f"{region.old:,}", f"{region.new:,}", signed(region.delta), share)
    for region in used:
        yield from _diff_details(region, full)
    if diff.stack is not None:
        yield from stack_diff_lines(diff.stack, full=full)


def _diff_details(region: RegionDiff, full: bool) -> Iterator[str]:
    rows = by_weight(leaves(region, fold=True))
    changed = [row for row in rows if row.delta]
    if not changed:
        return
    shown = changed if full else changed[:_ROWS_SHOWN]
    rest = changed[len(shown) :]
    same = [row for row in rows if not row.delta]
    yield ""
    rows_changed = "1 row" if len(changed) == 1 else f"{len(changed):,} rows"
    yield f"<details><summary>{plain(region.name)}: {rows_changed} changed</summary>"
    yield ""
    yield from head("", "old", "new", "change", "")
    for row in shown:
        name = " / ".join(plain(one) for one in (row.group.value, *row.path))
        yield line(name, f"{row.old:,}", f"{row.new:,}", signed(row.delta), row.change.value)
    for title, others in (("smaller changes", rest), ("the same", same)):
        if others:
            old, new = sum(row.old for row in others), sum(row.new for row in others)
            yield line(f"*{len(others):,} {title}*", f"{old:,}", f"{new:,}", signed(new - old), "")
    yield line("**total**", f"{region.old:,}", f"{region.new:,}", f"**{signed(region.delta)}**", region.change.value)
    yield ""
    yield "</details>"


def _findings(findings: tuple[Finding, ...]) -> Iterator[str]:
    for finding in findings:
        yield f"- **{'over budget' if finding.level is Level.FAIL else 'warning'}**: {plain(str(finding))}"
    if findings:
        yield ""


def _side(side: Side) -> str:
    return _heading(side.package, made(side.scheme, side.optimise), side.board)


def _heading(*words: str) -> str:
    return " · ".join(plain(word) for word in words if word)
