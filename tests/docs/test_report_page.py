"""docs/report.md and docs/report.schema.json say what the program does."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from colibri.cli.report import command
from colibri.errors import BadInput, DoesNotFit
from colibri.footprint.attribute import GroupKind
from colibri.footprint.budget import load_budgets
from colibri.footprint.code_size import load_table
from colibri.footprint.diff import Change
from colibri.footprint.schema import schema_json

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "report.md").read_text(encoding="utf-8")


def test_the_schema_is_current() -> None:
    assert (DOCS / "report.schema.json").read_text(encoding="utf-8") == schema_json(), "run ci/schema"


def test_every_reference_of_the_schema_leads_somewhere() -> None:
    schema = json.loads(schema_json())

    def references(value: Any) -> list[str]:
        if isinstance(value, list):
            return [name for one in value for name in references(one)]
        if isinstance(value, dict):
            own = [value["$ref"]] if "$ref" in value else []
            return own + [name for one in value.values() for name in references(one)]
        return []

    found = references(schema)
    assert {"#/$defs/Report", "#/$defs/Diff", "#/$defs/Part", "#/$defs/PartDiff"} <= set(found)
    assert all(name.removeprefix("#/$defs/") in schema["$defs"] for name in found)


def test_the_page_names_every_option_group_and_change() -> None:
    options = [name for parameter in command.params for name in parameter.opts if name.startswith("--")]
    assert len(options) > 6
    assert [name for name in options if f"`{name}" not in PAGE] == []
    assert [kind.value for kind in GroupKind if f"| {kind.value} |" not in PAGE] == []
    assert [change.value for change in Change if change.value not in PAGE] == []
    assert [code for code in (DoesNotFit.exit_code, BadInput.exit_code) if f"| {code} |" not in PAGE] == []


def test_the_budget_file_of_the_page_is_one(tmp_path: Path) -> None:
    examples = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert examples
    for example in examples:
        (tmp_path / "budget.toml").write_text(example)
        assert load_budgets(tmp_path / "budget.toml")


def test_commands_of_the_page_parse() -> None:
    lines = re.findall(r"^    colibri report (.*)$", PAGE, re.MULTILINE)
    assert len(lines) >= 8
    for line in lines:
        command.make_context("report", line.split("#")[0].split())


def test_the_bounds_of_the_page_are_those_of_the_table() -> None:
    rows = re.findall(r"^\| ([\w-]+) \| ([^|]+) \|.*\| ([\d,/ ]+) \|$", PAGE, re.MULTILINE)
    assert [board for board, _, _ in rows] == sorted(load_table())
    for board, measured_with, bounds in rows:
        measured = load_table()[board]
        assert measured_with == measured.compiler + (f"; like {measured.like}" if measured.like else "")
        assert bounds == " / ".join(f"{within.code:,}" for within in measured.within.values())
