"""What `--json` of a command wrote, read again; somebody may have edited it since, or another version wrote it."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from colibri.checkpoint.untrusted import decoded
from colibri.errors import BadInput, printable

_T = TypeVar("_T")

_DEEPEST = 64  # values inside each other
_LARGE = 1 << 64


class _Version(msgspec.Struct, frozen=True):
    """What every version of such a file has."""

    schema: int


def decode_saved(raw: bytes, kind: type[_T], schema: int, *, noun: str, where: str, hint: str, least: int = 0) -> _T:
    """Return what the file says; text that does not print is escaped.

    Args:
        schema: version of the form that ``kind`` has.
        noun: what the file should be, such as ``report``.
        hint: how to make one.
        least: the lowest number in it.

    Raises:
        BadInput: no such file, of another schema, nested too deeply, or with a number below ``least`` or of more
            than 64 bits, which no command writes.
    """
    what = f"not a {noun}"
    version = decoded(lambda: msgspec.json.decode(raw, type=_Version), what=what, where=where, hint=hint)
    if version.schema != schema:
        raise BadInput(f"{noun} schema {version.schema}, this Colibri reads {schema}", where=where, hint=hint)
    return decoded(
        lambda: msgspec.convert(_plain(msgspec.json.decode(raw), "$", least), kind), what=what, where=where, hint=hint
    )


def _plain(value: Any, path: str, least: int, room: int = _DEEPEST) -> Any:
    """The value with text that prints; its errors are worded as those of msgspec are."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, int | float) and not least <= value < _LARGE:
        raise ValueError(f"a number is too {'small' if value < least else 'large'} - at `{path}`")
    if isinstance(value, dict | list) and not room:
        raise ValueError("nested too deeply")
    if isinstance(value, dict):
        return {
            printable(key): _plain(inner, f"{path}.{printable(key)}", least, room - 1) for key, inner in value.items()
        }
    if isinstance(value, list):
        return [_plain(inner, f"{path}[{index}]", least, room - 1) for index, inner in enumerate(value)]
    return value
