"""The rows of a report as one tree, each leaf with the role that gives it its colour."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from colibri.footprint.attribute import GroupKind
from colibri.footprint.groups import Group, Part
from colibri.footprint.report import RegionUse

MOST_ROWS = 800  # a page with all of them stays below 400 KB


class Role(StrEnum):
    """What bytes are for, in the order of the bars."""

    EXPERTS = "experts"
    ROUTER = "router"
    ATTENTION = "attention"
    ENDS = "ends"
    NORMS = "norms"
    EXTRA = "extra"
    CODE = "code"
    TABLES = "tables"
    DATA = "data"
    CONTEXT = "context"
    STATES = "states"
    ARENA = "arena"
    STACK = "stack"
    PADDING = "padding"
    UNATTRIBUTED = "unattributed"

    @property
    def label(self) -> str:
        """Name for people."""
        return _LABELS.get(self, self.value)


_LABELS = {
    Role.ENDS: "embedding and head",
    Role.EXTRA: "other weights",
    Role.TABLES: "constants",
    Role.DATA: ".data and .bss",
    Role.STACK: "stack reserve",
}
_OF_GROUP: dict[GroupKind, Role] = {kind: Role(kind.value) for kind in GroupKind if kind is not GroupKind.WEIGHTS}
_OF_WEIGHTS = (
    (re.compile(r"^(shared )?experts?\b"), Role.EXPERTS),
    (re.compile(r"^router\b"), Role.ROUTER),
    (re.compile(r"^attention\b"), Role.ATTENTION),
    (re.compile(r"^norms?\b|_norm$"), Role.NORMS),
    (re.compile(r"^(embedding|head|input layer|output layer)$"), Role.ENDS),
)


@dataclass(frozen=True)
class Tile:
    """A row with what it consists of.

    Attributes:
        bytes: sum over ``parts`` when there are any.
        role: of most of its bytes.
        predicted: before the compiler ran; None when nothing was.
        observed: touched in a run; None when that is not known.
    """

    name: str
    bytes: int
    role: Role
    parts: tuple[Tile, ...] = ()
    predicted: int | None = None
    observed: int | None = None

    @property
    def short(self) -> str:
        """The name within what it is in: a matrix without its layer and expert."""
        return self.name.rpartition(".")[2] if self.name.startswith("layers.") else self.name

    def leaves(self) -> Iterator[Tile]:
        """The tiles that consist of nothing smaller."""
        if not self.parts:
            yield self
        for part in self.parts:
            yield from part.leaves()

    def by_role(self) -> dict[Role, int]:
        """Bytes of each role, in the order of the roles, without zeros."""
        sums: Counter[Role] = Counter()
        for leaf in self.leaves():
            sums[leaf.role] += leaf.bytes
        return {role: sums[role] for role in Role if sums[role]}


def region_tile(region: RegionUse) -> Tile:
    """The tree of a region: groups, then their rows."""
    groups = tuple(_of_group(group) for group in region.groups)
    return Tile(region.name, region.used, _main_role(groups, Role.PADDING), groups)


def _of_group(group: Group) -> Tile:
    role = _OF_GROUP.get(group.kind)
    parts = tuple(_of_part(part, role or Role.EXTRA, weights=role is None) for part in group.parts)
    if len(parts) == 1 and not parts[0].parts:
        parts = ()  # a row that only says again what the group says
    title = role.label if role else group.kind.value
    return Tile(title, group.bytes, role or _main_role(parts, Role.EXTRA), parts, group.predicted, group.observed)


def _of_part(part: Part, role: Role, *, weights: bool) -> Tile:
    if weights:
        role = next((found for pattern, found in _OF_WEIGHTS if pattern.search(part.name)), role)
    inner = tuple(_of_part(one, role, weights=weights) for one in part.parts)
    return Tile(part.name, part.bytes, _main_role(inner, role), inner)


def _main_role(parts: tuple[Tile, ...], default: Role) -> Role:
    return max(parts, key=lambda part: part.bytes).role if parts else default


def thin(tiles: list[Tile], most: int = MOST_ROWS) -> list[Tile]:
    """Keep the largest rows of all trees; what is smaller becomes one row for each parent. Sums stay."""
    # A tile is never larger than the one it is in, and sorts behind it when both are equal.
    ranks = sorted((-tile.bytes, len(path), path) for path, tile in _walk(tiles, ()))
    if len(ranks) <= most:
        return tiles
    kept = {path for _, _, path in ranks[:most]}
    return [_thinned(tile, (index,), kept) for index, tile in enumerate(tiles)]


def _walk(tiles: Iterable[Tile], path: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], Tile]]:
    for index, tile in enumerate(tiles):
        here = (*path, index)
        yield here, tile
        yield from _walk(tile.parts, here)


def _thinned(tile: Tile, path: tuple[int, ...], kept: set[tuple[int, ...]]) -> Tile:
    parts = [_thinned(part, (*path, index), kept) for index, part in enumerate(tile.parts) if (*path, index) in kept]
    rest = tuple(part for index, part in enumerate(tile.parts) if (*path, index) not in kept)
    if rest and parts:
        size = sum(part.bytes for part in rest)
        parts.append(Tile(f"{len(rest):,} smaller rows", size, _main_role(rest, tile.role)))
    # Where no part is kept, the tile becomes a leaf.
    return replace(tile, parts=tuple(parts))
