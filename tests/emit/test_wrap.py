"""Long lines of C are broken at commas, and say the same."""

from __future__ import annotations

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colibri.emit import wrap
from colibri.emit.wrap import LIMIT, wrap_c, wrap_comment

WORDS = st.lists(st.text(alphabet="abcxyz_0123456789*", min_size=1, max_size=30), min_size=1, max_size=14)


def test_the_example_in_the_docstring() -> None:
    assert doctest.testmod(wrap).failed == 0


def test_short_lines_stay() -> None:
    assert wrap_c("f(a, b);") == ["f(a, b);"] and wrap_c("x" * 200) == ["x" * 200]
    assert wrap_comment("short") == ["/* short */"]


def test_inner_calls_are_not_torn() -> None:
    inner = "g(" + ", ".join(["inside"] * 6) + ")"
    lines = wrap_c(f"outer({inner}, {inner}, {inner});")
    assert lines == [f"outer({inner}, {inner},", f"      {inner});"]


@pytest.mark.parametrize("indent", [0, 4, 8])
@given(names=WORDS, name=st.sampled_from(["f", "colibri_kernel_of_this_name"]))
def test_no_character_is_lost_and_each_line_fits(indent: int, names: list[str], name: str) -> None:
    line = f"{name}({', '.join(names)});"
    lines = wrap_c(line, indent)
    assert " ".join(piece.strip() for piece in lines) == line
    assert all(indent + len(piece) <= LIMIT for piece in lines)
    assert all(piece.startswith(" " * (len(name) + 1)) for piece in lines[1:])


@given(WORDS)
def test_comments_open_once_and_close_once(words: list[str]) -> None:
    text = " ".join(words).replace("*", "")
    lines = wrap_comment(text)
    assert lines[0].startswith("/* ") and lines[-1].endswith("*/")
    assert all(len(line) <= LIMIT for line in lines) and all(line.startswith(" *") for line in lines[1:])
