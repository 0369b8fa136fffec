"""A region as one bar: what fills it, in colours, and where its limits are."""

from __future__ import annotations

from dataclasses import dataclass

from colibri.footprint.report import RegionUse
from colibri.footprint.tiles import Role, Tile


@dataclass(frozen=True)
class Slice:
    """Bytes of one role; ``left`` and ``width`` are in percent of the bar, ``share`` is of the region's use."""

    role: Role
    bytes: int
    left: float
    width: float
    share: float


@dataclass(frozen=True)
class Line:
    """A limit at a distance, in percent of the bar, from its left end."""

    at: float
    label: str
    bytes: int


@dataclass(frozen=True)
class Bar:
    """A region.

    Attributes:
        reserve: the application's, after what is used; bytes are 0 when there is none.
        beyond: where the part above the limit starts, in percent; None when all fits.
        percent: used and reserved in percent of the limit; None without a limit.
        level: ``over``, ``tight`` above nine tenths, else ``fits``.
    """

    region: RegionUse
    slices: tuple[Slice, ...]
    reserve: Slice
    lines: tuple[Line, ...]
    beyond: float | None
    percent: float | None
    level: str

    @property
    def notes(self) -> list[Line]:
        """The limits that are not where the bar ends."""
        return [line for line in self.lines if line.at < 100]


def make_bar(region: RegionUse, tile: Tile) -> Bar:
    """The bar of a region with its tree; its length is the largest of what is used, may be used and is there."""
    taken = region.used + region.reserve
    whole = max(taken, region.limit, region.length, 1)
    slices, position = [], 0
    for role, size in tile.by_role().items():
        share = 100 * size / max(region.used, 1)
        slices.append(Slice(role, size, _percent(position, whole), _percent(size, whole), share))
        position += size
    lines = []
    if region.limit and region.limit != region.length:
        lines.append(Line(_percent(region.limit, whole), "budget", region.limit))
    if region.length:
        lines.append(Line(_percent(region.length, whole), "limit" if not lines else "end", region.length))
    percent = 100 * taken / region.limit if region.limit else None
    return Bar(
        region=region,
        slices=tuple(slices),
        reserve=Slice(Role.PADDING, region.reserve, _percent(region.used, whole), _percent(region.reserve, whole), 0.0),
        lines=tuple(lines),
        beyond=_percent(region.limit, whole) if region.over else None,
        percent=percent,
        level="over" if region.over else "tight" if percent is not None and percent > 90 else "fits",
    )


def _percent(size: int, whole: int) -> float:
    return round(100 * size / whole, 3)
