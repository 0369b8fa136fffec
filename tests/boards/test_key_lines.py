"""Where a key stands in a TOML text."""

from __future__ import annotations

import string
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colibri.boards.load import board_names
from colibri.boards.locate import KeyPath, dotted, find_line, key_lines
from colibri.paths import data_folder

TEXT = '''\
a = 1
[cpu]
  core = "x" # key = value in a comment
[[memory]]
name = "one"
[[memory]]
# name = "no"
name = "two"
holds = [
    "code", # one = "]"
    "data",
]
[memory.extra]
deep = 1
[emulator]
origins = { flash = 0, "s.ram" = { x = [1, 2] } }
note = """
[cpu]
fpu = true \\""" """
'odd "key"' . b.c = '[['
when = 1979-05-27 07:32:00 # a date with a space
last = [{ x = 1 },
  { x = 2, y = [[3],
    [4]] }]
'''


@pytest.mark.parametrize(
    ("key", "line"),
    [
        (("a",), 1),
        (("cpu",), 2),
        (("cpu", "core"), 3),
        (("memory",), 4),
        (("memory", 0, "name"), 5),
        (("memory", 1), 6),
        (("memory", 1, "name"), 8),
        (("memory", 1, "holds"), 9),
        (("memory", 1, "holds", 0), 10),
        (("memory", 1, "holds", 1), 11),
        (("memory", 1, "extra", "deep"), 14),
        (("emulator", "origins", "flash"), 16),
        (("emulator", "origins", "s.ram", "x", 1), 16),
        (("emulator", "note"), 17),
        (("emulator", 'odd "key"', "b", "c"), 20),
        (("emulator", "when"), 21),
        (("emulator", "last", 0, "x"), 22),
        (("emulator", "last", 1, "x"), 23),
        (("emulator", "last", 1, "y", 1), 24),
        (("cpu", "missing"), 2),
        (("cpu", "fpu"), 2),
        (("nothing",), 0),
    ],
)
def test_line(key: KeyPath, line: int) -> None:
    tomllib.loads(TEXT)
    assert find_line(TEXT, key)[0] == line
    assert find_line(TEXT.replace("\n", "\r\n"), key)[0] == line


def paths_of(value: Any, above: KeyPath = ()) -> set[KeyPath]:
    """Every table, list, element and value of a document."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return {above, *(path for key, part in parts for path in paths_of(part, (*above, key)))}


@pytest.mark.parametrize("name", [*board_names(), "_cortex_m", "_linux"])
def test_every_key_of_a_board_file_has_a_line(name: str) -> None:
    text = (data_folder("boards") / f"{name}.toml").read_text()
    assert set(key_lines(text)) == paths_of(tomllib.loads(text)) - {()}


_KEYS = st.text(string.ascii_letters + "._ \"'#=[]", min_size=1, max_size=5)
_VALUES = st.recursive(
    st.integers(-9, 9) | st.booleans() | st.text(string.printable, max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=8,
)


def quoted(text: str) -> str:
    escaped = "".join(c if c.isprintable() and c not in '"\\' else f"\\u{ord(c):04x}" for c in text)
    return f'"{escaped}"'


def written(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{quoted(key)} = {written(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list):
        return "[ # x\n" + ",\n".join(map(written, value)) + "\n]"
    return quoted(value) if isinstance(value, str) else str(value).lower()


@given(st.dictionaries(_KEYS, _VALUES, max_size=4))
def test_every_key_of_any_document_has_a_line(document: dict[str, Any]) -> None:
    text = "".join(f"{quoted(key)} = {written(value)}\n" for key, value in document.items())
    assert tomllib.loads(text) == document
    lines = key_lines(text)
    assert set(lines) == paths_of(document) - {()}
    at = {key: lines[(key,)] for key in document}
    assert list(at.values()) == sorted(at.values())


@given(st.text("[]{}\"'=.,#\n a1\\", max_size=40))
def test_what_is_no_toml_has_lines_up_to_the_fault(text: str) -> None:
    assert all(1 <= line <= text.count("\n") + 1 for line in key_lines(text).values())


def test_dotted() -> None:
    assert dotted(("memory", 1, "holds", 0)) == "memory[1].holds[0]"
