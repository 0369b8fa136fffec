"""The printed forms of a report."""

from __future__ import annotations

import io
import json

import msgspec
import pytest
from click.testing import CliRunner
from rich.console import Console
from small_firmware import FLASH, RAM, Firmware

from colibri.boards.profile import MemoryKind
from colibri.cli.report import command
from colibri.errors import DoesNotFit
from colibri.footprint.attribute import GroupKind
from colibri.footprint.groups import Group, Part
from colibri.footprint.report import SCHEMA, Modelled, RegionUse, Report
from colibri.footprint.table import print_report

EXPERTS = tuple(Part(f"expert {index}", 100, (Part(f"e{index}.up", 100),)) for index in (0, 1, 2, 5))
LAYER = Part("layer 0", 410, (Part("router", 10, (Part("router", 10),)), *EXPERTS))
GROUPS = (
    Group(GroupKind.CODE, 190, None, (Part("model", 190, (Part("forward", 190),)),)),
    Group(GroupKind.WEIGHTS, 410, 410, (LAYER,)),
)
REGION = RegionUse("flash", MemoryKind.FLASH, 0, 1000, 800, 0, 600, 600, 0, GROUPS)
REPORT = Report(SCHEMA, "demo", "board", "A board", "w8a8", "build/product.elf", True, (REGION,))


def text(report: Report, *, full: bool = False) -> list[str]:
    console = Console(file=io.StringIO(), width=80, highlight=False)
    print_report(report, console, full=full)
    return [" ".join(line.split()) for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]


def of_flash(report: Report) -> list[str]:
    """The lines that say how full the region is: its bar, then what it is over."""
    return [line for line in text(report) if line.startswith("flash")]


def with_region(**changes: object) -> Report:
    return msgspec.structs.replace(REPORT, regions=(msgspec.structs.replace(REGION, **changes),))


def test_experts_share_a_row() -> None:
    lines = text(REPORT)
    assert "code 190 – 31.7 %" in lines
    assert "weights 410 410 68.3 %" in lines
    assert "experts 0-2, 5 (4 × 100) 400" in lines
    assert not [line for line in lines if "e0.up" in line or "forward" in line]


def test_where_predictions_of_code_come_from() -> None:
    within = {GroupKind.CODE: 1250, GroupKind.TABLES: 30, GroupKind.DATA: 0}
    own = " ".join(text(msgspec.structs.replace(REPORT, modelled=Modelled("board", "gcc 12.2.0", within))))
    assert "predicted code, tables, data: modelled for gcc 12.2.0, measured on board, within 1,250, 30, 0 bytes" in own
    other = " ".join(text(msgspec.structs.replace(REPORT, modelled=Modelled("cousin", "gcc 12.2.0", {}))))
    assert "modelled for gcc 12.2.0, measured on cousin, the most similar board sizes:" in other
    assert "modelled" not in " ".join(text(REPORT))


def test_code_for_size_is_named_where_it_would_do() -> None:
    over = msgspec.structs.replace(with_region(over=40), size_saves=50)
    with pytest.raises(DoesNotFit) as error:
        over.require_fit()
    assert error.value.hint.startswith("--optimise size, which saves about 50 bytes of code; or fewer experts")
    with pytest.raises(DoesNotFit) as error:
        msgspec.structs.replace(over, size_saves=30).require_fit()
    assert "--optimise" not in error.value.hint


def test_what_code_is_made_for_stands_in_the_first_line() -> None:
    assert text(msgspec.structs.replace(REPORT, optimise="speed"))[0] == "demo w8a8 board A board"
    assert text(msgspec.structs.replace(REPORT, optimise="size"))[0] == "demo w8a8 for size board A board"
    predicted = Modelled("board", "gcc 12.2.0", {}, for_speed=True)
    said = " ".join(text(msgspec.structs.replace(REPORT, modelled=predicted)))
    assert "measured on board; as for speed, so code for size takes less" in said


def test_experts_of_different_sizes() -> None:
    layer = Part(
        "layer 0", 303, tuple(Part(f"expert {index}", 100 + index, (Part("up", 100 + index),)) for index in range(3))
    )
    lines = text(with_region(groups=(Group(GroupKind.WEIGHTS, 303, 303, (layer,)),), used=303))
    assert "experts 0-2 (3 × 100 to 102) 303" in lines


def test_full_names_each_expert_and_function() -> None:
    lines = text(REPORT, full=True)
    assert {"expert 0 100", "expert 5 100", "forward 190"} <= set(lines)


def test_lines_fit_a_terminal() -> None:
    console = Console(file=io.StringIO(), width=80, highlight=False)
    print_report(REPORT, console, full=True)
    assert max(map(len, console.file.getvalue().splitlines())) <= 80  # type: ignore[attr-defined]


def test_a_region_has_one_bar() -> None:
    assert of_flash(REPORT) == ["flash " + "█" * 21 + "░" * 7 + " 600 of 800 bytes 75.0 %"]


def test_over_its_budget_or_over_the_memory() -> None:
    over = of_flash(with_region(limit=500, over=100))
    assert over[0] == "flash " + "█" * 23 + "▓" * 5 + " 600 of 500 bytes 120.0 %"
    assert over[1] == "flash: 100 bytes over its budget (the memory has 1,000)"
    assert of_flash(with_region(limit=500, length=500, over=100))[1] == "flash: 100 bytes more than there are"
    by_one = of_flash(with_region(limit=599, length=599, over=1))
    assert by_one[1] == "flash: 1 byte more than there are"


def test_reserve_is_part_of_the_bar() -> None:
    line = of_flash(with_region(reserve=100))[0]
    assert line == "flash " + "█" * 21 + "▒" * 3 + "░" * 4 + " 600 of 800 bytes 87.5 % (100 reserved)"


def test_no_limit_no_bar() -> None:
    assert of_flash(with_region(limit=0, length=0)) == ["flash 600 bytes, no limit"]


def test_command_prints_a_table_or_json(firmware: Firmware) -> None:
    folder = str(firmware.link())
    table = CliRunner().invoke(command, [folder])
    assert table.exit_code == 0
    assert "experts 0, 2 (2 × 200)" in table.output
    assert "equal to what the linker printed" in table.output
    document = json.loads(CliRunner().invoke(command, [folder, "--json"]).output)
    assert document["schema"] == 1
    assert [region["name"] for region in document["regions"]] == ["flash", "ram"]


def test_command_reports_what_does_not_fit(firmware: Firmware) -> None:
    firmware.regions = (msgspec.structs.replace(FLASH, length=1024), RAM)
    folder = str(firmware.link(oversize=True))
    for options in ([], ["--json"]):
        result = CliRunner().invoke(command, [folder, *options])
        assert isinstance(result.exception, DoesNotFit)
        assert result.exception.exit_code == 3
    flash = json.loads(result.output)["regions"][0]
    assert flash["over"] == flash["used"] - 1024 > 0
    assert f"flash by {flash['over']:,} bytes" in str(result.exception)
