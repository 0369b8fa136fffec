"""Stack things that live at different times in one piece of memory: as low as possible, and proven where that is cheap.

This is dynamic storage allocation, which is NP-hard (Garey and Johnson, problem SR2). First fit in several orders, and
in those that come from them by swapping two items, is compared with the lower bound, the most bytes alive at one
moment; what is left open goes to a search that is exact when it comes to an end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, reduce
from itertools import accumulate, combinations
from operator import or_

_STEPS = 400_000  # of one search, each for one item: about a second
_ROUNDS = 4
_KEPT = 10_000  # answers that are remembered


@dataclass(frozen=True)
class Item:
    """Something that needs memory.

    Attributes:
        bytes: a multiple of the alignment.
        lives: moments in which its bytes matter, both ends included; empty means always.
    """

    name: str
    bytes: int
    lives: tuple[tuple[int, int], ...] = ()

    @property
    def always(self) -> bool:
        """Whether it lives from call to call."""
        return not self.lives

    @cached_property
    def moments(self) -> int:
        """A bit for each moment in which it lives; all bits, if always."""
        return reduce(or_, (((2 << stop) - 1) >> start << start for start, stop in self.lives), 0) or -1

    def meets(self, other: Item) -> bool:
        """Whether both live at one moment."""
        return self.moments & other.moments != 0


@dataclass(frozen=True)
class Stacking:
    """Where each item stands.

    Attributes:
        offsets: name to bytes from the start.
        height: bytes that all take together.
        bound: most bytes alive at one moment: no stacking is lower.
        proven: whether no stacking is lower than this one, because it meets the bound or a search has seen them all.
    """

    offsets: Mapping[str, int]
    height: int
    bound: int
    proven: bool


def lower_bound(items: Sequence[Item]) -> int:
    """Most bytes alive at one moment."""
    change = Counter[int]()  # of the bytes that are alive, by moment
    for item in items:
        behind = 0  # what the item's earlier intervals have counted
        for start, stop in sorted(item.lives):
            if stop >= behind:
                change[max(start, behind)] += item.bytes
                change[stop + 1] -= item.bytes
                behind = stop + 1
    constant = sum(item.bytes for item in items if item.always)
    return constant + max(accumulate(size for _, size in sorted(change.items())), default=0)


def first_fit(items: Sequence[Item]) -> dict[str, int]:
    """Each item in the order given, at the lowest offset that nothing alive at the same time covers."""
    offsets: dict[str, int] = {}
    for index, item in enumerate(items):
        busy = sorted((offsets[other.name], other.bytes) for other in items[:index] if item.meets(other))
        offsets[item.name] = _lowest(busy, item.bytes)
    return offsets


def _lowest(busy: Sequence[tuple[int, int]], size: int, start: int = 0) -> int:
    offset = start
    for at, taken in busy:
        if offset + size <= at:
            break
        offset = max(offset, at + taken)
    return offset


def _span(item: Item) -> int:
    return item.lives[-1][1] - item.lives[0][0] if item.lives else 0


_ORDERS: tuple[Callable[[Item], tuple[int, ...]], ...] = (
    lambda item: (-item.bytes,),
    lambda item: (-item.bytes * (1 + _span(item)),),
    lambda item: (-_span(item), -item.bytes),
    lambda item: (item.lives[0][0], -item.bytes),
    lambda item: (-item.lives[-1][1], -item.bytes),
)


def stack(items: Sequence[Item], steps: int = _STEPS) -> Stacking:
    """Stack the items: what lives always at the bottom, in the order given, the rest above it.

    Args:
        items: of different names.
        steps: that the search may take before it settles for the best so far.
    """
    offsets: dict[str, int] = {}
    base = 0
    for item in items:
        if item.always:
            offsets[item.name] = base
            base += item.bytes
    passing = sorted((item for item in items if not item.always), key=lambda item: item.name)
    above = _stack_passing(tuple(Item(item.name, item.bytes, item.lives) for item in passing), steps)
    offsets.update({name: base + offset for name, offset in above.offsets.items()})
    return Stacking(offsets, base + above.height, base + above.bound, above.proven)


@lru_cache(maxsize=_KEPT)
def _stack_passing(passing: tuple[Item, ...], steps: int) -> Stacking:
    """`stack` of items that do not live always, by name. One plan asks for the same again, and so do similar boards."""
    bound = lower_bound(passing)
    order, best, height = _first_fits(passing, bound)
    if steps and height > bound:
        order = _swapped(order, bound, steps)
        best = first_fit(order)
        height = _height(order, best)
    proven = height == bound
    if not proven and steps:
        search = _Search(list(passing), bound, height, best, steps)
        search.go()
        best, height, proven = search.best, search.height, search.height == bound or search.steps > 0
    return Stacking(best, height, bound, proven)


def _first_fits(items: Sequence[Item], bound: int) -> tuple[list[Item], dict[str, int], int]:
    """The first order whose first fit is lowest, its offsets and its height; none is lower than the bound."""
    found: tuple[list[Item], dict[str, int], int] | None = None
    for key in _ORDERS:
        order = sorted(items, key=key)
        offsets = first_fit(order)
        height = _height(order, offsets)
        if found is None or height < found[2]:
            found = order, offsets, height
        if height == bound:
            break
    assert found is not None  # there are orders
    return found


def _swapped(order: list[Item], bound: int, steps: int) -> list[Item]:
    """Swap two items of the order while first fit does not become higher, at most ``_ROUNDS`` times around."""
    height, count = _height(order, first_fit(order)), len(order)
    for _ in range(_ROUNDS):
        for i, k in combinations(range(count), 2):
            if height == bound or steps <= 0:
                return order
            steps -= count
            order[i], order[k] = order[k], order[i]
            found = _height(order, first_fit(order))
            if found > height:
                order[i], order[k] = order[k], order[i]
            height = min(height, found)
    return order


def _height(items: Sequence[Item], offsets: Mapping[str, int]) -> int:
    return max((offsets[item.name] + item.bytes for item in items), default=0)


@dataclass
class _Search:
    """Branch and bound over the stackings in which nothing can be lowered.

    Any stacking can be lowered to such a one. Inserted by ascending offset, each of its items then stands as low as
    the ones before it allow; so trying all orders with non-descending offsets finds them all.
    """

    items: list[Item]
    bound: int
    height: int
    best: dict[str, int]
    steps: int
    _moments: list[list[int]] = field(default_factory=list)
    _meets: list[list[bool]] = field(default_factory=list)

    def go(self) -> None:
        moments = sorted({start for item in self.items for start, _ in item.lives})
        self._moments = [
            [i for i, item in enumerate(self.items) if any(low <= moment <= high for low, high in item.lives)]
            for moment in moments
        ]
        self._meets = [[one.meets(two) for two in self.items] for one in self.items]
        self._place([False] * len(self.items), {}, (0, -1), 0)

    def _place(self, done: list[bool], at: dict[int, int], last: tuple[int, int], top: int) -> None:
        self.steps -= len(self.items)
        if len(at) == len(self.items):
            self.best, self.height = {self.items[i].name: offset for i, offset in at.items()}, top
            return
        offset = last[0]
        for alive in self._moments:
            rest = sum(self.items[i].bytes for i in alive if not done[i])
            if rest and offset + rest >= self.height:
                return
        choices = []
        for index, item in enumerate(self.items):
            if not done[index]:
                busy = sorted((low, self.items[i].bytes) for i, low in at.items() if self._meets[index][i])
                place = _lowest(busy, item.bytes)
                if (place, index) > last:
                    choices.append((place, -item.bytes, index))
        for place, size, index in sorted(choices):
            if self.steps <= 0 or self.height == self.bound:
                return
            reach = max(top, place - size)
            if reach < self.height:
                done[index], at[index] = True, place
                self._place(done, at, (place, index), reach)
                done[index] = False
                del at[index]
