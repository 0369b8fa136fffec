"""Two reports with the same rows, when one is of a program on its own and knows less."""

from __future__ import annotations

import msgspec

from colibri.footprint.attribute import GroupKind
from colibri.footprint.groups import Group, Part
from colibri.footprint.report import RegionUse, Report

_BLOCK = {GroupKind.CONTEXT, GroupKind.STATES, GroupKind.ARENA}
_KEPT = {"header and table", "manifest", "alignment"}


def alike(old: Report, new: Report) -> tuple[Report, Report]:
    """The reports as they are when both or neither are of a program on its own, else only what both can know."""
    return (old, new) if old.alone == new.alone else (_coarse(old), _coarse(new))


def _coarse(report: Report) -> Report:
    """Of weights the experts and the rest, of the memory block its size, of code and data only their sums."""
    return msgspec.structs.replace(report, regions=tuple(_coarse_region(region) for region in report.regions))


def _coarse_region(region: RegionUse) -> RegionUse:
    groups: list[Group] = []
    block = padding = 0
    for group in region.groups:
        if group.kind in _BLOCK:
            block += group.bytes
        elif group.kind is GroupKind.WEIGHTS:
            groups.append(Group(group.kind, group.bytes, None, _coarse_weights(group.parts)))
        elif group.kind is GroupKind.PADDING:
            inside = sum(part.bytes for part in group.parts if part.name == "memory block")
            block, padding = block + inside, group.bytes - inside
        else:
            # Which object a function is from, an ELF file says only of some.
            groups.append(Group(group.kind, group.bytes, None, ()))
    if block:
        groups.append(Group(GroupKind.ARENA, block, None, ()))
    if padding:
        groups.append(Group(GroupKind.PADDING, padding, None, ()))
    return msgspec.structs.replace(region, groups=tuple(groups))


def _coarse_weights(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """The section table in `model.bin` tells experts apart, but not a norm from a router or a table."""
    coarse: list[Part] = []
    rest = 0
    for part in parts:
        experts = tuple(Part(one.name, one.bytes) for one in part.parts if one.name.startswith("expert "))
        if part.name in _KEPT:
            coarse.append(Part(part.name, part.bytes))
        elif experts:
            inside = sum(one.bytes for one in experts)
            coarse.append(Part(part.name, inside, experts))
            rest += part.bytes - inside
        else:
            rest += part.bytes
    return (*coarse, *((Part("all but experts", rest),) if rest else ()))
