"""Comparisons: every byte of both reports is in one row of each level, whatever the reports are."""

from __future__ import annotations

import csv
import io
import json

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from colibri.boards.profile import MemoryKind
from colibri.footprint.attribute import GroupKind
from colibri.footprint.csv_form import diff_csv
from colibri.footprint.diff import Change, Diff, GroupDiff, PartDiff, RegionDiff, by_weight, compare, leaves
from colibri.footprint.diff_table import print_diff
from colibri.footprint.groups import Group, Part
from colibri.footprint.markdown import diff_markdown
from colibri.footprint.report import SCHEMA, RegionUse, Report

NAMES = st.sampled_from(["model", "layer 0", "layer 1", "expert 0", "expert 2", "f", "g", "router"])


def part(name: str, size: int, *parts: Part) -> Part:
    return Part(name, sum(one.bytes for one in parts) if parts else size, parts)


def region(name: str, **groups: tuple[Part, ...]) -> RegionUse:
    made = tuple(Group(GroupKind(kind), sum(p.bytes for p in parts), None, parts) for kind, parts in groups.items())
    used = sum(group.bytes for group in made)
    return RegionUse(name, MemoryKind.FLASH, 0, 1000, 1000, 0, used, used, max(0, used - 1000), made)


def report(*regions: RegionUse, board: str = "board") -> Report:
    return Report(SCHEMA, "demo", board, "A board", "w8a8", "build/product.elf", True, regions)


PARTS = st.recursive(
    st.builds(part, NAMES, st.integers(0, 999)),
    lambda inner: st.builds(lambda name, parts: part(name, 0, *parts), NAMES, st.lists(inner, max_size=4)),
    max_leaves=8,
)
GROUPS = st.dictionaries(st.sampled_from(["code", "weights", "arena"]), st.lists(PARTS, max_size=3).map(tuple))
REPORTS = st.dictionaries(st.sampled_from(["flash", "ram", "ccm"]), GROUPS).map(
    lambda regions: report(*(region(name, **groups) for name, groups in regions.items()))
)


def check_row(row: RegionDiff | GroupDiff | PartDiff, below: tuple[GroupDiff, ...] | tuple[PartDiff, ...]) -> None:
    assert row.delta == row.new - row.old
    expected = {
        Change.SAME: row.old == row.new,
        Change.CAME: row.old == 0 < row.new,
        Change.WENT: row.new == 0 < row.old,
        Change.GREW: 0 < row.old < row.new,
        Change.SHRANK: 0 < row.new < row.old,
    }
    assert [change for change, true in expected.items() if true] == [row.change]
    if below or isinstance(row, RegionDiff):
        assert (sum(one.old for one in below), sum(one.new for one in below)) == (row.old, row.new)
    weights = [abs(one.delta) for one in below]
    assert weights == sorted(weights, reverse=True)
    for one in below:
        check_row(one, one.parts)


@given(REPORTS, REPORTS)
def test_sums_are_exact_at_each_level(old: Report, new: Report) -> None:
    diff = compare(old, new)
    for side, reported in (("old", old), ("new", new)):
        used = {one.name: one.used for one in reported.regions}
        assert {one.name: getattr(one, side) for one in diff.regions if one.name in used} == used
        assert all(getattr(one, side) == 0 for one in diff.regions if one.name not in used)
    for one in diff.regions:
        check_row(one, one.groups)
        for fold in (False, True):
            rows = list(leaves(one, fold=fold))
            assert (sum(row.old for row in rows), sum(row.new for row in rows)) == (one.old, one.new)
            assert sum(row.delta for row in rows) == one.delta
            assert all(row.old or row.new for row in rows)
    assert msgspec.json.decode(diff.to_json(), type=Diff) == diff


@given(REPORTS)
def test_a_report_is_the_same_as_itself(one: Report) -> None:
    diff = compare(one, one)
    assert {row.change for region in diff.regions for row in leaves(region)} <= {Change.SAME}
    assert all(region.delta == 0 for region in diff.regions)


@given(REPORTS, REPORTS)
def test_csv_has_the_same_sums(old: Report, new: Report) -> None:
    diff = compare(old, new)
    rows = list(csv.DictReader(io.StringIO(diff_csv(diff))))
    for one in diff.regions:
        mine = [row for row in rows if row["region"] == one.name]
        for column in ("old", "new", "delta"):
            assert sum(int(row[column]) for row in mine) == getattr(one, column)
        weights = [abs(int(row["delta"])) for row in mine]
        assert weights == sorted(weights, reverse=True)


OLD = report(
    region(
        "flash",
        code=(part("model", 0, part("f", 100), part("gone", 30)),),
        weights=(part("layer 0", 0, *(part(f"expert {i}", 0, part(f"e{i}.up", 50)) for i in range(3))),),
    ),
    region("ram", arena=(part("buffers", 64),)),
)
NEW = report(
    region(
        "flash",
        code=(part("model", 0, part("f", 140), part("h", 7)),),
        weights=(part("layer 0", 0, *(part(f"expert {i}", 0, part(f"e{i}.up", 50)) for i in (0, 2))),),
    ),
    region("ram", arena=(part("buffers", 64),)),
)


def test_what_came_went_grew_and_stayed() -> None:
    flash, ram = compare(OLD, NEW).regions
    rows = [(*row.path, row.delta, row.change.value) for row in by_weight(leaves(flash, fold=True)) if row.delta]
    assert rows == [
        ("layer 0", "expert 1", -50, "went"),
        ("model", "f", 40, "grew"),
        ("model", "gone", -30, "went"),
        ("model", "h", 7, "came"),
    ]
    assert (flash.delta, ram.delta, ram.change) == (-33, 0, Change.SAME)


def printed(*, full: bool = False) -> list[str]:
    console = Console(file=io.StringIO(), width=100, highlight=False)
    print_diff(compare(OLD, NEW), console, full=full)
    return [" ".join(line.split()) for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]


def test_table() -> None:
    lines = printed()
    assert "flash 280 → 247 bytes -33" in lines
    assert "weights / layer 0 / expert 1 50 0 -50 went" in lines
    assert "2 the same 100 100 0" in lines and "total 280 247 -33" in lines
    assert "weights / layer 0 / expert 2 / e2.up 50 50 0 same" in printed(full=True)


def test_many_rows_are_summed_below_the_heaviest() -> None:
    many = tuple(part(f"f{i}", i) for i in range(1, 41))
    console = Console(file=io.StringIO(), width=100, highlight=False)
    print_diff(compare(report(), report(region("flash", code=(part("model", 0, *many),)))), console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    # What came as a whole is one row.
    assert "code / model" in text and "f40" not in text
    grown = report(region("flash", code=(part("model", 0, *(part(f"f{i}", 2 * i) for i in range(1, 41))),)))
    before = report(region("flash", code=(part("model", 0, *many),)))
    console = Console(file=io.StringIO(), width=100, highlight=False)
    print_diff(compare(before, grown), console)
    lines = [" ".join(line.split()) for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]
    assert "code / model / f40 40 80 +40 grew" in lines and "15 smaller changes 120 240 +120" in lines
    assert "total 820 1,640 +820" in lines


def test_markdown() -> None:
    lines = diff_markdown(compare(OLD, NEW)).splitlines()
    assert lines[0] == "### Footprint of demo · w8a8 · board: flash -33"
    assert "| flash | 280 | 247 | -33 | 24.7 % |" in lines and "| ram | 64 | 64 | 0 | 6.4 % |" in lines
    assert "<details><summary>flash: 4 rows changed</summary>" in lines
    assert "| weights / layer 0 / expert 1 | 50 | 0 | -50 | went |" in lines
    assert not any("<summary>ram" in line for line in lines)


def test_json_says_each_row_of_both() -> None:
    facts = json.loads(compare(OLD, NEW).to_json())
    assert facts["schema"] == 1 and facts["regions"][0]["delta"] == -33
    code = next(group for group in facts["regions"][0]["groups"] if group["kind"] == "code")
    assert [row["name"] for row in code["parts"][0]["parts"]] == ["f", "gone", "h"]


def test_a_program_on_its_own_is_compared_by_what_it_knows() -> None:
    layer = part("layer 0", 0, part("router", 5), part("expert 0", 0, part("e0.up", 50)))
    weights = (part("header and table", 9), part("embedding", 70), layer)
    package = report(region("flash", weights=weights, context=(part("context", 4),), states=(part("k", 12),)))
    inner = (part("header and table", 9), part("outside the layers", 75), part("layer 0", 0, part("expert 0", 50)))
    alone = report(region("flash", weights=inner, arena=(part("memory block", 16),)), board="")
    for diff in (compare(package, alone), compare(alone, package)):
        assert {row.change for row in leaves(diff.regions[0])} == {Change.SAME}
        assert any(row.path == ("layer 0", "expert 0") for row in leaves(diff.regions[0]))
