"""Boxes have the areas of their sizes and never meet."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_page import sample_report

from colibri.footprint.tiles import Role, Tile, region_tile
from colibri.footprint.treemap import FRAME, Box, Placed, squarify, view

TOLERANCE = 1e-6  # of a frame of 1000 units: floating point, no pixels


def meet(one: Box, two: Box) -> bool:
    return (
        one.left < two.left + two.width - TOLERANCE
        and two.left < one.left + one.width - TOLERANCE
        and one.top < two.top + two.height - TOLERANCE
        and two.top < one.top + one.height - TOLERANCE
    )


def within(inner: Box, outer: Box) -> bool:
    return (
        inner.left >= outer.left - TOLERANCE
        and inner.top >= outer.top - TOLERANCE
        and inner.left + inner.width <= outer.left + outer.width + TOLERANCE
        and inner.top + inner.height <= outer.top + outer.height + TOLERANCE
    )


@given(
    sizes=st.lists(st.integers(0, 2**32), min_size=1, max_size=24).filter(any),
    width=st.floats(10, 1000),
    height=st.floats(10, 1000),
)
def test_areas_are_sizes_and_boxes_are_apart(sizes: list[int], width: float, height: float) -> None:
    frame = Box(3.0, 5.0, width, height)
    boxes = squarify(sizes, frame)
    for size, box in zip(sizes, boxes, strict=True):
        assert box.width * box.height == pytest.approx(width * height * size / sum(sizes), rel=1e-6, abs=1e-6)
        assert within(box, frame) or not size
    drawn = [box for size, box in zip(sizes, boxes, strict=True) if size]
    assert not any(meet(one, two) for index, one in enumerate(drawn) for two in drawn[:index])


def test_equal_sizes_are_near_squares_in_their_order() -> None:
    boxes = squarify([5] * 8, Box(0, 0, 400, 200))
    assert all(0.5 <= box.width / box.height <= 2 for box in boxes)
    assert boxes[0].left == boxes[0].top == 0
    assert sorted(boxes, key=lambda box: (box.left, box.top)) == boxes


def test_largest_comes_first_whatever_the_order() -> None:
    boxes = squarify([1, 100, 10], FRAME)
    assert (boxes[1].left, boxes[1].top) == (0, 0)
    assert boxes[0].left > boxes[1].left


@pytest.mark.parametrize("box", [FRAME, Box(0, 0, 0, 100)])
def test_nothing_takes_no_room(box: Box) -> None:
    assert all(one.width * one.height == 0 for one in squarify([0, 0], box))
    assert squarify([], box) == []


def test_a_view_nests_three_levels_within_their_parents() -> None:
    placed = {one.path: one for one in view(region_tile(sample_report().regions[0]))}
    assert max(len(path) for path in placed) == 3
    for path, one in placed.items():
        outer = FRAME if len(path) == 1 else placed[path[:-1]].box
        assert within(one.box, outer)
        if len(path) > 1:
            assert placed[path[:-1]].opened
    assert not any(one.opened for path, one in placed.items() if len(path) == 3)


def test_what_is_too_narrow_is_left_out() -> None:
    tile = Tile("flash", 10**9 + 1, Role.CODE, (Tile("large", 10**9, Role.CODE), Tile("dust", 1, Role.CODE)))
    shown: list[Placed] = list(view(tile))
    assert [one.tile.name for one in shown] == ["large"]
