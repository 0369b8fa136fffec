"""Which rows of the data are for what: what is chosen by some rows must be measured on others."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum

_MOST_GROUPS = 120  # neighbours in text and time are alike, so they go together
_FEWEST = 24  # rows of a part, below which its figures would say nothing


class Part(StrEnum):
    """Rows for the calibration, for the search, for its first look at many candidates, and for the final figures."""

    CALIBRATION = "calibration"
    SEARCH = "search"
    LOOK = "look"
    FINAL = "final"


@dataclass(frozen=True)
class Split:
    """Rows (windows of tokens, or samples) by part, each ascending.

    Attributes:
        fresh: whether the final figures come from rows that the search never saw.
        apart: whether the calibration has rows of its own.
    """

    rows: dict[Part, tuple[int, ...]]
    fresh: bool
    apart: bool


def split_rows(count: int, *, calibrating: bool, seed: int) -> Split:
    """Deal the rows out in groups of neighbours, in an order that depends on the seed alone.

    With calibration data of its own the search gets half of the rows and the final figures half; else all three get a
    third. Where a part would have fewer than 24 rows the final figures come from those of the search; where not even
    two parts have, all come from the same rows.
    """
    groups = min(_MOST_GROUPS, count)
    bounds = [count * number // groups for number in range(groups + 1)]
    order = sorted(range(groups), key=lambda group: hashlib.sha256(f"{seed} {group}".encode()).digest())

    def rows_of(chosen: list[int]) -> tuple[int, ...]:
        return tuple(row for group in sorted(chosen) for row in range(bounds[group], bounds[group + 1]))

    parts = (3 if calibrating else 2, 2 if calibrating else 1, 1)
    shares = next(share for share in parts if share == 1 or count // share >= _FEWEST)
    dealt = [order[number::shares] for number in range(shares)]
    search = dealt[0]
    final = dealt[1] if shares == (3 if calibrating else 2) else search
    calibration = dealt[-1] if calibrating else []
    look = search[: max(1, len(search) // 2)]
    rows = {
        Part.SEARCH: rows_of(search),
        Part.LOOK: rows_of(look),
        Part.FINAL: rows_of(final),
        Part.CALIBRATION: rows_of(calibration),
    }
    return Split(rows, fresh=final is not search, apart=calibrating and calibration is not search)
