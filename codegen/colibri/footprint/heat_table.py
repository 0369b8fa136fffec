"""What the working memory of each region holds, hottest first: bytes that a token moves for each byte that is there."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

from colibri.package import Block, Package, Span

_SHOWN = 8
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True)
class HeatRow:
    """A buffer, or alike ones of several layers.

    Attributes:
        kind: ``context``, ``state`` or ``arena``.
        bytes: of all of them, as ``moved``, the bytes moved for one token or one call.
        level: 0 to 100, logarithmic between the coldest and the hottest of the package.
    """

    name: str
    kind: str
    count: int
    bytes: int
    moved: int
    level: int

    @property
    def per_byte(self) -> float:
        """Bytes moved for each byte that it takes."""
        return self.moved / self.bytes if self.bytes else 0.0


@dataclass(frozen=True)
class HeatRegion:
    """A block of the working memory.

    Attributes:
        bytes: of the block.
        moved: bytes that are moved there for one token or one call; ``share`` in percent of all blocks.
        cost: of a byte moved, relative to the fastest memory of the board.
        rows: the hottest; ``more`` the others.
    """

    region: str
    bytes: int
    moved: int
    share: float
    cost: int
    rows: tuple[HeatRow, ...]
    more: tuple[HeatRow, ...]


def heat_regions(package: Package) -> tuple[HeatRegion, ...]:
    """Blocks of a package with what they hold; none where the package does not say how hot it is."""
    blocks = [(block, _merged(block.spans)) for block in package.memory.blocks if block.spans]
    everything = [row for _, rows in blocks for row in rows]
    total = sum(row.moved for row in everything)
    if not total:
        return ()
    figures = [row.per_byte for row in everything if row.moved]
    low, high = min(figures), max(figures)
    costs = {region.name: region.cost for region in package.board.memory}
    return tuple(_region(block, rows, low, high, total, costs.get(block.region, 1)) for block, rows in blocks)


def _region(block: Block, rows: list[HeatRow], low: float, high: float, total: int, cost: int) -> HeatRegion:
    placed = [
        HeatRow(row.name, row.kind, row.count, row.bytes, row.moved, _level(row.per_byte, low, high)) for row in rows
    ]
    placed.sort(key=lambda row: (-row.per_byte, -row.moved, row.name))
    shown = len(placed) if len(placed) <= _SHOWN + 1 else _SHOWN
    moved = sum(row.moved for row in rows)
    return HeatRegion(
        block.region, block.total, moved, 100 * moved / total, cost, tuple(placed[:shown]), tuple(placed[shown:])
    )


def _level(value: float, low: float, high: float) -> int:
    if value <= 0:
        return 0
    return 100 if high <= low else round(100 * math.log(value / low) / math.log(high / low))


def _merged(spans: Iterable[Span]) -> list[HeatRow]:
    """Spans with names that differ only in one number, of equal bytes and heat, are one row."""
    found: dict[tuple[str, str, int, int], list[Span]] = {}
    for span in spans:
        found.setdefault((_NUMBER.sub("#", span.name, count=1), span.kind, span.bytes, span.heat), []).append(span)
    return [
        HeatRow(
            _name(alike), kind, len(alike), sum(one.bytes for one in alike), sum(one.heat for one in alike), level=0
        )
        for (_, kind, _, _), alike in found.items()
    ]


def _name(alike: list[Span]) -> str:
    """``layers.1–3.key`` for three of them."""
    first, last = (_NUMBER.search(span.name) for span in (alike[0], alike[-1]))
    if len(alike) == 1 or first is None or last is None:
        return alike[0].name
    numbers = [int(match[0]) for span in alike if (match := _NUMBER.search(span.name))]
    runs = ranges(numbers)
    return f"{alike[0].name[: first.start()]}{runs}{alike[0].name[first.end() :]}"


def ranges(numbers: Iterable[int], dash: str = "–") -> str:
    """Ascending numbers in words.

    >>> ranges([1, 2, 3, 7])
    '1–3, 7'
    """
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(low) if low == high else f"{low}{dash}{high}" for low, high in runs)
