"""What was measured, kept line by line as it comes, so that an interrupted search goes on where it was."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from colibri.checkpoint.untrusted import is_folder, is_regular_file, is_there
from colibri.errors import BadInput, UsageError, no_room, shown

SCHEMA = 1
_MOST_BYTES = 1 << 30
_OTHER = "name another file with --journal, or remove it"


class _Head(msgspec.Struct, frozen=True):
    """Of the file.

    Attributes:
        checkpoint: SHA-256 of what the search is about; the keys of lines say all else.
    """

    journal: int
    checkpoint: str


class _Line(msgspec.Struct, frozen=True):
    key: str
    recipe: str
    value: msgspec.Raw


_Value = TypeVar("_Value", bound=msgspec.Struct)


class Journal:
    """JSON lines: a head that says what it is of, then a line for each thing that was measured."""

    def __init__(self, path: Path, descriptor: int, lines: dict[str, bytes]) -> None:
        self.path = path
        self.found = len(lines)
        self._descriptor = descriptor
        self._lines = lines

    def get(self, key: str, kind: type[_Value]) -> _Value | None:
        """What was measured before; None for nothing, or for something of another form."""
        raw = self._lines.get(key)
        if raw is None:
            return None
        with contextlib.suppress(msgspec.DecodeError):
            return msgspec.json.decode(raw, type=kind)
        return None

    def put(self, key: str, recipe: str, value: msgspec.Struct) -> None:
        """Write a line, which is on the disk when this returns.

        Raises:
            UsageError: the disk is full.
        """
        raw = msgspec.json.encode(value)
        self._lines[key] = raw
        _append(self.path, self._descriptor, _Line(key, recipe, msgspec.Raw(raw)))


@contextlib.contextmanager
def opened(path: Path, checkpoint: str) -> Iterator[Journal]:
    """The journal at a path, made if there is none; a last line that was cut off is forgotten.

    Args:
        checkpoint: SHA-256 of the files of the checkpoint.

    Raises:
        BadInput: no journal, or of something else.
        UsageError: another search writes into it, or nothing can be written there.
    """
    where = shown(str(path), 300)
    if is_there(path) and not is_regular_file(path):
        what = "is a folder" if is_folder(path) else "is no regular file"
        raise UsageError(what, where=where, hint="name a file with --journal")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK, 0o644)
    except OSError as error:
        raise no_room(where, error, "choose another with --journal") from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError("another search writes into it", where=where, hint="wait for it") from None
        except OSError:
            pass  # some network file systems have no locks
        yield Journal(path, descriptor, _read(path, descriptor, checkpoint))
    finally:
        os.close(descriptor)


def key_of(*parts: object) -> str:
    """A key for what these decide."""
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:32]


def _read(path: Path, descriptor: int, checkpoint: str) -> dict[str, bytes]:
    where = shown(str(path), 300)
    size = os.fstat(descriptor).st_size
    if size > _MOST_BYTES:
        raise BadInput(f"{size:,} bytes are more than a journal has", where=where, hint=_OTHER)
    raw = b""
    while len(raw) < size and (piece := os.pread(descriptor, size - len(raw), len(raw))):
        raw += piece
    whole = raw[: raw.rfind(b"\n") + 1]
    lines = whole.splitlines()
    if not lines:
        if raw and not raw.startswith(b'{"journal"'):
            raise BadInput("is no journal of a search", where=where, hint=_OTHER)
        os.ftruncate(descriptor, 0)
        _append(path, descriptor, _Head(SCHEMA, checkpoint))
        return {}
    _check_head(lines[0], checkpoint, where)
    found: dict[str, bytes] = {}
    for number, text in enumerate(lines[1:], 2):
        try:
            line = msgspec.json.decode(text, type=_Line)
        except msgspec.DecodeError:
            if number < len(lines):
                raise BadInput("is damaged", where=f"{where}, line {number}", hint=_OTHER) from None
            whole = whole[: whole.rstrip(b"\n").rfind(b"\n") + 1]
        else:
            found[line.key] = bytes(line.value)
    os.ftruncate(descriptor, len(whole))
    return found


def _check_head(text: bytes, checkpoint: str, where: str) -> None:
    try:
        head = msgspec.json.decode(text, type=_Head)
    except msgspec.DecodeError:
        raise BadInput("is no journal of a search", where=where, hint=_OTHER) from None
    if head.journal != SCHEMA:
        raise BadInput(f"journal {head.journal}, this Colibri reads {SCHEMA}", where=where, hint=_OTHER)
    if head.checkpoint != checkpoint:
        raise BadInput("is of another checkpoint", where=where, hint=_OTHER)


def _append(path: Path, descriptor: int, line: msgspec.Struct) -> None:
    raw = msgspec.json.encode(line) + b"\n"
    try:
        while raw:
            raw = raw[os.write(descriptor, raw) :]
        os.fsync(descriptor)
    except OSError as error:
        raise no_room(shown(str(path), 300), error, "make room, or choose another with --journal") from None
