"""The stack in CSV, in Markdown and in comparisons: bound, deepest path, reserve, and what a run has shown."""

from __future__ import annotations

import csv
import io
import json

import msgspec
import pytest
from rich.console import Console

from colibri.boards.profile import MemoryKind
from colibri.footprint.attribute import GroupKind
from colibri.footprint.csv_form import diff_csv, report_csv
from colibri.footprint.diff import compare
from colibri.footprint.diff_table import print_diff
from colibri.footprint.groups import Group, Part
from colibri.footprint.markdown import diff_markdown, report_markdown
from colibri.footprint.report import SCHEMA, RegionUse, Report
from colibri.footprint.stack import (
    Observed,
    ObservedBlock,
    ObservedEntry,
    ObservedPages,
    StackBound,
    StackFrame,
    StackUse,
)

PATH = (StackFrame("port_start", 8), StackFrame("main", 64), StackFrame("demo_step", 128))
STEP = StackBound("demo_step", 128, "", PATH[2:])
STACK = StackUse(StackBound("port_start", 200, "", PATH), 108, 256, 576, 1024, (STEP,))
DEEPER = StackUse(
    StackBound("port_start", 240, "", (*PATH[:2], StackFrame("demo_step", 168))),
    108,
    256,
    640,
    1024,
    (msgspec.structs.replace(STEP, bytes=168), StackBound("demo_reset", 16)),
)
UNKNOWN = StackUse(StackBound("main", None, "f | g calls through a pointer", PATH[1:]), 0, 0, None, 0, ())
RUN = Observed(
    "qemu",
    ObservedEntry("port_start", 200, 150),
    (ObservedEntry("demo_step", 128, None),),
    (ObservedBlock("ram", 9000, 2, 3),),
    ObservedPages(5, 7),
)


def made(stack: StackUse | None = STACK, *, observed: bool = False) -> Report:
    reserve = Group(GroupKind.STACK, 1024, 1024, (Part("stack", 1024),), 150 if observed else None)
    code = Group(GroupKind.CODE, 40, 44, (Part("a", 30), Part("b", 10)))
    ram = RegionUse("ram", MemoryKind.RAM, 0, 4096, 4096, 0, 1064, 1064, 0, (code, reserve))
    runs = (RUN,) if observed else ()
    return Report(SCHEMA, "demo", "board", "A board", "w8a8", "p.elf", True, (ram,), stack=stack, observed=runs)


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_bounds_in_csv_sum_to_what_the_program_needs() -> None:
    rows = rows_of(report_csv(made()))
    bounds = {row["path"]: int(row["bound"]) for row in rows if row["bound"]}
    assert bounds == {
        "deepest path / port_start": 8,
        "deepest path / main": 64,
        "deepest path / demo_step": 128,
        "exception frame": 108,
        "margin": 256,
        "rounding": 12,
    }
    assert sum(bounds.values()) == STACK.needed
    assert {row["region"] for row in rows if row["bound"]} == {"ram"}
    assert sum(int(row["linked"]) for row in rows) == 1064
    assert sum(int(row["predicted"] or 0) for row in rows) == 1024 + 44


def test_observed_in_csv_stands_once_for_its_group() -> None:
    rows = rows_of(report_csv(made(observed=True)))
    assert [(row["group"], row["path"], row["linked"], row["predicted"]) for row in rows if row["observed"]] == [
        ("stack", "", "0", "")
    ]
    assert sum(int(row["linked"]) for row in rows) == 1064
    assert not any(row["observed"] for row in rows_of(report_csv(made())))


def test_csv_says_why_there_is_no_bound() -> None:
    rows = rows_of(report_csv(made(UNKNOWN)))
    assert [row["path"] for row in rows if row["path"].startswith("not bounded")] == [
        "not bounded / f | g calls through a pointer"
    ]
    assert not any(row["bound"] for row in rows)


def test_markdown_has_bound_and_path() -> None:
    lines = report_markdown(made()).splitlines()
    assert "**Stack**: 200 at most + 108 exception frame + 256 margin = 576 of 1,024 reserved" in lines
    assert "| demo\\_step | 128 | 200 |" in lines
    assert not any("public function" in line or "observed" in line for line in lines)
    assert "| demo\\_step | 128 |" in report_markdown(made(), full=True).splitlines()


def test_markdown_has_a_column_of_what_was_observed() -> None:
    lines = report_markdown(made(observed=True)).splitlines()
    assert "| **stack reserve** | 1,024 | 1,024 | 150 |" in lines
    assert "| **code** | 40 | 44 | – |" in lines
    assert "<details><summary>Stack observed in qemu: 150</summary>" in lines
    assert "| port\\_start (test program) | 200 | 150 |" in lines
    assert "| demo\\_step | 128 | – |" in lines
    assert "Pages of 4,096 bytes touched: weights 5 of 7, memory in ram 2 of 3." in lines
    cells = None
    for line in lines:  # every row of a table has as many cells as its head
        if line.startswith("|"):
            cells = cells or line.count("|")
            assert line.count("|") == cells, line
        else:
            cells = None


def test_markdown_says_why_there_is_no_bound() -> None:
    text = report_markdown(made(UNKNOWN))
    assert r"**Stack**: not bounded, f \| g calls through a pointer" in text
    assert "The path to what is not known" in text


def test_a_comparison_has_both_stacks() -> None:
    diff = compare(made(), made(DEEPER))
    assert diff.stack is not None
    assert [(one.name, one.old, one.new, one.delta) for one in diff.stack.figures()] == [
        ("bound", 200, 240, 40),
        ("needed", 576, 640, 64),
        ("reserve", 1024, 1024, 0),
        ("demo_reset", None, 16, None),
        ("demo_step", 128, 168, 40),
    ]
    stack = json.loads(diff.to_json())["stack"]
    assert (stack["bound"]["old"], stack["bound"]["new"], stack["new_path"][2]["bytes"]) == (200, 240, 168)


@pytest.mark.parametrize("sides", [(None, STACK), (STACK, None), (None, None)])
def test_without_a_stack_on_a_side_nothing_is_compared(sides: tuple[StackUse | None, StackUse | None]) -> None:
    diff = compare(made(sides[0]), made(sides[1]))
    assert diff.stack is None
    assert "stack bound" not in diff_csv(diff)
    assert "| stack |" not in diff_markdown(diff)


def test_comparisons_in_each_form() -> None:
    diff = compare(made(), made(DEEPER))
    rows = [row for row in rows_of(diff_csv(diff)) if row["group"] == "stack bound"]
    assert [(row["region"], row["path"], row["old"], row["new"], row["delta"]) for row in rows] == [
        ("", "bound", "200", "240", "40"),
        ("", "needed", "576", "640", "64"),
        ("", "reserve", "1024", "1024", "0"),
        ("", "demo_reset", "", "16", ""),
        ("", "demo_step", "128", "168", "40"),
    ]
    lines = diff_markdown(diff).splitlines()
    assert "| bound | 200 | 240 | +40 |" in lines and "| demo\\_reset | – | 16 | – |" in lines
    assert not any(line.startswith("| reserve |") for line in lines)
    assert "| reserve | 1,024 | 1,024 | 0 |" in diff_markdown(diff, full=True).splitlines()
    assert any("demo\\_step 128; new:" in line and line.endswith("demo\\_step 168") for line in lines)
    shown = printed(diff)
    assert "stack  200 → 240 bytes at most  +40" in shown
    assert "  needed  576 → 640 bytes  +64" in shown and "reserve" not in shown
    assert "deepest: port_start 8 → main 64 → demo_step 168" in shown


def test_equal_stacks_are_one_line() -> None:
    diff = compare(made(), made())
    assert printed(diff).splitlines()[-1] == "stack  200 → 200 bytes at most"
    assert "Deepest path" not in diff_markdown(diff)


def test_a_bound_that_went() -> None:
    diff = compare(made(), made(UNKNOWN))
    assert "stack  200 → – bytes at most" in printed(diff)
    assert "| bound | 200 | – | – |" in diff_markdown(diff).splitlines()


def printed(diff: object) -> str:
    file = io.StringIO()
    print_diff(diff, Console(file=file, width=100))  # type: ignore[arg-type]
    return file.getvalue()
