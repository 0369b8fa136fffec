"""Budgets as lines that GitHub shows beside a change: workflow commands on standard output."""

from __future__ import annotations

from colibri.errors import in_bytes
from colibri.footprint.budget import Finding, Level
from colibri.footprint.report import Report

_COMMANDS = {Level.FAIL: "error", Level.WARN: "warning"}


def annotation_lines(report: Report, findings: tuple[Finding, ...]) -> str:
    """One line for each budget that is exceeded, or a notice with the totals when none is."""
    if not findings:
        used = ", ".join(f"{region.name} {_of(region.used, region.limit)}" for region in report.regions if region.used)
        return _command("notice", f"footprint of {report.package}", used or "nothing")
    lines = []
    for finding in findings:
        how = "over budget" if finding.level is Level.FAIL else "above its warning level"
        lines.append(_command(_COMMANDS[finding.level], f"{' / '.join(finding.path)} {how}", str(finding)))
    return "".join(lines)


def _of(used: int, limit: int) -> str:
    return f"{used:,} of {in_bytes(limit)}" if limit else in_bytes(used)


def _command(name: str, title: str, message: str) -> str:
    return f"::{name} title={_escaped(title).replace(':', '%3A').replace(',', '%2C')}::{_escaped(message)}\n"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
