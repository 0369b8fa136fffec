"""One command at a time makes a folder or builds in it: the folder or a file in it is the lock, so nothing is left."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from colibri.errors import UsageError


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Hold a folder for a block; it may be renamed meanwhile.

    Raises:
        UsageError: another command holds it.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            hint = "wait for it, or choose another folder with -o"
            raise UsageError("another colibri is building in it", where=str(folder), hint=hint) from None
        except OSError:
            pass  # some network file systems have no locks
        yield
    finally:
        os.close(descriptor)


@contextmanager
def in_turn(file: Path) -> Iterator[None]:
    """Hold a file for a block; as long as another command holds it, wait. Without such a file there is no turn."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        yield
        return
    try:
        with suppress(OSError):  # some network file systems have no locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def put_in_place(beside: Path, folder: Path) -> None:
    """Rename a folder to another's name; the other is deleted last, so a failure or an interrupt loses nothing.

    Raises:
        UsageError: another command holds the other.
        OSError: the system does not let us.
    """
    if not folder.exists():
        beside.rename(folder)
        return
    old = beside.with_name(f"{beside.name}.old")
    with claimed(folder):
        try:
            folder.rename(old)
            beside.rename(folder)
            shutil.rmtree(old)
        except BaseException:
            if folder.exists():
                shutil.rmtree(old, ignore_errors=True)
            else:
                old.rename(folder)
            raise
