"""What a run showed, beside what the report says."""

from __future__ import annotations

import msgspec

from colibri.footprint.attribute import GroupKind
from colibri.footprint.groups import Group
from colibri.footprint.report import Report
from colibri.footprint.stack import Observed
from colibri.package import Block, Package

_ARENA_GROUPS = (GroupKind.CONTEXT, GroupKind.STATES, GroupKind.ARENA)


def with_observed(report: Report, observed: list[Observed], package: Package) -> Report:
    """The report with the figures of the runs: of several emulators, in each row the largest."""
    if not observed:
        return report
    depth = max((one.program.observed for one in observed if one.program.observed is not None), default=None)
    regions = []
    for region in report.regions:
        figures: dict[GroupKind, int | None] = {GroupKind.STACK: depth}
        if block := package.memory.in_region(region.name):
            figures |= _touched(block, observed)
        groups = tuple(_seen(group, figures) for group in region.groups)
        regions.append(msgspec.structs.replace(region, groups=groups))
    return msgspec.structs.replace(report, regions=tuple(regions), observed=tuple(observed))


def _touched(block: Block, observed: list[Observed]) -> dict[GroupKind, int | None]:
    """A block holds context, states and arena in this order: what is touched up to the high-water mark."""
    water = max((one.high_water for run in observed for one in run.memory if one.region == block.region), default=None)
    figures: dict[GroupKind, int | None] = {}
    start = 0
    for kind, size in zip(_ARENA_GROUPS, (block.context, block.states, block.arena), strict=True):
        figures[kind] = None if water is None else max(0, min(size, water - start))
        start += size
    return figures


def _seen(group: Group, figures: dict[GroupKind, int | None]) -> Group:
    return msgspec.structs.replace(group, observed=figures.get(group.kind))
