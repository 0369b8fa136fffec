"""A board as TOML: text that loads again to the same board."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any

import msgspec

from colibri.boards.profile import Board

_WIDTH = 110  # columns of a list on one line
_SIZES = {"length", "budget", "warn"}  # as hexadecimal, and so are these:
_ADDRESSES = {"origin", "register", "bits", "origins", "uf2"}
_ESCAPES = {'"': '\\"', "\\": "\\\\"}


def board_toml(board: Board) -> str:
    """The whole profile, with nothing inherited; values that are defaults are left out."""
    tables = fields_of(board)
    del tables["id"]
    lines = [assignment(name, value) for name, value in tables.items() if not is_table(value)]
    for name, value in tables.items():
        for table in [value] if isinstance(value, msgspec.Struct) else value if is_table(value) else ():
            header = f"[{name}]" if table is value else f"[[{name}]]"
            lines += ["", header, *table_lines(table)]
    return "\n".join(lines) + "\n"


def fields_of(struct: msgspec.Struct) -> dict[str, Any]:
    """What a struct says: names and values, without those that are defaults."""
    given = {}
    for field in msgspec.structs.fields(type(struct)):
        value = getattr(struct, field.name)
        default = field.default
        if default is msgspec.NODEFAULT and field.default_factory is not msgspec.NODEFAULT:
            default = field.default_factory()
        if field.required or value != default:
            given[field.name] = value
    return given


def table_lines(struct: msgspec.Struct) -> Iterator[str]:
    """``key = value`` for each field that is no default."""
    given = fields_of(struct)
    names = list(given)
    if "origin" in given:  # people read a region as where and how much
        names.remove("origin")
        names.insert(names.index("length"), "origin")
    for name in names:
        yield assignment(name, given[name])


def assignment(name: str, value: object) -> str:
    """One key, over several lines when its list is long."""
    text = f"{name} = {_value(value, name)}"
    if len(text) <= _WIDTH or not isinstance(value, tuple):
        return text
    return "\n".join([f"{name} = [", *(f"    {_value(part, name)}," for part in value), "]"])


def is_table(value: object) -> bool:
    """Whether it stands under a header of its own."""
    many = isinstance(value, tuple) and bool(value) and isinstance(value[0], msgspec.Struct)
    return many or isinstance(value, msgspec.Struct)


def _value(value: object, name: str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return _address(value) if name in _ADDRESSES else _size(value) if name in _SIZES else str(value)
    if isinstance(value, str):
        return quoted(str(value.value) if isinstance(value, Enum) else value)
    if isinstance(value, msgspec.Struct):
        return _inline([(key, _value(part, key)) for key, part in fields_of(value).items()])
    if isinstance(value, dict):
        return _inline([(_key(key), _value(part, name)) for key, part in value.items()])
    assert isinstance(value, Sequence)
    return f"[{', '.join(_value(part, name) for part in value)}]"


def _inline(pairs: Sequence[tuple[str, str]]) -> str:
    return f"{{ {', '.join(f'{key} = {value}' for key, value in pairs)} }}" if pairs else "{}"


def quoted(text: str) -> str:
    """A basic string.

    >>> quoted('say "no"')
    '"say \\\\"no\\\\""'
    """
    inside = "".join(_ESCAPES.get(c) or (c if c.isprintable() else f"\\U{ord(c):08x}") for c in text)
    return f'"{inside}"'


def _key(name: str) -> str:
    plain = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if plain else quoted(name)


def _address(number: int) -> str:
    """As in Colibri's boards.

    >>> _address(0x800_0000), _address(0)
    ('0x0800_0000', '0')
    """
    return f"0x{number:09_X}" if number else "0"


def _size(number: int) -> str:
    """Bytes.

    >>> _size(0x2_0000), _size(0)
    ('0x2_0000', '0')
    """
    return f"0x{number:_X}" if number else "0"
