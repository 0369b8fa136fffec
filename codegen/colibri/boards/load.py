"""Read a board file, with what it inherits, and check it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, get_args

import msgspec

from colibri.boards.check import board_faults
from colibri.boards.locate import KeyPath, dotted, find_line
from colibri.boards.places import At
from colibri.boards.profile import Board
from colibri.boards.words import meant, nearest, sentence
from colibri.checkpoint.untrusted import is_regular_file, read_toml
from colibri.errors import BadInput, shown
from colibri.paths import data_folder

_SUFFIX = ".toml"
INHERITS = "inherits"
_ID = "id"  # the file's name says it


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
    read = read_board(board_path(name_or_path))
    if read.faults:
        raise read.faults[0]
    assert read.board is not None  # else there is a fault
    return read.board


def board_path(name_or_path: str | Path) -> Path:
    """The file of a board, as `load_board` takes it; whether a path leads anywhere is not looked at.

    Raises:
        BadInput: no board of Colibri has this name.
    """
    text = str(name_or_path)
    if text.endswith(_SUFFIX):
        return Path(text)
    if text not in board_names():
        raise no_board(text)
    return data_folder("boards") / f"{text}{_SUFFIX}"


def no_board(text: str) -> BadInput:
    """Return (not raise) the error of a name that no board of Colibri has."""
    hint = meant(text, board_names()) or "`colibri boards` lists them"
    hint = f"{sentence(hint)} One of your own is a path that ends with {_SUFFIX}"
    if is_regular_file(Path(f"{text}{_SUFFIX}")):
        hint = f"the file here is {shown(text)}{_SUFFIX}: give it with its ending"
    return BadInput(f"no board '{shown(text)}'", where="board", hint=hint)


@dataclass(frozen=True)
class Read:
    """What a board file says.

    Attributes:
        board: None when its shape is not that of one.
        faults: all that is wrong, as far as one does not hide another.
        at: where a key stands, in this file or one that it inherits from.
    """

    board: Board | None
    faults: list[BadInput]
    at: At


def read_board(path: Path) -> Read:
    """Read a board file, and find everything that is wrong with it.

    Raises:
        BadInput: no such file, not TOML, or what it inherits from is not there.
    """
    chain = _chain(path)

    def at(key: KeyPath) -> str:
        return _giver(chain, key).at(key)

    faults = [fault for file in chain for fault in _word_faults(file, file.tables, Board, ())]
    if faults:
        return Read(None, faults, at)
    merged: dict[str, Any] = {}
    for file in reversed(chain):
        merged = _merge(merged, file.tables)
    try:
        board = msgspec.convert({**merged, _ID: path.stem}, Board)
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at `$")
        return Read(None, [BadInput(_plain(what), where=at(_key_path(place.rstrip("`"))))], at)
    return Read(board, board_faults(board, at), at)


class _File:
    """One file of the chain: its text, for line numbers, and its tables without ``inherits``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.text, self.tables = read_toml(path)
        self.inherits = self.tables.pop(INHERITS, None)
        if self.inherits is not None and not isinstance(self.inherits, str):
            raise BadInput("expected the name of one file, in quotes", where=self.at((INHERITS,)))

    def at(self, key: KeyPath) -> str:
        """``file:line: key``, without the line when the text does not show it, without the key at the top."""
        line, _ = find_line(self.text, key)
        place = f"{self.path}:{line}" if line else str(self.path)
        return f"{place}: {dotted(key)}" if key else place


def _chain(path: Path) -> list[_File]:
    """The file, what it inherits from, and so on."""
    chain = [_File(path)]
    while (name := chain[-1].inherits) is not None:
        where = chain[-1].at((INHERITS,))
        folders = (chain[-1].path.parent, data_folder("boards"))
        found = next((file for folder in folders if is_regular_file(file := folder / f"{name}{_SUFFIX}")), None)
        if found is None:
            known = {file.stem for folder in folders for file in folder.glob(f"*{_SUFFIX}")} - {path.stem}
            raise BadInput(f"no file '{shown(name)}' to inherit from", where=where, hint=nearest(name, known))
        if any(found.samefile(file.path) for file in chain):
            raise BadInput(f"inherits in a circle: '{shown(name)}' comes back to itself", where=where)
        chain.append(_File(found))
    return chain


def _merge(base: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Tables are merged key by key; every other value, lists too, replaces what was there."""
    merged = dict(base)
    for key, value in more.items():
        old = merged.get(key)
        merged[key] = _merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def _word_faults(
    file: _File, table: dict[str, Any], struct: type[msgspec.Struct], above: KeyPath
) -> Iterator[BadInput]:
    """Unknown keys and words, in the file that has them: inheritance would hide where they come from."""
    fields = {field.name: field.type for field in msgspec.structs.fields(struct)}
    if struct is Board:
        del fields[_ID]
    for name, value in table.items():
        key = (*above, name)
        if name in fields:
            yield from _value_faults(file, value, fields[name], key)
        else:
            known = [*fields, INHERITS] if struct is Board else list(fields)
            yield BadInput("unknown key", where=file.at(key), hint=nearest(name, known))


def _value_faults(file: _File, value: object, kind: Any, key: KeyPath) -> Iterator[BadInput]:
    """Descend into tables and lists; types that do not match are left to msgspec."""
    element = next((part for part in get_args(kind) if part is not Ellipsis), None)
    if isinstance(value, list) and element is not None:
        for index, part in enumerate(value):
            yield from _value_faults(file, part, element, (*key, index))
    elif isinstance(kind, type) and issubclass(kind, msgspec.Struct) and isinstance(value, dict):
        yield from _word_faults(file, value, kind, key)
    elif isinstance(kind, type) and issubclass(kind, Enum) and isinstance(value, str):
        words = [str(member.value) for member in kind]
        if value not in words:
            yield BadInput(f"unknown word '{shown(value)}'", where=file.at(key), hint=nearest(value, words))


def _key_path(place: str) -> KeyPath:
    """What msgspec writes behind ``$``.

    >>> _key_path(".memory[1].kind")
    ('memory', 1, 'kind')
    """
    return tuple(int(index) if index else name for name, index in re.findall(r"\.(\w+)|\[(\d+)\]", place))


def _plain(what: str) -> str:
    """What msgspec found, in the words of TOML.

    >>> _plain("Expected `int`, got `str`")
    'expected integer, got string'
    """
    if missing := re.match(r"Object missing required field `(\w+)`", what):
        return f"{missing[1]} is missing"
    words = {"object": "table", "array": "list", "int": "integer", "str": "string", "bool": "boolean"}
    what = re.sub(r"`(\w+)`", lambda word: words.get(word[1], word[1]), what)
    return what[:1].lower() + what[1:]


def _giver(chain: list[_File], key: KeyPath) -> _File:
    """The file whose value holds, by the rule of `_merge`; the first one for what no file has."""
    for file in chain:
        value: object = file.tables
        for part in key:
            if not isinstance(value, dict) or part not in value:
                break
            value = value[part]
        else:
            return file
        if not isinstance(value, dict):  # a list or a value, which hides those of the other files
            return file
    return chain[0]
