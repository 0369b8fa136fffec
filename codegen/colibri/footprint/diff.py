"""Two reports, row by row: what grew, shrank, came and went."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum

import msgspec

from colibri.footprint.alike import alike
from colibri.footprint.attribute import GroupKind
from colibri.footprint.groups import Part
from colibri.footprint.report import RegionUse, Report
from colibri.footprint.stack_diff import StackDiff, compare_stacks

SCHEMA = 1


class Change(StrEnum):
    """What became of a row; one without bytes is as good as none."""

    CAME = "came"
    WENT = "went"
    GREW = "grew"
    SHRANK = "shrank"
    SAME = "same"


class PartDiff(msgspec.Struct, frozen=True):
    """A row of both reports or of one. Sizes in bytes.

    Attributes:
        old: 0 when it is new; sum over ``parts`` when there are any, like ``new`` and ``delta``.
        delta: ``new`` minus ``old``.
        parts: heaviest change first; none where one report is split further than the other.
    """

    name: str
    old: int
    new: int
    delta: int
    change: Change
    parts: tuple[PartDiff, ...] = ()


class GroupDiff(msgspec.Struct, frozen=True):
    """Bytes of one kind in one region; fields as in `PartDiff`."""

    kind: GroupKind
    old: int
    new: int
    delta: int
    change: Change
    parts: tuple[PartDiff, ...]


class RegionDiff(msgspec.Struct, frozen=True):
    """A memory region.

    Attributes:
        old: bytes used in the older image; sum over ``groups``, like ``new`` and ``delta``.
        limit: bytes that may be used in the newer image, or else in the older one; 0 when there is no limit.
        over: bytes above the limit in the newer image, its reserve counted.
        groups: heaviest change first.
    """

    name: str
    old: int
    new: int
    delta: int
    change: Change
    limit: int
    over: int
    groups: tuple[GroupDiff, ...]


class Side(msgspec.Struct, frozen=True):
    """Which image a side is; fields as in `Report`."""

    package: str
    board: str
    scheme: str
    image: str
    linked: bool
    optimise: str = ""


class Diff(msgspec.Struct, frozen=True):
    """Two images.

    Attributes:
        schema: version of this form.
        regions: in the order of the newer report; those that only the older one has come last.
        stack: None when one side knows nothing of its stack.
    """

    schema: int
    old: Side
    new: Side
    regions: tuple[RegionDiff, ...]
    stack: StackDiff | None = None

    def to_json(self) -> bytes:
        """As JSON: sorted keys, integers, nothing that differs between two runs."""
        return msgspec.json.format(msgspec.json.encode(self, order="sorted"), indent=1) + b"\n"


class Row(msgspec.Struct, frozen=True):
    """A row without others below, or with all of them new or all gone.

    Attributes:
        path: names below the group, from the outside in.
    """

    group: GroupKind
    path: tuple[str, ...]
    old: int
    new: int
    delta: int
    change: Change


def compare(old: Report, new: Report) -> Diff:
    """Match regions, groups and rows by their names. Every byte of both reports is in one row of each level.

    A report of a program on its own has fewer rows: then the other one is read as coarsely.
    """
    old, new = alike(old, new)
    before, after = ({region.name: region for region in report.regions} for report in (old, new))
    names = [*after, *(name for name in before if name not in after)]
    regions = tuple(_region(name, before.get(name), after.get(name)) for name in names)
    return Diff(SCHEMA, _side(old), _side(new), regions, compare_stacks(old.stack, new.stack))


def leaves(region: RegionDiff, *, fold: bool = False) -> Iterator[Row]:
    """Rows of a region that sum to it.

    Args:
        fold: what came or went as a whole is one row.
    """
    for group in region.groups:
        whole = PartDiff("", group.old, group.new, group.delta, group.change, group.parts)
        yield from _leaves(group.kind, (), whole, fold)


def by_weight(rows: Iterable[Row]) -> list[Row]:
    """Heaviest change first; rows of the same weight by their names."""
    return sorted(rows, key=lambda row: (-abs(row.delta), row.group, row.path))


def _side(report: Report) -> Side:
    return Side(report.package, report.board, report.scheme, report.image, report.linked, report.optimise)


def _region(name: str, old: RegionUse | None, new: RegionUse | None) -> RegionDiff:
    before = {group.kind: group for group in old.groups} if old else {}
    after = {group.kind: group for group in new.groups} if new else {}
    groups = []
    for kind in (kind for kind in GroupKind if kind in before or kind in after):
        parts = [side[kind].parts if kind in side else () for side in (before, after)]
        sizes = [side[kind].bytes if kind in side else 0 for side in (before, after)]
        groups.append(GroupDiff(kind, *_sizes(*sizes), _parts(*parts) if _both_split(parts, sizes) else ()))
    order = list(GroupKind)
    groups.sort(key=lambda group: (-abs(group.delta), order.index(group.kind)))
    known = new or old
    used = _sizes(old.used if old else 0, new.used if new else 0)
    return RegionDiff(name, *used, known.limit if known else 0, new.over if new else 0, tuple(groups))


def _parts(old: tuple[Part, ...], new: tuple[Part, ...]) -> tuple[PartDiff, ...]:
    before, after = _by_name(old), _by_name(new)
    found = []
    for name in dict.fromkeys((*before, *after)):
        one, other = before.get(name, Part(name, 0)), after.get(name, Part(name, 0))
        inner = [one.parts, other.parts]
        split = _both_split(inner, [one.bytes, other.bytes])
        found.append(PartDiff(name, *_sizes(one.bytes, other.bytes), _parts(*inner) if split else ()))
    return tuple(sorted(found, key=lambda part: (-abs(part.delta), part.name)))


def _by_name(parts: tuple[Part, ...]) -> dict[str, Part]:
    """Rows by name; two of one name are one row."""
    found: dict[str, Part] = {}
    for part in parts:
        if twin := found.get(part.name):
            inner = (*twin.parts, *part.parts) if twin.parts and part.parts else ()
            found[part.name] = Part(part.name, twin.bytes + part.bytes, inner)
        else:
            found[part.name] = part
    return found


def _both_split(parts: list[tuple[Part, ...]], sizes: list[int]) -> bool:
    """Whether both sides are split; a side without bytes follows the other."""
    return all(inner or not size for inner, size in zip(parts, sizes, strict=True))


def _sizes(old: int, new: int) -> tuple[int, int, int, Change]:
    if old == new:
        change = Change.SAME
    elif not old or not new:
        change = Change.WENT if old else Change.CAME
    else:
        change = Change.GREW if new > old else Change.SHRANK
    return old, new, new - old, change


def _leaves(kind: GroupKind, path: tuple[str, ...], part: PartDiff, fold: bool) -> Iterator[Row]:
    # The group itself is never folded: its row would have no name.
    whole = fold and path and part.change in (Change.CAME, Change.WENT)
    if whole or not part.parts:
        if part.old or part.new:
            yield Row(kind, path, part.old, part.new, part.delta, part.change)
        return
    for inner in part.parts:
        yield from _leaves(kind, (*path, inner.name), inner, fold)
