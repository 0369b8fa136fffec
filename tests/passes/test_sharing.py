"""Sharing out among regions: against every assignment, and never worse than greedy."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from colibri.passes.sharing import Demand, Price, Room, share
from colibri.passes.stacking import stack


def price_of(items: list[Demand], rooms: list[Room], homes: tuple[int, ...]) -> Price:
    """What an assignment costs, written down a second time."""
    heights = [
        stack([item for item, home in zip(items, homes, strict=True) if home == at]).height for at in range(len(rooms))
    ]
    over = sum(max(0, height - (room.bytes or 0)) for height, room in zip(heights, rooms, strict=True))
    time = sum(item.heat * rooms[home].cost for item, home in zip(items, homes, strict=True))
    return Price(over, time, sum(height > 0 for height in heights), sum(heights))


def greedy(items: list[Demand], rooms: list[Room]) -> tuple[int, ...]:
    """The hottest byte first, into the cheapest room in which it still fits, else where least is missing."""
    homes: dict[int, int] = {}
    for i in sorted(range(len(items)), key=lambda i: -items[i].heat / items[i].bytes):
        missing = []
        for at, room in enumerate(rooms):
            inside = [items[k] for k, home in homes.items() if home == at] + [items[i]]
            missing.append((max(0, stack(inside).height - (room.bytes or 0)), room.cost, at))
        homes[i] = min(missing)[2]
    return tuple(homes[i] for i in range(len(items)))


@st.composite
def cases(draw: st.DrawFn, most: int) -> tuple[list[Demand], list[Room]]:
    items = []
    for index in range(draw(st.integers(1, most))):
        start = draw(st.integers(0, 5))
        lives = draw(st.sampled_from([(), ((start, start + draw(st.integers(0, 3))),)]))
        items.append(Demand(f"i{index}", 16 * draw(st.integers(1, 6)), lives, draw(st.integers(0, 30))))
    rooms = [
        Room(f"r{index}", 16 * draw(st.integers(1, 20)), draw(st.integers(1, 4)))
        for index in range(draw(st.integers(1, 3)))
    ]
    return items, rooms


@settings(max_examples=150, deadline=None)
@given(cases(most=5))
def test_small_ones_cost_as_little_as_the_best_of_all_assignments(case: tuple[list[Demand], list[Room]]) -> None:
    items, rooms = case
    sharing = share(items, rooms)
    best = min(price_of(items, rooms, homes) for homes in product(range(len(rooms)), repeat=len(items)))
    assert sharing.proven and sharing.price == best
    mine = tuple(next(at for at, room in enumerate(rooms) if room.name == sharing.homes[item.name]) for item in items)
    assert price_of(items, rooms, mine) == best


@settings(max_examples=40, deadline=None)
@given(cases(most=20))
def test_never_worse_than_greedy(case: tuple[list[Demand], list[Room]]) -> None:
    items, rooms = case
    price, other = share(items, rooms).price, price_of(items, rooms, greedy(items, rooms))
    assert (price.over, price.time) <= (other.over, other.time)


def test_heat_per_byte_decides() -> None:
    items = [Demand("cold", 64, (), 100), Demand("hot", 64, (), 900), Demand("warm", 32, (), 300)]
    sharing = share(items, [Room("near", 96), Room("far", None, 3)])
    assert sharing.homes == {"cold": "far", "hot": "near", "warm": "near"}
    assert sharing.price == Price(0, 900 + 300 + 3 * 100, 2, 160)


def test_what_fits_nowhere_goes_where_least_is_missing() -> None:
    sharing = share([Demand("big", 160)], [Room("small", 32), Room("large", 128, 9)])
    assert sharing.homes == {"big": "large"} and sharing.price.over == 32


def test_of_equal_rooms_one_is_enough() -> None:
    items = [Demand(f"i{n}", 32, (), 5) for n in range(3)]
    assert set(share(items, [Room("a", 96), Room("b", 96)]).homes.values()) == {"a"}


def test_pins() -> None:
    items = [Demand("hot", 16, (), 1000, only="far"), Demand("cold", 16, (), 1)]
    assert share(items, [Room("near", 64), Room("far", 64, 9)]).homes == {"hot": "far", "cold": "near"}
