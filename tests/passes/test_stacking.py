"""Stacking in one memory: against every order of first fit, and against the lower bound."""

from __future__ import annotations

from itertools import combinations, permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from colibri.passes.stacking import Item, first_fit, lower_bound, stack


@st.composite
def items(draw: st.DrawFn, most: int = 6, latest: int = 7) -> list[Item]:
    """Items with one or two lives each, some that live always."""
    found = []
    for index in range(draw(st.integers(1, most))):
        lives = []
        for _ in range(draw(st.integers(0, 2))):
            start = draw(st.integers((lives[-1][1] + 1) if lives else 0, latest))
            lives.append((start, draw(st.integers(start, latest))))
            if lives[-1][1] == latest:
                break
        found.append(Item(f"i{index}", 16 * draw(st.integers(1, 9)), tuple(lives)))
    return found


def height(items: list[Item], offsets: dict[str, int]) -> int:
    return max(offsets[item.name] + item.bytes for item in items)


@settings(max_examples=200, deadline=None)
@given(items())
def test_small_ones_are_as_low_as_the_best_of_all_orders(found: list[Item]) -> None:
    stacking = stack(found)
    assert stacking.proven
    assert stacking.height == min(height(found, first_fit(order)) for order in permutations(found))


@settings(max_examples=100, deadline=None)
@given(items(most=25, latest=30))
def test_nothing_overlaps_and_no_order_of_first_fit_is_lower(found: list[Item]) -> None:
    stacking = stack(found)
    for one, two in combinations(found, 2):
        if one.meets(two):
            low, high = sorted((one, two), key=lambda item: stacking.offsets[item.name])
            assert stacking.offsets[low.name] + low.bytes <= stacking.offsets[high.name]
    assert lower_bound(found) == stacking.bound <= stacking.height
    largest_first = sorted(found, key=lambda item: (not item.always, -item.bytes))
    assert stacking.height <= height(found, first_fit(largest_first))


def test_lives_with_a_gap_let_others_in() -> None:
    outer = Item("outer", 64, ((0, 1), (4, 5)))
    inner = Item("inner", 48, ((2, 3),))
    assert not outer.meets(inner)
    assert stack([outer, inner]).height == 64


def test_a_case_where_the_bound_cannot_be_reached() -> None:
    """At most 96 bytes live at once, and yet no order stacks them below 112: the search has seen them all."""
    found = [
        Item("a", 48, ((1, 1),)),
        Item("b", 16, ((2, 4),)),
        Item("c", 32, ((2, 3),)),
        Item("d", 48, ((0, 2),)),
        Item("e", 48, ((4, 6),)),
        Item("f", 16, ((3, 4),)),
        Item("g", 48, ((6, 6),)),
    ]
    stacking = stack(found)
    assert (stacking.bound, stacking.height, stacking.proven) == (96, 112, True)
    assert min(height(found, first_fit(order)) for order in permutations(found)) == 112


def test_a_search_cut_short_says_that_nothing_is_proven() -> None:
    found = [Item(f"i{n}", 16 * (1 + n * 7 % 5), ((n * 5 % 11, n * 5 % 11 + n % 4),)) for n in range(12)]
    quick = stack(found, steps=0)
    assert quick.height >= stack(found).height
    assert quick.proven == (quick.height == quick.bound)


@given(items(most=8, latest=12), st.tuples(st.integers(0, 12), st.integers(0, 12)))
def test_the_bound_is_the_most_that_live_at_one_moment(found: list[Item], more: tuple[int, int]) -> None:
    overlapping = Item("overlapping", 48, ((min(more), max(more)), (3, 5)))
    alive = [
        sum(one.bytes for one in (*found, overlapping) if one.always or any(a <= at <= b for a, b in one.lives))
        for at in range(14)
    ]
    assert lower_bound([*found, overlapping]) == max(alive)


@given(items(), st.integers(1, 9))
def test_what_lives_always_moves_the_rest_and_no_more(found: list[Item], units: int) -> None:
    """Asked in another order, and with other items below: the answer for the rest is the same, and none is spoilt."""
    passing = [item for item in found if not item.always]
    alone = stack(passing)
    more = stack([Item("below", 16 * units), *reversed(passing)])
    assert more.offsets == {"below": 0, **{name: 16 * units + offset for name, offset in alone.offsets.items()}}
    assert (more.height, more.bound, more.proven) == (16 * units + alone.height, 16 * units + alone.bound, alone.proven)
    assert stack(passing) == alone
