"""Share things out among memory regions: the hottest into the fastest, nothing into more than there is.

This is a knapsack for each region, with items that may overlap in time. A greedy start and local moves give a good
answer; a search that prunes proves it, or improves it, when there are few things.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from colibri.passes.stacking import Item, Stacking, stack

_NODES = 20_000  # of the search
_ALL = 400_000  # steps to stack things in earnest
_FEW = 12  # items up to which every sharing is stacked so
_TRIES = 100_000  # moves and swaps, each for all items
_REMEMBERED = 256  # answers: recipes that differ in their weights alone have equal buffers
_SWAPPED = 24  # items up to which pairs are swapped too


@dataclass(frozen=True)
class Demand(Item):
    """An item and how often it is used.

    Attributes:
        heat: bytes moved in it, for one token or one call of forward.
        only: the room that the user chose; empty for any.
    """

    heat: int = 0
    only: str = ""


@dataclass(frozen=True)
class Room:
    """A region, less what is already in it.

    Attributes:
        bytes: that are left; None for no limit.
        cost: time of a byte moved, relative to the fastest region's.
        closed: whether only those come in who want this room.
    """

    name: str
    bytes: int | None
    cost: int = 1
    closed: bool = False


@dataclass(frozen=True, order=True)
class Price:
    """What a sharing costs; smaller is better, the first member first.

    Attributes:
        over: bytes that do not fit.
        time: sum over all items of heat x cost.
        rooms: that are used at all.
        height: bytes taken in all of them.
    """

    over: int
    time: int
    rooms: int
    height: int


@dataclass(frozen=True)
class Sharing:
    """Who stands where.

    Attributes:
        homes: item to room.
        stackings: room to where its items stand in it; rooms without items are not there.
        proven: whether the search has seen that nothing has a smaller price.
    """

    homes: Mapping[str, str]
    stackings: Mapping[str, Stacking]
    price: Price
    proven: bool


def share(items: Sequence[Demand], rooms: Sequence[Room], nodes: int = _NODES) -> Sharing:
    """Share the items out; what fits nowhere goes where least is missing. Equal questions are answered once.

    Args:
        items: of different names; ``only`` names one of the rooms.
        rooms: at least one that is not closed; of equal ones the first is preferred.
        nodes: of the search.
    """
    return _shared(tuple(items), tuple(rooms), nodes)


@lru_cache(_REMEMBERED)
def _shared(items: tuple[Demand, ...], rooms: tuple[Room, ...], nodes: int) -> Sharing:
    nodes = min(nodes, _NODES * _SWAPPED // max(1, len(items)))
    search = _Search(list(items), list(rooms), nodes, tries=_TRIES // max(1, len(items)))
    search.begin(_greedy(items, rooms))
    if len(rooms) > 1:
        search.improve()
        search.prove()
    homes = {item.name: rooms[at].name for item, at in zip(items, search.best, strict=True)}
    stackings = {
        room.name: stack(mine)
        for index, room in enumerate(rooms)
        if (mine := [item for item, at in zip(items, search.best, strict=True) if at == index])
    }
    proven = (len(rooms) == 1 or search.nodes > 0) and all(one.proven for one in stackings.values())
    return Sharing(homes, stackings, _price(items, rooms, search.best, steps=_ALL), proven)


def _allowed(item: Demand, rooms: Sequence[Room]) -> list[int]:
    """Rooms that an item may go to, the cheapest first."""
    mine = [index for index, room in enumerate(rooms) if item.only == room.name or not (item.only or room.closed)]
    return sorted(mine, key=lambda index: (rooms[index].cost, index))


def _over(room: Room, height: int) -> int:
    return 0 if room.bytes is None else max(0, height - room.bytes)


def _price(items: Sequence[Demand], rooms: Sequence[Room], homes: Sequence[int], *, steps: int) -> Price:
    over = height = used = 0
    for index, room in enumerate(rooms):
        mine = [item for item, at in zip(items, homes, strict=True) if at == index]
        if mine:
            taken = stack(mine, steps).height
            over, height, used = over + _over(room, taken), height + taken, used + 1
    time = sum(item.heat * rooms[at].cost for item, at in zip(items, homes, strict=True))
    return Price(over, time, used, height)


def _greedy(items: Sequence[Demand], rooms: Sequence[Room]) -> list[int]:
    """The most heat per byte first, each into the cheapest room that still has place."""
    homes = [-1] * len(items)
    inside: list[list[Demand]] = [[] for _ in rooms]
    order = sorted(range(len(items)), key=lambda i: (-items[i].heat / max(1, items[i].bytes), -items[i].bytes, i))
    for i in order:
        homes[i] = _least_over(items[i], inside, rooms)
        inside[homes[i]].append(items[i])
    return homes


def _least_over(item: Demand, inside: Sequence[Sequence[Demand]], rooms: Sequence[Room]) -> int:
    """The room that has too little by the fewest bytes, of equal ones the cheapest."""
    least: tuple[int, int] | None = None
    for at in _allowed(item, rooms):
        # Without a limit nothing is stacked.
        over = 0 if rooms[at].bytes is None else _over(rooms[at], stack([*inside[at], item], 0).height)
        if least is None or over < least[0]:
            least = over, at
        if over == 0:
            break
    assert least is not None  # a room is open
    return least[1]


@dataclass
class _Search:
    """Local moves, then branch and bound, from one sharing to better ones."""

    items: list[Demand]
    rooms: list[Room]
    nodes: int
    tries: int
    best: list[int] = field(default_factory=list)
    price: Price = field(default_factory=lambda: Price(0, 0, 0, 0))
    _sizes: list[NDArray[np.int64]] = field(default_factory=list)  # of each item at each moment

    def begin(self, homes: list[int]) -> None:
        moments = sorted({start for item in self.items for start, _ in item.lives}) or [0]
        for item in self.items:
            alive = [item.always or any(low <= moment <= high for low, high in item.lives) for moment in moments]
            self._sizes.append(item.bytes * np.array(alive, np.int64))
        self.best, self.price = homes, self._of(homes)

    def _of(self, homes: list[int]) -> Price:
        """The price: stacked by first fit, and exactly for few items or where that does not fit."""
        price = _price(self.items, self.rooms, homes, steps=_ALL if len(homes) <= _FEW else 0)
        return price if price.over == 0 else _price(self.items, self.rooms, homes, steps=_ALL // len(homes))

    def _at_least(self, inside: Sequence[NDArray[np.int64]], used: int, time: int) -> Price:
        """No stacking of these contents costs less."""
        heights = [int(one.max()) for one in inside]
        over = sum(_over(room, height) for room, height in zip(self.rooms, heights, strict=True))
        return Price(over, time, used, sum(heights))

    def _take(self, homes: list[int]) -> bool:
        self.tries -= 1
        inside = [
            sum((size for size, home in zip(self._sizes, homes, strict=True) if home == at), np.zeros(1, np.int64))
            for at in range(len(self.rooms))
        ]
        time = sum(item.heat * self.rooms[at].cost for item, at in zip(self.items, homes, strict=True))
        if self._at_least(inside, len(set(homes)), time) >= self.price or (price := self._of(homes)) >= self.price:
            return False
        self.best, self.price = list(homes), price
        return True

    def improve(self) -> None:
        """Move one item, or swap two, while that helps."""
        count = len(self.items)
        better = True
        while better and self.tries > 0:
            moves = ((i, at) for i in range(count) for at in _allowed(self.items[i], self.rooms))
            better = any(self._take([*self.best[:i], at, *self.best[i + 1 :]]) for i, at in moves)
            if not better and count <= _SWAPPED:
                better = any(self._take(self._swapped(i, k)) for i, k in combinations(range(count), 2))

    def _swapped(self, i: int, k: int) -> list[int]:
        homes = list(self.best)
        if self.items[i].only == self.items[k].only == "":
            homes[i], homes[k] = homes[k], homes[i]
        return homes

    def prove(self) -> None:
        """Look at every sharing that could be better; ``nodes`` stays above 0 when there was time for all of them."""
        order = sorted(range(len(self.items)), key=lambda i: (-self.items[i].heat, -self.items[i].bytes, i))
        cheapest = [min(self.rooms[at].cost for at in _allowed(item, self.rooms)) for item in self.items]
        least = [0]
        for i in reversed(order):
            least.append(least[-1] + self.items[i].heat * cheapest[i])
        least.reverse()
        empty = [np.zeros_like(self._sizes[0]) for _ in self.rooms] if self.items else []
        if empty:
            self._go(order, least, 0, [-1] * len(self.items), empty, 0)

    def _go(
        self,
        order: list[int],
        least: list[int],
        depth: int,
        homes: list[int],
        inside: list[NDArray[np.int64]],
        time: int,
    ) -> None:
        self.nodes -= 1
        used = len(set(homes) - {-1})
        if self._at_least(inside, used, time + least[depth]) >= self.price:
            return
        if depth == len(order):
            self._take(homes)
            return
        i = order[depth]
        item = self.items[i]
        twin = homes[order[depth - 1]] if depth and _alike(item, self.items[order[depth - 1]]) else 0
        for at in _allowed(item, self.rooms):
            if self.nodes <= 0:
                return
            if at >= twin:  # equal items stand in ascending rooms: the other orders are the same
                homes[i] = at
                inside[at] += self._sizes[i]
                self._go(order, least, depth + 1, homes, inside, time + item.heat * self.rooms[at].cost)
                inside[at] -= self._sizes[i]
                homes[i] = -1


def _alike(one: Demand, two: Demand) -> bool:
    return (one.bytes, one.lives, one.heat, one.only) == (two.bytes, two.lives, two.heat, two.only)
