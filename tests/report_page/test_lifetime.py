"""The picture of lifetimes says what package.json says."""

from __future__ import annotations

import re

import msgspec
from sample_page import sample_package, without_ops

from colibri.footprint.lifetime import LEFT, PLOT_HEIGHT, PLOT_WIDTH, TOP, lifetimes
from colibri.package import Memory


def test_the_bound_is_what_lives_at_the_busiest_op() -> None:
    (picture,) = lifetimes(sample_package(layers=2))
    assert picture.live == (64, 96, 80, 64, 96, 80)
    assert (picture.bound, picture.busiest, picture.arena, picture.gap) == (96, 1, 96, 0)


def test_a_worse_placement_has_a_gap() -> None:
    package = sample_package()
    (block,) = package.memory.blocks
    larger = Memory((msgspec.structs.replace(block, arena=block.arena + 48),), 0)
    (picture,) = lifetimes(msgspec.structs.replace(package, memory=larger))
    assert picture.gap == 48


def test_a_picture_for_each_block() -> None:
    package = sample_package()
    (block,) = package.memory.blocks
    other = msgspec.structs.replace(block, name="memory_dtcm", region="dtcm")
    pictures = lifetimes(msgspec.structs.replace(package, memory=Memory((other, block), 0)))
    assert [(picture.region, picture.alone) for picture in pictures] == [("dtcm", False), ("axi", False)]


def test_each_interval_is_a_rectangle_at_its_offset() -> None:
    (picture,) = lifetimes(sample_package(layers=2))
    normed = next(shape for shape in picture.shapes if shape.span.name == "normed")
    boxes = re.findall(r"M([\d.]+) ([\d.]+)h([\d.]+)v([\d.]+)h-([\d.]+)z", normed.outline)
    op, unit = PLOT_WIDTH / 6, PLOT_HEIGHT / 96
    assert [[float(number) for number in box] for box in boxes] == [
        [round(number, 1) for number in (LEFT + start * op, TOP + PLOT_HEIGHT - 64 * unit, 2 * op, 32 * unit, 2 * op)]
        for start in (0, 3)
    ]
    assert normed.about == "normed: 32 bytes at offset 32 of the arena, alive in ops 0–1, 3–4"


def test_bands_are_the_layers() -> None:
    (picture,) = lifetimes(sample_package(layers=3))
    assert [band.label for band in picture.bands] == ["layer 0", "layer 1", "layer 2"]
    assert abs(sum(band.width for band in picture.bands) - PLOT_WIDTH) < 0.5


def test_no_picture_of_what_is_not_known() -> None:
    assert lifetimes(without_ops(sample_package())) == ()
