"""docs/fit.md: what its script writes is whole, and says what it must."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from colibri.fit.space import CODINGS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/fit.md").read_text(encoding="utf-8")


def test_the_marks_of_the_script() -> None:
    script = (ROOT / "ci/fit").read_text(encoding="utf-8")
    marks = re.findall(r'"(<!-- .*? -->)"', script)
    assert len(marks) == 2 and all(PAGE.count(mark) == 1 for mark in marks)


@pytest.mark.parametrize("board", ["stm32f405", "nucleo-h743zi"])
def test_each_board_has_loss_bytes_what_was_dropped_and_bits(board: str) -> None:
    section = PAGE.split(f"## On {board}\n")[1].split("\n## ")[0]
    assert re.search(r": [+-]0\.[0-9]{4} ± 0\.[0-9]{4} nats a token lost;", section)
    assert "for the final figures, that the search never saw" in section
    assert re.search(r"^dropped: ", section, re.MULTILINE)
    assert re.search(r"^flash .* reserved, [0-9,]+ free$", section, re.MULTILINE)
    (cases,) = set(re.findall(r"equal: ([0-9]+) cases, [0-9,]+ outputs, digest [0-9a-f]{16}", section))
    assert int(cases) > 0 and f"colibri test build/fit-{board}" in section


def test_a_search_was_held_to_all_of_a_small_space() -> None:
    section = PAGE.split("## Against all of a small space\n")[1]
    recipes, fitting = map(int, re.findall(r"leaves ([0-9]+) recipes, of which ([0-9]+) have room", section)[0])
    budget, measured = map(int, re.findall(r"`--budget ([0-9]+)` the search measured ([0-9]+) times", section)[0])
    assert recipes == 64 and measured <= budget < fitting and "and found the best one" in section


def test_the_codings_are_those_of_the_search() -> None:
    named = re.findall("`(w[0-9][^`]*)`", PAGE.split("- **Codings**")[1].split("([schemes]")[0])
    assert tuple(named) == CODINGS
