"""The checks of the report themselves: each fails when a figure is off by one."""

from __future__ import annotations

import msgspec
import pytest
from board_packages import EXAMPLES, Make
from report_checks import check_entry, check_rows, check_totals
from walls import check_walls

from colibri.footprint.report import RegionUse, Report, make_report
from colibri.footprint.stack import ObservedEntry
from colibri.options import Options
from colibri.toolchain.build import build
from colibri.toolchain.buildfiles import PRODUCT


def more(report: Report, name: str) -> Report:
    """The report with a byte more in a region, and in the first of its groups and rows."""

    def grown(region: RegionUse) -> RegionUse:
        first, *rest = region.groups
        row, *others = first.parts
        row = msgspec.structs.replace(row, bytes=row.bytes + 1, parts=())
        first = msgspec.structs.replace(first, bytes=first.bytes + 1, parts=(row, *others))
        return msgspec.structs.replace(region, used=region.used + 1, groups=(first, *rest))

    regions = tuple(grown(region) if region.name == name else region for region in report.regions)
    return msgspec.structs.replace(report, regions=regions)


def test_a_byte_more_in_a_region_is_noticed(make: Make) -> None:
    folder, package = make(EXAMPLES / "load-moe/top1-e3-tiny", "stm32f405", Options())
    assert build(folder, [PRODUCT])
    report = make_report(folder)
    assert check_rows(report) and check_totals(report, package, folder)
    for region in (one for one in report.regions if one.used):
        wrong = more(report, region.name)
        assert check_rows(wrong)
        with pytest.raises(AssertionError, match="the report says"):
            check_totals(wrong, package, folder)
        with pytest.raises(AssertionError, match=f"the sum of {region.name}"):
            check_rows(msgspec.structs.replace(wrong, regions=(msgspec.structs.replace(region, used=1),)))


@pytest.mark.parametrize(("bound", "observed"), [(100, 101), (100, 69), (16, 11), (None, 8), (8, None)])
def test_a_depth_out_of_bounds_is_noticed(bound: int | None, observed: int | None) -> None:
    for fine in ((100, 100), (100, 70), (16, 12), (0, 0)):
        check_entry(ObservedEntry("f", *fine))
    with pytest.raises(AssertionError, match="f: bound"):
        check_entry(ObservedEntry("f", bound, observed))


def test_memory_without_a_wall_is_noticed(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, _ = make(EXAMPLES / "load-moe/top1-e3-tiny", "x86-64-v3", Options())
    monkeypatch.setattr(Report, "require_fit", lambda self: None)
    with pytest.raises(AssertionError, match="with a byte less of ram: it fits"):
        check_walls(folder)
