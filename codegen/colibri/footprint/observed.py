"""What a run showed, beside what the report says."""

from __future__ import annotations

import msgspec

from colibri.footprint.attribute import GroupKind
from colibri.footprint.report import Group, Report
from colibri.footprint.stack import Observed
from colibri.package import Package

_ARENA_GROUPS = (GroupKind.CONTEXT, GroupKind.STATES, GroupKind.ARENA)


def with_observed(report: Report, observed: list[Observed], package: Package) -> Report:
    """The report with the figures of the runs: of several emulators, in each row the largest."""
    if not observed:
        return report
    water = max((one.arena for one in observed if one.arena is not None), default=None)
    depth = max((one.program.observed for one in observed if one.program.observed is not None), default=None)
    memory = package.memory
    figures = {GroupKind.STACK: depth}
    # The block holds context, states and arena in this order: what is touched up to the high-water mark.
    start = 0
    for kind, size in zip(_ARENA_GROUPS, (memory.context, memory.states, memory.arena), strict=True):
        figures[kind] = None if water is None else max(0, min(size, water - start))
        start += size
    regions = tuple(
        msgspec.structs.replace(region, groups=tuple(_seen(group, figures) for group in region.groups))
        for region in report.regions
    )
    return msgspec.structs.replace(report, regions=regions, observed=tuple(observed))


def _seen(group: Group, figures: dict[GroupKind, int | None]) -> Group:
    return msgspec.structs.replace(group, observed=figures.get(group.kind))
