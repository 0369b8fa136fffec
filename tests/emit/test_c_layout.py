"""Long lines of generated C are broken behind commas, and say the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colibri.emit.c_layout import WIDTH, lay_out, wrap

WORDS = st.lists(st.text(alphabet="abcxyz_0123456789*", min_size=1, max_size=30), min_size=1, max_size=14)


@pytest.mark.parametrize("line", ["", "f(a, b);", "x" * 200, "#define " + "x, " * 60, " * " + "long, " * 30])
def test_short_lines_comments_and_macros_stay(line: str) -> None:
    assert wrap(line) == [line]


def test_an_argument_that_is_pointed_at_is_no_comment() -> None:
    line = "f(" + "first, " * 18 + "*second, " + "third, " * 18 + "last);"
    assert max(map(len, wrap(line))) <= WIDTH
    assert any(
        piece.lstrip().startswith("*second") for piece in wrap("f(" + "x" * 110 + ", *second" + ", third" * 20 + ");")
    )


@given(
    names=WORDS, name=st.sampled_from(["f", "colibri_kernel_of_this_name", "static void g"]), indent=st.integers(0, 12)
)
def test_nothing_is_lost_and_each_line_fits(names: list[str], name: str, indent: int) -> None:
    line = " " * indent + f"{name}({', '.join(names)});"
    lines = wrap(line)
    assert " ".join(piece.strip() for piece in lines) == line.strip()
    assert all(len(piece) <= WIDTH for piece in lines)
    assert all(piece.startswith(" " * (indent + len(name) + 1)) for piece in lines[1:])


def test_as_many_lines_as_it_takes() -> None:
    lines = wrap(f"    call({', '.join(['g(one, two)'] * 40)});")
    assert len(lines) == 5 and all(len(piece) <= WIDTH for piece in lines)
    assert all(piece.startswith(" " * 9 + "g(one, two)") for piece in lines[1:])
    assert all(piece.endswith("),") for piece in lines[:-1])


def test_comments_of_neighbouring_lines_stand_in_a_column() -> None:
    text = "    int a;       /* one */\n    uint32_t long_name; /* two */\n\n    int c; /* apart */\n"
    assert lay_out(text) == (
        "    int a;              /* one */\n    uint32_t long_name; /* two */\n\n    int c; /* apart */\n"
    )


def test_laying_out_twice_changes_nothing() -> None:
    line = f"    call({', '.join(f'argument_{i}' for i in range(20))}); /* why */"
    once = lay_out(f"{line}\n    int x; /* y */\n")
    assert lay_out(once) == once
