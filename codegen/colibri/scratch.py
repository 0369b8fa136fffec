"""Folders for files that nobody keeps."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from colibri.errors import lack_of_room, no_room

_HINT = "make room, or set TMPDIR to a folder with room"


@contextmanager
def scratch_folder(purpose: str) -> Iterator[Path]:
    """A folder that goes when the block ends.

    Args:
        purpose: becomes part of its name.

    Raises:
        UsageError: none can be made.
    """
    try:
        made = tempfile.TemporaryDirectory(prefix=f"colibri-{purpose}-", ignore_cleanup_errors=True)
    except OSError as error:
        raise no_room("folder for temporary files", error, _HINT) from None
    with made as name:
        yield Path(name)


def refuse_without_room(said: str) -> None:
    """Do nothing unless a program that wrote into a scratch folder said that it is full.

    Raises:
        UsageError: there is no room.
    """
    if error := lack_of_room(said):
        raise no_room("folder for temporary files", error, _HINT)


def write_scratch(path: Path, raw: bytes) -> None:
    """Write a file into a scratch folder.

    Raises:
        UsageError: there is no room.
    """
    try:
        path.write_bytes(raw)
    except OSError as error:
        raise no_room(str(path), error, _HINT) from None
