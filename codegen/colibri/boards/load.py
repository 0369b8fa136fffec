"""Read a board file, with what it inherits, and check it."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from typing import Any, get_args

import msgspec

from colibri.boards.check import check_board
from colibri.boards.profile import Board
from colibri.errors import BadInput
from colibri.paths import data_folder

_SUFFIX = ".toml"
_INHERITS = "inherits"
_SET_BY_LOADER = frozenset({"id"})


def board_names() -> list[str]:
    """Names of the boards that come with Colibri, sorted. Files that begin with ``_`` are families, not boards."""
    return sorted(path.stem for path in data_folder("boards").glob(f"*{_SUFFIX}") if not path.name.startswith("_"))


def load_board(name_or_path: str | Path) -> Board:
    """Load a board by its name, or from a file of one's own.

    Args:
        name_or_path: one of `board_names`, or a path that ends with ``.toml``. What such a file inherits is looked
            for beside it, then among the boards of Colibri.

    Raises:
        BadInput: no such board or file, or the file is not a board; the message names the file, the line where it
            is known, and the key.
    """
    text = str(name_or_path)
    if text.endswith(_SUFFIX):
        path = Path(text)
    else:
        path = data_folder("boards") / f"{text}{_SUFFIX}"
        if text not in board_names():
            raise BadInput(
                f"no board {text!r}",
                where="board",
                hint=_nearest(text, board_names())
                or f"there are {', '.join(board_names())}; a file ends with {_SUFFIX}",
            )
    chain = _chain(path)
    merged: dict[str, Any] = {}
    for file in reversed(chain):
        merged = _merge(merged, file.tables)
    merged["id"] = path.stem
    try:
        board = msgspec.convert(merged, Board)
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at `$.")
        raise BadInput(_plain(what, place.rstrip("`")), where=_where(chain, place.rstrip("`"))) from None
    check_board(board, str(path))
    return board


class _File:
    """One file of the chain: its text, for line numbers, and its tables without ``inherits``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.text = path.read_text(encoding="utf-8")
            self.tables = tomllib.loads(self.text)
        except FileNotFoundError:
            raise BadInput("no such file", where=str(path)) from None
        except OSError as error:
            raise BadInput(f"not readable: {error.strerror}", where=str(path)) from None
        except UnicodeDecodeError:
            raise BadInput("not UTF-8 text", where=str(path)) from None
        except tomllib.TOMLDecodeError as error:
            raise BadInput(f"not TOML: {error}", where=str(path)) from None
        self.inherits = self.tables.pop(_INHERITS, None)
        if self.inherits is not None and not isinstance(self.inherits, str):
            raise BadInput("is the name of one file, in quotes", where=self.at(_INHERITS))
        _check_words(self, self.tables, Board, "")

    def at(self, place: str) -> str:
        """``file:line: place`` of a key like ``memory[1].kind``, or without the line when the text hides it."""
        line = _line_of(self.text, place)
        return f"{self.path}:{line}: {place}" if line else f"{self.path}: {place}"


def _chain(path: Path) -> list[_File]:
    """The file, what it inherits from, and so on."""
    chain = [_File(path)]
    while (name := chain[-1].inherits) is not None:
        here = chain[-1].path.parent
        candidates = [folder / f"{name.removesuffix(_SUFFIX)}{_SUFFIX}" for folder in (here, data_folder("boards"))]
        found = next((candidate for candidate in candidates if candidate.is_file()), None)
        if found is None:
            known = sorted(
                {file.stem for folder in (here, data_folder("boards")) for file in folder.glob(f"*{_SUFFIX}")}
            )
            raise BadInput(
                f"no file {name!r} to inherit from", where=chain[-1].at(_INHERITS), hint=_nearest(name, known)
            )
        if any(found.samefile(file.path) for file in chain):
            raise BadInput(f"a circle: {name!r} inherits from this file", where=chain[-1].at(_INHERITS))
        chain.append(_File(found))
    return chain


def _merge(base: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Tables are merged key by key; every other value, lists too, replaces what was there."""
    merged = dict(base)
    for key, value in more.items():
        old = merged.get(key)
        merged[key] = _merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


# ---- which file, which line, which word ----


def _check_words(file: _File, table: dict[str, Any], struct: type[msgspec.Struct], place: str) -> None:
    """Look for unknown keys and words in the file that has them, before inheritance hides where they come from."""
    fields = {field.name: field.type for field in msgspec.structs.fields(struct)}
    known = sorted(
        set(fields) - (_SET_BY_LOADER if struct is Board else set()) | ({_INHERITS} if struct is Board else set())
    )
    for key, value in table.items():
        at = f"{place}.{key}" if place else key
        if key not in known:
            raise BadInput(f"unknown key {key!r}", where=file.at(at), hint=_nearest(key, known) or _one_of(known))
        _check_value(file, value, fields[key], at)


def _check_value(file: _File, value: object, kind: Any, place: str) -> None:
    """Descend into tables and lists; types that do not match are left to msgspec."""
    element = next((part for part in get_args(kind) if part is not Ellipsis), None)
    if isinstance(value, list) and element is not None:
        for index, part in enumerate(value):
            _check_value(file, part, element, f"{place}[{index}]")
    elif isinstance(kind, type) and issubclass(kind, msgspec.Struct) and isinstance(value, dict):
        _check_words(file, value, kind, place)
    elif isinstance(kind, type) and issubclass(kind, Enum) and isinstance(value, str):
        words = [str(member.value) for member in kind]
        if value not in words:
            raise BadInput(
                f"unknown word {value!r}", where=file.at(place), hint=_nearest(value, words) or _one_of(words)
            )


def _nearest(word: str, known: Iterable[str]) -> str:
    """A hint with the word that was probably meant, or nothing."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else ""


def _one_of(words: list[str]) -> str:
    return f"one of {', '.join(words)}"


def _plain(what: str, place: str) -> str:
    """Say what msgspec found in the words of a board file.

    >>> _plain("Expected `int`, got `str`", "stack")
    'expected int, got str'
    >>> _plain("Object missing required field `title`", "")
    'title is missing'
    """
    if missing := re.match(r"Object missing required field `(\w+)`", what):
        return f"{missing[1]} is missing"
    what = what.replace("`", "").replace("object", "table").replace("array", "list")
    return what[0].lower() + what[1:]


def _where(chain: list[_File], place: str) -> str:
    """The first file of the chain that gives the key."""
    if not place:
        return str(chain[0].path)
    top = re.split(r"[.\[]", place)[0]
    for file in chain:
        if top in file.tables and _line_of(file.text, place):
            return file.at(place)
    return next((file for file in chain if top in file.tables), chain[0]).at(place)


def _line_of(text: str, place: str) -> int:
    """Line of a key like ``cpu.fpu`` or ``memory[1].kind``; 0 when it is not written in the plain way.

    >>> _line_of('a = 1\\n[[memory]]\\n[[memory]]\\nkind = "x"\\n', "memory[1].kind")
    4
    """
    wanted = re.sub(r"\[\d+\]$", "", place)  # an element of an inline list is on the line of its key
    seen: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[\[\s*([\w.-]+)\s*\]\]", line):
            index = seen[header[1]] = seen.get(header[1], -1) + 1
            table = f"{header[1]}[{index}]"
        elif header := re.match(r"\s*\[\s*([\w.-]+)\s*\]", line):
            table = header[1]
        elif key := re.match(r"\s*([\w.-]+)\s*=", line):
            here = f"{table}.{key[1]}" if table else key[1]
            if here == wanted:
                return number
            continue
        else:
            continue
        if table in (wanted, place):
            return number
    return 0
