"""What lies in each region of the working memory, by the bytes that a token moves there."""

from __future__ import annotations

import msgspec
from sample_page import sample_package, sample_report
from test_page_text import Elements

from colibri.footprint.heat_table import heat_regions
from colibri.footprint.html import render_page
from colibri.package import Block, Memory, Package, Span


def warm_package() -> Package:
    """A hot buffer and one state in DTCM, three alike states in AXI SRAM."""
    fast = (
        Span("context", "context", 0, 64, heat=64),
        Span("layers.0.key", "state", 64, 256, heat=512),
        Span("x", "arena", 320, 16, 0, 5, 1600, ((0, 5),)),
    )
    slow = tuple(
        Span(f"layers.{layer}.key", "state", 256 * order, 256, heat=512) for order, layer in enumerate((1, 2, 5))
    )
    blocks = (
        Block("memory_dtcm", "dtcm", 64, 256, 16, 336, 16, True, fast),
        Block("memory_axi", "axi", 0, 768, 0, 768, 0, True, slow),
    )
    return msgspec.structs.replace(sample_package(), memory=Memory(blocks, 1104))


def test_the_hottest_byte_comes_first() -> None:
    fast, slow = heat_regions(warm_package())
    assert [(row.name, row.kind, row.bytes, row.moved, row.per_byte, row.level) for row in fast.rows] == [
        ("x", "arena", 16, 1600, 100.0, 100),
        ("layers.0.key", "state", 256, 512, 2.0, 15),
        ("context", "context", 64, 64, 1.0, 0),
    ]
    assert (fast.region, fast.bytes, fast.moved, fast.cost) == ("dtcm", 336, 2176, 1)
    assert (slow.region, slow.bytes, slow.moved, slow.cost) == ("axi", 768, 1536, 2)
    assert fast.share + slow.share == 100


def test_alike_states_of_layers_are_one_row() -> None:
    (row,) = heat_regions(warm_package())[1].rows
    assert (row.name, row.count, row.bytes, row.moved) == ("layers.1–2, 5.key", 3, 768, 1536)


def test_rows_beyond_the_hottest_are_folded_and_none_is_lost() -> None:
    package = warm_package()
    spans = tuple(Span(f"b{'x' * order}", "arena", 0, 16, 0, 0, order, ((0, 0),)) for order in range(1, 31))
    block = msgspec.structs.replace(package.memory.blocks[0], spans=spans)
    (region,) = heat_regions(msgspec.structs.replace(package, memory=Memory((block,), 1104)))
    assert len(region.rows) == 8 and len(region.more) == 22
    rows = [*region.rows, *region.more]
    assert [row.moved for row in rows] == list(range(30, 0, -1))
    assert region.moved == sum(row.moved for row in rows)


def test_the_page_says_why() -> None:
    text = Elements(render_page(sample_report(), warm_package())).text
    assert "dtcm 336 bytes, 2,176 moved (58.6 %), cost × 1" in text
    assert "axi 768 bytes, 1,536 moved (41.4 %), cost × 2" in text
    assert "layers.1–2, 5.key (3)state7681,5362.0" in text


def test_a_package_that_does_not_know_its_heat_has_no_table() -> None:
    assert heat_regions(sample_package()) == ()
    assert 'id="warmth"' not in render_page(sample_report(), sample_package())
