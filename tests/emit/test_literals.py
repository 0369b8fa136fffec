"""Nothing of a checkpoint can break out of a name, a literal or a comment."""

from __future__ import annotations

import math
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colibri.emit.literals import checked_prefix, comment_text, float_literal, identifier
from colibri.errors import UsageError

TRIGRAPH = "?" + "?"
KEYWORDS = ["int", "while", "main", "static", "bool", "colibri", "asm", "restrict"]
BUILD_TARGETS = ["all", "test", "product", "install", "clean", "port", "gcc"]


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_literal_is_exactly_the_value(value: float) -> None:
    text = float_literal(value)
    assert text.endswith("f")
    back = float.fromhex(text[:-1])
    assert back == value and math.copysign(1, back) == math.copysign(1, value)


def test_literals_as_the_compiler_reads_them(tmp_path: Path) -> None:
    edges = [0.0, -0.0, 1.0, -1.5, 0.1, 3.4028235e38, 1.17549435e-38, 1e-45, 2e-40, 1e-5, 1e-6, 32.0**-0.5]
    values = np.array([*edges, *np.random.default_rng(1).standard_normal(200)], np.float32)
    rows = ",\n".join(float_literal(float(value)) for value in values)
    source = tmp_path / "values.c"
    source.write_text(f"#include <stdio.h>\nstatic const float v[] = {{\n{rows}\n}};\n"
                      "int main(void) { return fwrite(v, sizeof v, 1, stdout) != 1; }\n")  # fmt: skip
    program = tmp_path / "values"
    subprocess.run(["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", source, "-o", program], check=True)
    assert subprocess.run([program], check=True, capture_output=True).stdout == values.tobytes()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e39])
def test_what_is_no_fp32_number_has_no_literal(value: float) -> None:
    with np.errstate(over="ignore"), pytest.raises(ValueError, match="has no C literal"):
        float_literal(value)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("", "m"),
        ("___", "m"),
        ("2fast", "m_2fast"),
        ("Mixtral-8x7B-v0.1", "mixtral_8x7b_v0_1"),
        ("a */ int x; /*", "a_int_x"),
        ("naïve 模型", "na_ve"),
        ("İstanbul", "i_stanbul"),
        ("模型", "m"),
        ("x" * 100, "x" * 40),
        ("\n\\\0\t", "m"),
        *((word, f"m_{word}") for word in [*KEYWORDS, *BUILD_TARGETS]),
    ],
)
def test_identifiers(text: str, name: str) -> None:
    assert identifier(text) == name


@given(st.text())
def test_any_text_makes_a_prefix_that_is_accepted(text: str) -> None:
    name = identifier(text)
    assert len(name) <= 42
    assert re.fullmatch(r"[a-z][a-z0-9_]*", name)
    if len(name) <= 40:
        assert checked_prefix(name) == name


@pytest.mark.parametrize("text", ["a", "sensor", "my_model_2", "x" * 40])
def test_good_prefixes(text: str) -> None:
    assert checked_prefix(text) == text


@pytest.mark.parametrize(
    "text",
    ["", "A", "2x", "_x", "a-b", "a b", "a\n", "é", "a;b", "x" * 41, "int", "main", "../x", *BUILD_TARGETS],
)
def test_bad_prefixes_are_usage_errors(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        checked_prefix(text)
    assert caught.value.exit_code == 2 and str(caught.value).isprintable()


HOSTILE = [
    "*/ int x; /*",
    "**//**//",
    "/*/",
    "*" * 30 + "/" * 30,
    TRIGRAPH + "/",
    "?" * 9 + "/",
    "line\nbreak\r\n",
    "tail\\",
    "tail\\\\\\",
    TRIGRAPH + "/" + TRIGRAPH,
    "\u202e right to left \u2028",
    "nul\0 bell\a del\x7f",
    '"quoted" #define x',
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_inside_a_comment(text: str) -> None:
    check_comment(comment_text(text))


@given(st.text(alphabet="*/?\\\n=()'<>!- aé", max_size=200))
def test_any_text_stays_inside_a_comment(text: str) -> None:
    check_comment(comment_text(text))


def check_comment(made: str) -> None:
    assert "*/" not in made and "/*" not in made and TRIGRAPH not in made
    assert made.isascii() and (made == "" or made.isprintable()) and not made.endswith("\\")


def test_plain_text_is_left_alone_and_long_text_cut() -> None:
    assert comment_text("demand at t+1 (30 min)") == "demand at t+1 (30 min)"
    assert comment_text("x" * 300) == "x" * 80 and comment_text("x" * 300, 200) == "x" * 200


def test_hostile_comments_compile(tmp_path: Path) -> None:
    source = tmp_path / "comments.c"
    lines = "\n".join(f"/* {comment_text(text)} */\n/* {comment_text(text)}\n */" for text in HOSTILE)
    source.write_text(f"{lines}\nint x;\n")
    for compiler in ("gcc", "clang"):
        flags = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]
        subprocess.run([compiler, *flags, source], check=True)
