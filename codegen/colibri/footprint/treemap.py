"""A region as boxes within boxes, squarified: area is bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from colibri.footprint.tiles import Tile

WIDTH, HEIGHT = 1000.0, 560.0  # of the frame; every box is in these units
LEVELS = 3  # of descendants that a view shows
_HEADER, _BORDER, _GAP = 21.0, 4.0, 1.0
_OPENED = (58.0, 46.0)  # smallest box that shows what is in it
_VISIBLE = 0.4  # narrower boxes are left to the table


@dataclass(frozen=True)
class Box:
    """A rectangle; the origin of the frame is its top left corner."""

    left: float
    top: float
    width: float
    height: float

    def inside(self) -> Box:
        """What the children of an opened box share."""
        return Box(
            self.left + _BORDER,
            self.top + _HEADER,
            self.width - 2 * _BORDER,
            self.height - _HEADER - _BORDER,
        )

    def shrunk(self) -> Box:
        """The box without the gap to its neighbours, as far as there is room for one."""
        across, down = min(_GAP, self.width / 4), min(_GAP, self.height / 4)
        return Box(self.left + across / 2, self.top + down / 2, self.width - across, self.height - down)


FRAME = Box(0.0, 0.0, WIDTH, HEIGHT)


@dataclass(frozen=True)
class Placed:
    """One box of a view.

    Attributes:
        path: indices of children from the tile that fills the frame; never empty.
        opened: whether boxes within it follow.
    """

    tile: Tile
    path: tuple[int, ...]
    box: Box
    opened: bool


def squarify(sizes: Sequence[int], box: Box) -> list[Box]:
    """Divide a box in proportion to the sizes, with boxes as near to squares as rows allow.

    Args:
        sizes: not negative, in any order; what is larger comes nearer to the top left.

    Returns:
        One box per size, in the order given; a size of 0 gets a box of no area.
    """
    total = sum(sizes)
    boxes = [Box(box.left, box.top, 0.0, 0.0)] * len(sizes)
    if total <= 0 or box.width <= 0 or box.height <= 0:
        return boxes
    scale = box.width * box.height / total
    queue = sorted((index for index, size in enumerate(sizes) if size > 0), key=lambda index: -sizes[index])
    start = 0
    while start < len(queue):
        side = min(box.width, box.height)
        stop, worst = start + 1, _worst([sizes[queue[start]] * scale], side)
        while stop < len(queue):
            longer = _worst([sizes[index] * scale for index in queue[start : stop + 1]], side)
            if longer > worst:
                break
            stop, worst = stop + 1, longer
        row = queue[start:stop]
        box = _lay_row(row, [sizes[index] * scale for index in row], box, boxes)
        start = stop
    return boxes


def _worst(areas: Sequence[float], side: float) -> float:
    """The largest aspect ratio in a row of these areas along a side."""
    total = sum(areas)
    return max(max(side * side * area / total**2, total**2 / (side * side * area)) for area in areas)


def _lay_row(row: Sequence[int], areas: Sequence[float], box: Box, boxes: list[Box]) -> Box:
    """Lay a row along the shorter side; the rest of the box comes back."""
    total, offset = sum(areas), 0.0
    if box.width >= box.height:
        depth = min(total / box.height, box.width)
        for index, area in zip(row, areas, strict=True):
            length = box.height * area / total
            boxes[index] = Box(box.left, box.top + offset, depth, length)
            offset += length
        return Box(box.left + depth, box.top, box.width - depth, box.height)
    depth = min(total / box.width, box.height)
    for index, area in zip(row, areas, strict=True):
        length = box.width * area / total
        boxes[index] = Box(box.left + offset, box.top, length, depth)
        offset += length
    return Box(box.left, box.top + depth, box.width, box.height - depth)


def view(tile: Tile) -> Iterator[Placed]:
    """The boxes that are seen when a tile fills the frame; a box comes before what is in it."""
    yield from _below(tile, (), FRAME)


def _below(tile: Tile, path: tuple[int, ...], box: Box) -> Iterator[Placed]:
    boxes = squarify([part.bytes for part in tile.parts], box)
    for index, (part, place) in enumerate(zip(tile.parts, boxes, strict=True)):
        if place.width < _VISIBLE or place.height < _VISIBLE:
            continue
        here = (*path, index)
        shown = place.shrunk()
        opened = bool(part.parts) and len(here) < LEVELS and shown.width >= _OPENED[0] and shown.height >= _OPENED[1]
        yield Placed(part, here, shown, opened)
        if opened:
            yield from _below(part, here, shown.inside())
