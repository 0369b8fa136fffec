"""Reading what a stranger wrote: bounded files and pipes, strict JSON and TOML."""

from __future__ import annotations

import json
import math
import os
import re
import select
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from colibri.errors import BadInput, shown

_T = TypeVar("_T")

_MAX_DIGITS = 20
_LARGE = 1 << 63
_MAX_TABLES = 16  # one inside the other, in TOML
_TOML_BYTES = 64 << 10
_PATIENCE = 30.0  # seconds that a pipe may be silent
_STRING_OR_CONSTANT = re.compile(r'"(?:\\.|[^"\\])*"|-?Infinity|NaN')
_HALF = re.compile("[\ud800-\udfff]")  # of a character; text that has one cannot be written as UTF-8


def read_bounded(path: Path, limit: int, *, pipe: bool = False) -> bytes:
    """Return the bytes of a regular file of at most `limit` bytes.

    Args:
        pipe: a pipe, also a named one, serves as well.

    Raises:
        BadInput: absent, not such a file, unreadable, longer than `limit`, or a pipe into which nobody writes.
    """
    where = shown(str(path), 300)
    try:
        mode = path.stat().st_mode
        if not (stat.S_ISREG(mode) or (pipe and stat.S_ISFIFO(mode))):
            raise BadInput("is not a file" + " or a pipe" * pipe, where=where)
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            size = os.fstat(descriptor).st_size
            if size <= limit:
                raw = _from_pipe(descriptor, limit, where) if stat.S_ISFIFO(mode) else _up_to(file.read, limit)
    except FileNotFoundError:
        raise BadInput("no such file", where=where) from None
    except (OSError, ValueError) as error:
        raise BadInput(f"cannot be read: {_reason(error)}", where=where) from None
    if size > limit:
        raise BadInput(f"has {size} bytes, more than the {limit} that such a file may have", where=where)
    if len(raw) > limit:
        raise BadInput(f"goes on after the {limit} bytes that such a file may have", where=where)
    return raw


def _up_to(read: Callable[[int], bytes | None], limit: int) -> bytes:
    """What comes until the end, or until it is more than `limit` bytes."""
    pieces, left = [], limit + 1
    while left > 0 and (piece := read(min(left, 1 << 24))):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def _from_pipe(descriptor: int, limit: int, where: str) -> bytes:
    def read(count: int) -> bytes:
        if not select.select([descriptor], [], [], _PATIENCE)[0]:
            raise BadInput(f"nobody wrote into this pipe for {_PATIENCE:g} s", where=where, hint="give a file")
        return os.read(descriptor, count)

    return _up_to(read, limit)


def is_regular_file(path: Path) -> bool:
    """Return whether `path` is a file (links followed); a name that the system refuses is none."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def is_folder(path: Path) -> bool:
    """Return whether `path` is a folder (links followed); a name that the system refuses is none."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def is_there(path: Path) -> bool:
    """Return whether `path` names anything at all; what it is, and whether it can be read, is said when it is read."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    except OSError:  # a folder above does not let us look
        pass
    return True


def parse_object(raw: bytes, *, where: str, noun: str = "key", hint: str = "") -> dict[str, Any]:
    """Return the JSON object in `raw` (UTF-8, a byte order mark allowed).

    Stricter than the json module: no name twice in one object, no NaN or Infinity, no number of more than
    20 digits or beyond fp64.

    Args:
        raw: the text.
        where: file (or part of it) that errors name.
        noun: what a name in it is called in errors.
        hint: what to try when it is not JSON at all.

    Raises:
        BadInput: not such an object; syntax errors come with line and column.
    """

    def refuse(what: str) -> BadInput:
        return BadInput(what, where=where, hint=hint)

    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise refuse(f"is not JSON: line {line} is not UTF-8") from None
    try:
        value = json.loads(
            text,
            object_pairs_hook=_unique(noun, refuse),
            parse_constant=_no_constant(text, refuse),
            parse_float=_finite(refuse),
            parse_int=_bounded(refuse),
        )
    except json.JSONDecodeError as error:
        raise refuse(f"is not JSON: line {error.lineno}, column {error.colno}: {shown(error.msg)}") from None
    except RecursionError:
        raise refuse("is not usable JSON: nested too deeply") from None
    if not isinstance(value, dict):
        raise refuse(f"holds a JSON {json_kind(value)}, expected an object {{…}}")
    if b"\\ud" in raw.lower():
        half = next((part for part in _strings(value) if _HALF.search(part)), None)
        if half is not None:
            raise refuse(f"the text '{shown(half)}' has half a character (a lone surrogate)")
    return value


def parse_toml(raw: bytes, *, where: str) -> dict[str, Any]:
    """Return the tables in `raw`, which is UTF-8.

    Raises:
        BadInput: not TOML, an integer of more than 63 bits, or tables too deep in each other.
    """
    import tomllib

    try:
        text = raw.decode("utf-8-sig")
        tables = tomllib.loads(text)
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise BadInput(f"not UTF-8 text: line {line}", where=where) from None
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"not TOML: {error}", where=where) from None
    except ValueError:  # what Python says of a number of thousands of digits
        raise BadInput("a number is too large", where=where) from None
    except RecursionError:
        raise BadInput("nested too deeply", where=where) from None
    level: list[Any] = [tables]
    for _ in range(_MAX_TABLES):
        level = [part for value in level for part in _inside(value)]
        if any(isinstance(part, int) and abs(part) >= _LARGE for part in level):
            raise BadInput("a number is too large", where=where)
    if level:
        raise BadInput("nested too deeply", where=where)
    return tables


def read_toml(path: Path) -> tuple[str, dict[str, Any]]:
    """Return the text and the tables of a TOML file of at most 64 KB, such as people write.

    Raises:
        BadInput: as `read_bounded` and `parse_toml`.
    """
    raw = read_bounded(path, _TOML_BYTES, pipe=True)
    tables = parse_toml(raw, where=shown(str(path), 300))
    return raw.decode("utf-8-sig"), tables


def decoded(decode: Callable[[], _T], *, what: str, where: str, hint: str = "") -> _T:
    """Return what a decoder of msgspec makes of a file.

    Args:
        decode: calls the decoder.
        what: begins the message, such as ``not a report``.

    Raises:
        BadInput: damaged, of another shape, or nested too deeply.
    """
    try:
        return decode()
    except RecursionError:
        raise BadInput(f"{what}: nested too deeply", where=where, hint=hint) from None
    except ValueError as error:
        raise BadInput(f"{what}: {error}", where=where, hint=hint) from None


def _inside(value: object) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _strings(value: object) -> Iterator[str]:
    """Every string and name of a JSON value."""
    pending = [value]
    while pending:
        part = pending.pop()
        if isinstance(part, str):
            yield part
        else:
            pending += part if isinstance(part, dict) else []
            pending += _inside(part)


def json_kind(value: object) -> str:
    """Return what JSON calls the type of a parsed value."""
    kinds = {dict: "object", list: "list", str: "string", bool: "boolean", int: "number", float: "number"}
    return kinds.get(type(value), "null")


def _unique(noun: str, refuse: Callable[[str], BadInput]) -> Callable[[list[tuple[str, Any]]], dict[str, Any]]:
    def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        table = dict(pairs)
        if len(table) < len(pairs):
            seen: set[str] = set()
            twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
            raise refuse(f"the {noun} '{shown(twice)}' stands twice")
        return table

    return build


def _no_constant(text: str, refuse: Callable[[str], BadInput]) -> Callable[[str], Any]:
    def constant(word: str) -> Any:
        at = next((m.start() for m in _STRING_OR_CONSTANT.finditer(text) if not m.group().startswith('"')), 0)
        raise refuse(f"is not JSON: line {text.count(chr(10), 0, at) + 1} has the number {word}")

    return constant


def _finite(refuse: Callable[[str], BadInput]) -> Callable[[str], float]:
    def number(text: str) -> float:
        value = float(text)
        if not math.isfinite(value):
            raise refuse(f"the number {shown(text)} is too large")
        return value

    return number


def _bounded(refuse: Callable[[str], BadInput]) -> Callable[[str], int]:
    def number(text: str) -> int:
        if len(text) > _MAX_DIGITS:
            raise refuse(f"the number {shown(text)} is too large")
        return int(text)

    return number


def _reason(error: Exception) -> str:
    return error.strerror or "the system refuses" if isinstance(error, OSError) else "the name is not a path"
