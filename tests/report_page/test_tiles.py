"""Rows become a tree that sums to what the report says."""

from __future__ import annotations

from sample_page import EXPERT, sample_report

from colibri.footprint.attribute import GroupKind
from colibri.footprint.bars import make_bar
from colibri.footprint.tiles import Role, Tile, region_tile, thin


def sums(tile: Tile) -> bool:
    return not tile.parts or (tile.bytes == sum(part.bytes for part in tile.parts) and all(map(sums, tile.parts)))


def count(tile: Tile) -> int:
    return 1 + sum(map(count, tile.parts))


def test_every_group_has_a_role() -> None:
    assert {kind.value for kind in GroupKind} - {"weights"} <= {role.value for role in Role}


def test_roles_of_weights_sum_to_the_region() -> None:
    region = sample_report(layers=2, experts=4).regions[0]
    roles = region_tile(region).by_role()
    assert sum(roles.values()) == region.used
    assert roles[Role.EXPERTS] == 2 * 4 * EXPERT
    assert roles[Role.ATTENTION] == 2 * 3600
    assert roles[Role.ROUTER] == 2 * 256
    assert roles[Role.ENDS] == 2000
    assert roles[Role.CODE] == 2190
    assert list(roles) == [role for role in Role if role in roles]


def test_what_was_predicted_stays_with_its_group() -> None:
    states, arena = region_tile(sample_report().regions[1]).parts
    assert (states.name, states.bytes, states.predicted) == ("states", 256, 250)
    assert (arena.name, arena.bytes, arena.predicted, arena.parts) == ("arena", 96, 96, ())


def test_short_names_of_matrices() -> None:
    assert Tile("layers.1.experts.0.gate", 1, Role.EXPERTS).short == "gate"
    assert Tile("rms_norm.part.0", 1, Role.CODE).short == "rms_norm.part.0"


def test_thinning_keeps_sums_and_the_largest() -> None:
    whole = [region_tile(region) for region in sample_report(layers=3, experts=8).regions if region.groups]
    few = thin(whole, most=40)
    assert [tile.bytes for tile in few] == [tile.bytes for tile in whole]
    assert all(map(sums, few))
    # At most one more for each row that has others below it.
    assert sum(map(count, few)) <= 2 * 40
    assert [part.name for part in few[0].parts] == [part.name for part in whole[0].parts]
    weights = few[0].parts[1]
    assert [part.name for part in weights.parts] == ["embedding", "layer 0", "layer 1", "layer 2"]
    assert any("smaller rows" in part.name for layer in weights.parts for part in layer.parts)


def test_few_rows_stay_as_they_are() -> None:
    whole = [region_tile(sample_report().regions[0])]
    assert thin(whole) is whole


def test_a_bar_that_fits_ends_at_its_limit() -> None:
    region = sample_report(flash=100_000).regions[0]
    bar = make_bar(region, region_tile(region))
    assert bar.level == "fits" and bar.beyond is None
    assert [line.at for line in bar.lines] == [100]
    assert abs(sum(one.width for one in bar.slices) - 100 * region.used / 100_000) < 0.01
    assert bar.slices[0].left == 0


def test_a_bar_over_its_limit_shows_where() -> None:
    region = sample_report(flash=20_000).regions[0]
    bar = make_bar(region, region_tile(region))
    assert bar.level == "over"
    assert bar.beyond is not None and abs(bar.beyond - 100 * 20_000 / region.used) < 0.01
    assert [(line.label, line.bytes) for line in bar.lines] == [("limit", 20_000)]
