"""Where a key stands in a TOML text."""

from __future__ import annotations

import pytest

from colibri.boards.locate import KeyPath, dotted, find_line

TEXT = """\
a = 1
[cpu]
  core = "x" # key = value in a comment
[[memory]]
name = "one"
[[memory]]
# name = "no"
name = "two"
holds = [
    "code",
]
[memory.extra]
deep = 1
[emulator]
origins = { flash = 0 }
"""


@pytest.mark.parametrize(
    ("key", "line"),
    [
        (("a",), 1),
        (("cpu",), 2),
        (("cpu", "core"), 3),
        (("memory", 0, "name"), 5),
        (("memory", 1), 6),
        (("memory", 1, "name"), 8),
        (("memory", 1, "holds", 0), 9),
        (("memory", 1, "extra", "deep"), 13),
        (("emulator", "origins", "flash"), 15),
        (("cpu", "missing"), 2),
        (("nothing",), 0),
    ],
)
def test_line(key: KeyPath, line: int) -> None:
    assert find_line(TEXT, key)[0] == line


def test_dotted() -> None:
    assert dotted(("memory", 1, "holds", 0)) == "memory[1].holds[0]"
