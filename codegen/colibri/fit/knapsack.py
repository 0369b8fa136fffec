"""One option of each group, with the least harm in all that has room."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_BUCKETS = 1024  # of bytes, in which partial choices compete
_KEPT = 6  # of each bucket, so that there are several good ends


@dataclass(frozen=True)
class Option:
    """What a group may take.

    Attributes:
        size: bytes, or whatever has little room.
        harm: what it costs; the harms of all groups are summed up.
    """

    size: int
    harm: float


def least_harm(groups: Sequence[Sequence[Option]], capacity: int, count: int) -> list[tuple[int, ...]]:
    """The best choices, each as the number of an option of every group; the best first, fewer bytes first among equals.

    Groups are added one by one; of what has got about as large, six survive. So the first one is nearly always the
    best there is, and the others are good.

    Args:
        capacity: that the sizes may come to.
        count: most choices that are wanted.

    Returns:
        nothing when no choice has room.
    """
    smallest = [min(option.size for option in group) for group in groups]
    rest = sum(smallest)
    sizes, harms = np.zeros(1, np.int64), np.zeros(1)
    chosen: NDArray[np.int16] = np.zeros((1, 0), np.int16)
    for group, least in zip(groups, smallest, strict=True):
        rest -= least
        own_sizes = np.array([option.size for option in group], np.int64)
        own_harms = np.array([option.harm for option in group])
        size = (sizes[:, None] + own_sizes).ravel()
        harm = (harms[:, None] + own_harms).ravel()
        kept = _survivors(size, harm, capacity - rest)
        before, option = np.divmod(kept, len(group))
        chosen = np.column_stack([chosen[before], option.astype(np.int16)])
        sizes, harms = size[kept], harm[kept]
    order = np.lexsort((sizes, harms))[:count]
    return [tuple(chosen[index].tolist()) for index in order]


def _survivors(size: NDArray[np.int64], harm: NDArray[np.float64], most: int) -> NDArray[np.intp]:
    able = np.flatnonzero(size <= most)
    if not able.size:
        return able
    low, high = size[able].min(), size[able].max()
    bucket = (size[able] - low) * _BUCKETS // max(1, high - low + 1)
    able = able[np.lexsort((size[able], harm[able], bucket))]
    bucket = np.sort(bucket)
    first = np.flatnonzero(np.diff(bucket, prepend=-1))
    rank = np.arange(len(bucket)) - np.repeat(first, np.diff(np.append(first, len(bucket))))
    return able[rank < _KEPT]
