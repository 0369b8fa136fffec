"""docs/prune.md: its table is the rule of thumb of `colibri explain`, and the script writes between its marks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from colibri.explain.measured import DROPPED

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/prune.md").read_text(encoding="utf-8")


def test_the_rule_of_thumb_is_that_of_the_page() -> None:
    rows = dict(re.findall(r"^\| w8a8, (\w+) \|.* \| (0\.[0-9]{4}) \| [0-9.]+ \| [0-9.]+ \|$", PAGE, re.MULTILINE))
    none = float(rows.pop("none"))
    found = {int(count) / 32: float(divergence) - none for count, divergence in rows.items()}
    assert found == pytest.approx(dict(DROPPED), abs=1e-9)


def test_the_marks_of_the_script() -> None:
    script = (ROOT / "ci/prune").read_text(encoding="utf-8")
    for mark in re.findall(r'"(<!-- .*? -->)"', script):
        assert PAGE.count(mark) == 1
    assert "outputs equal, bit for bit, on 20,436 of the 20,436 tokens" in PAGE
