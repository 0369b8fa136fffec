"""What each expert costs in flash, beside how often it ran: a table of layers and experts, and where to look first."""

from __future__ import annotations

from dataclasses import dataclass

from colibri.errors import in_bytes
from colibri.footprint.attribute import GroupKind
from colibri.footprint.report import Report
from colibri.profile.model import Profile

_LEGIBLE = 24  # experts in a row, up to which each has a figure
_MOST_CELLS = 4096
_RANKED = 8
_STRONG = 75  # percent of the accent from which on text is drawn in the other colour


@dataclass(frozen=True)
class Cell:
    """One expert.

    Attributes:
        runs: tokens or calls for which it ran; ``share`` the same in percent.
        bytes: of its weights; ``of_flash`` in percent of what the region uses.
        level: ``share`` in percent of the largest one.
    """

    layer: int
    expert: int
    runs: int
    share: float
    bytes: int
    of_flash: float
    level: int

    @property
    def strong(self) -> bool:
        """Whether its colour is too strong for the usual text."""
        return self.level >= _STRONG


@dataclass(frozen=True)
class LayerRow:
    """Experts of a layer, None where a number is missing; ``cost`` is what one of them takes."""

    layer: int
    cells: tuple[Cell | None, ...]
    cost: str


@dataclass(frozen=True)
class ExpertMap:
    """Experts of a package that was profiled.

    Attributes:
        runs: tokens or calls that were run.
        region: where the weights lie.
        experts: the columns.
        rows: empty where they are too many for a picture.
        legible: whether the cells have room for a figure.
        largest: the largest share, in percent.
        ranked: those that ran least for their bytes.
        bytes: of all experts; ``of_flash`` in percent.
    """

    runs: int
    region: str
    experts: tuple[int, ...]
    rows: tuple[LayerRow, ...]
    legible: bool
    largest: float
    ranked: tuple[Cell, ...]
    bytes: int
    of_flash: float

    @property
    def several(self) -> bool:
        """Whether several experts of a layer ran in one run."""
        return any(sum(cell.runs for cell in row.cells if cell) > self.runs for row in self.rows)

    @property
    def ranked_flash(self) -> float:
        """Percent of flash that the ranked ones take together."""
        return sum(cell.of_flash for cell in self.ranked)


def expert_map(report: Report, profile: Profile) -> ExpertMap | None:
    """Join rows of the report with counts of the profile; None where one of them knows no experts."""
    sizes, region, used = _sizes(report)
    runs = profile.control_flow.inferences
    known = [one for one in profile.experts if (one.layer, one.expert) in sizes]
    if not known or not runs:
        return None
    most = max(max(one.inferences for one in known), 1)
    cells = {}
    for one in known:
        key = (one.layer, one.expert)
        share, of_flash = 100 * one.inferences / runs, 100 * sizes[key] / max(used, 1)
        level = round(100 * one.inferences / most)
        cells[key] = Cell(*key, one.inferences, share, sizes[key], of_flash, level)
    experts = tuple(sorted({expert for _, expert in cells}))
    layers = sorted({layer for layer, _ in cells})
    picture = len(layers) * len(experts) <= _MOST_CELLS
    total = sum(cell.bytes for cell in cells.values())
    # Of two that ran equally often for their bytes (never, most of all) the larger one first.
    ranked = sorted(cells.values(), key=lambda cell: (cell.runs / max(cell.bytes, 1), -cell.bytes, cell.layer))
    return ExpertMap(
        runs=runs,
        region=region,
        experts=experts,
        rows=tuple(_row(layer, [cells.get((layer, expert)) for expert in experts]) for layer in layers if picture),
        legible=len(experts) <= _LEGIBLE,
        largest=100 * most / runs,
        ranked=tuple(ranked[: min(_RANKED, max(1, len(ranked) // 2))]),
        bytes=total,
        of_flash=100 * total / max(used, 1),
    )


def _sizes(report: Report) -> tuple[dict[tuple[int, int], int], str, int]:
    """Bytes of each expert, the region of the weights, and what is used of it."""
    sizes: dict[tuple[int, int], int] = {}
    where, used = "", 0
    for region in report.regions:
        for group in region.groups:
            if group.kind is not GroupKind.WEIGHTS or not group.bytes:
                continue
            where, used = where or region.name, used + region.used
            for layer in group.parts:
                for part in layer.parts:
                    if (key := _key(layer.name, part.name)) is not None:
                        sizes[key] = sizes.get(key, 0) + part.bytes
    return sizes, where, used


def _key(layer: str, expert: str) -> tuple[int, int] | None:
    """Layer and number of ``layer 2`` and ``expert 5``."""
    one, other = layer.removeprefix("layer "), expert.removeprefix("expert ")
    if (one, other) == (layer, expert) or not (one.isdecimal() and other.isdecimal()):
        return None
    return int(one), int(other)


def _row(layer: int, cells: list[Cell | None]) -> LayerRow:
    there = [cell for cell in cells if cell is not None]
    low, high = min(there, key=lambda cell: cell.bytes), max(there, key=lambda cell: cell.bytes)
    if low.bytes == high.bytes:
        cost = f"{in_bytes(low.bytes)}, {low.of_flash:.1f} %"
    else:
        cost = f"{low.bytes:,}–{in_bytes(high.bytes)}, {low.of_flash:.1f}–{high.of_flash:.1f} %"
    return LayerRow(layer, tuple(cells), cost)
