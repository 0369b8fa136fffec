"""Find the line of a key in a TOML file, for error messages: the parser of the standard library tells no lines."""

from __future__ import annotations

import contextlib
import re
import tomllib

KeyPath = tuple[str | int, ...]

_SPACE = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BLANK = re.compile(r"[ \t]*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
# Longest quotes first. A basic string may escape its quotes; up to two more may stand before the closing three.
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}|' r"'''.*?'{3,5}|" r'"(?:\\.|[^"\\\n])*"|' r"'[^'\n]*'",
    re.DOTALL,
)
_SCALAR = re.compile(r"[^,\]}#\n]*")


def find_line(text: str, path: KeyPath) -> tuple[int, int]:
    """Return the line (from 1) of the deepest part of ``path`` that ``text`` has, and how many parts matched.

    Args:
        text: valid TOML; of what is not, the lines up to the fault.

    Returns:
        ``(0, 0)`` when nothing matched.
    """
    lines = key_lines(text)
    depth = next((depth for depth in range(len(path), 0, -1) if path[:depth] in lines), 0)
    return (lines[path[:depth]], depth) if depth else (0, 0)


def key_lines(text: str) -> dict[KeyPath, int]:
    """The line (from 1) of every key, table and element of a list, where it begins; see `find_line`."""
    scan = _Scan(text)
    with contextlib.suppress(_NotToml):  # the parser says what is wrong there
        scan.document()
    return scan.lines


def dotted(path: KeyPath) -> str:
    """``memory[1].kind``."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


class _NotToml(Exception):
    pass


class _Scan:
    """A walk over the text that keeps no values."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.line = 1  # of `counted`
        self.counted = 0
        self.lines: dict[KeyPath, int] = {}
        self.elements: dict[KeyPath, int] = {}  # of each list of tables, the latest index

    def document(self) -> None:
        table: KeyPath = ()
        while True:
            self.skip(_SPACE)
            if self.at == len(self.text):
                return
            if self.text.startswith("[", self.at):
                table = self.header()
            else:
                self.assignment(table)

    def header(self) -> KeyPath:
        """``[a.b]`` or ``[[a.b]]``: each of the latter begins the next element, in which ``[a.b.c]`` lies."""
        is_list = self.text.startswith("[[", self.at)
        start = self.at
        self.at += 2 if is_list else 1
        names = self.names()
        self.expect("]]" if is_list else "]")
        path: KeyPath = ()
        for position, name in enumerate(names, start=1):
            path = (*path, name)
            self.note(path, start)
            if is_list and position == len(names):
                self.elements[path] = self.elements.get(path, -1) + 1
            if path in self.elements:
                path = (*path, self.elements[path])
                self.note(path, start)
        return path

    def assignment(self, table: KeyPath) -> None:
        start = self.at
        path = table
        for name in self.names():
            path = (*path, name)
            self.note(path, start)
        self.expect("=")
        self.value(path)

    def names(self) -> list[str]:
        """A key, in its parts."""
        found = []
        while True:
            self.skip(_BLANK)
            if quoted := _STRING.match(self.text, self.at):
                self.at = quoted.end()
                found.append(_unquoted(quoted[0]))
            elif bare := _BARE_KEY.match(self.text, self.at):
                self.at = bare.end()
                found.append(bare[0])
            else:
                raise _NotToml
            self.skip(_BLANK)
            if not self.text.startswith(".", self.at):
                return found
            self.at += 1

    def value(self, path: KeyPath) -> None:
        self.skip(_BLANK)
        if self.text.startswith("[", self.at):
            self.list_of_values(path)
        elif self.text.startswith("{", self.at):
            self.inline_table(path)
        elif quoted := _STRING.match(self.text, self.at):
            self.at = quoted.end()
        else:
            self.skip(_SCALAR)

    def list_of_values(self, path: KeyPath) -> None:
        self.at += 1
        index = 0
        while not self.closes("]"):
            self.note((*path, index), self.at)
            self.value((*path, index))
            index += 1
            self.separator("]")

    def inline_table(self, path: KeyPath) -> None:
        self.at += 1
        while not self.closes("}"):
            self.assignment(path)
            self.separator("}")

    def closes(self, bracket: str) -> bool:
        self.skip(_SPACE)
        if not self.text.startswith(bracket, self.at):
            return False
        self.at += 1
        return True

    def separator(self, bracket: str) -> None:
        """A comma, or what closes."""
        self.skip(_SPACE)
        if self.text.startswith(",", self.at):
            self.at += 1
        elif not self.text.startswith(bracket, self.at):
            raise _NotToml

    def skip(self, pattern: re.Pattern[str]) -> None:
        match = pattern.match(self.text, self.at)
        assert match is not None  # each of these matches nothing, too
        self.at = match.end()

    def expect(self, word: str) -> None:
        self.skip(_BLANK)
        if not self.text.startswith(word, self.at):
            raise _NotToml
        self.at += len(word)

    def note(self, path: KeyPath, position: int) -> None:
        """Keep where a path is first seen; positions never go back."""
        self.line += self.text.count("\n", self.counted, position)
        self.counted = position
        self.lines.setdefault(path, self.line)


def _unquoted(key: str) -> str:
    try:
        (name,) = tomllib.loads(f"{key} = 0")
    except tomllib.TOMLDecodeError:
        raise _NotToml from None
    return name
