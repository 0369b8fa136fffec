"""Reading what a stranger wrote: bounded files, strict JSON, names that are safe to print."""

from __future__ import annotations

import json
import math
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from colibri.errors import BadInput, printable

_SHOWN_CHARS = 120
_MAX_DIGITS = 20
_STRING_OR_CONSTANT = re.compile(r'"(?:\\.|[^"\\])*"|-?Infinity|NaN')


def shown(text: str) -> str:
    """Return `text` fit for one line of a terminal: escaped where it does not print, cut where it is long."""
    cut = text if len(text) <= _SHOWN_CHARS else text[: _SHOWN_CHARS - 1] + "…"
    return printable(cut)


def read_bounded(path: Path, limit: int) -> bytes:
    """Return the bytes of a regular file of at most `limit` bytes.

    Raises:
        BadInput: absent, not a regular file, unreadable, or longer than `limit`.
    """
    where = shown(str(path))
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise BadInput("is not a file", where=where)
        if status.st_size > limit:
            raise BadInput(f"has {status.st_size} bytes, more than the {limit} that such a file may have", where=where)
        with path.open("rb") as file:
            raw = file.read(limit + 1)
    except FileNotFoundError:
        raise BadInput("no such file", where=where) from None
    except (OSError, ValueError) as error:
        raise BadInput(f"cannot be read: {_reason(error)}", where=where) from None
    if len(raw) > limit:
        raise BadInput(f"grew past {limit} bytes while it was read", where=where)
    return raw


def is_regular_file(path: Path) -> bool:
    """Return whether `path` is a file (links followed); a name that the system refuses is none."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


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
    return value


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
