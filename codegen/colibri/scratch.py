"""Folders for files that nobody keeps.

Each is locked as long as its process lives, so that what a killed one left behind is known, and goes with the next.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from colibri.errors import lack_of_room, no_room

_PREFIX = "colibri-scratch-"
_YOUNG = 10.0  # seconds in which a folder may not be locked yet
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
        made = tempfile.TemporaryDirectory(prefix=f"{_PREFIX}{purpose}-", ignore_cleanup_errors=True)
    except OSError as error:
        raise no_room("folder for temporary files", error, _HINT) from None
    with made as name, _locked(Path(name)):
        _remove_orphans(Path(name).parent)
        yield Path(name)


@contextmanager
def _locked(folder: Path) -> Iterator[bool]:
    """Hold the folder, unless another process does: whether it is held."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)


def _remove_orphans(place: Path) -> None:
    """Remove the folders of this user that no process holds."""
    latest = time.time() - _YOUNG
    for folder in place.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):  # another was quicker, or it is no folder
            status = folder.lstat()
            if status.st_uid == os.getuid() and status.st_mtime < latest:
                with _locked(folder) as orphaned:
                    if orphaned:
                        shutil.rmtree(folder, ignore_errors=True)


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
