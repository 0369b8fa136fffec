"""Find the line of a key in a TOML file, for error messages."""

from __future__ import annotations

import re

KeyPath = tuple[str | int, ...]

_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?$")
_LONGEST_LINE = 2000  # characters; no line that people write
_ASSIGNMENT = re.compile(r"\s*([A-Za-z0-9_.\"'-]+)\s*=")


def find_line(text: str, path: KeyPath) -> tuple[int, int]:
    """Return the line (from 1) of the deepest part of ``path`` that ``text`` has, and how many parts matched.

    Understands headers, arrays of tables and ``key = value`` lines, which is how board files are written. Keys
    inside an inline table or array are found as the line where that begins; ``(0, 0)`` when nothing matched.
    """
    return max(_keys(text, path), key=lambda entry: entry[1], default=(0, 0))


def dotted(path: KeyPath) -> str:
    """``memory[1].kind``."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def _keys(text: str, wanted: KeyPath) -> list[tuple[int, int]]:
    """Line and depth of every key on the way to ``wanted``."""
    found = []
    table: KeyPath = ()
    counts: dict[KeyPath, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if len(line) > _LONGEST_LINE:
            continue
        if header := _HEADER.match(line):
            table = _open_table(_parts(header[2]), header[1] == "[[", counts)
            path = table
        elif assignment := _ASSIGNMENT.match(line):
            path = table + _parts(assignment[1])
        else:
            continue
        if wanted[: len(path)] == path:
            found.append((number, len(path)))
    return found


def _open_table(names: KeyPath, is_array: bool, counts: dict[KeyPath, int]) -> KeyPath:
    """The path of a header; each ``[[x]]`` begins the next element, and ``[x.y]`` lies in the latest ``x``."""
    path: KeyPath = ()
    for position, name in enumerate(names, start=1):
        path = (*path, name)
        if is_array and position == len(names):
            counts[path] = counts.get(path, -1) + 1
        if path in counts:
            path = (*path, counts[path])
    return path


def _parts(name: str) -> KeyPath:
    return tuple(part.strip(" \"'") for part in name.split("."))
