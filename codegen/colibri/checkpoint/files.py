"""Files of a checkpoint, read by ranges: never mapped, since mapped pages count as memory of the process."""

from __future__ import annotations

import os
import stat
from pathlib import Path, PurePosixPath
from typing import Protocol

from colibri.checkpoint.untrusted import is_regular_file
from colibri.errors import BadInput, shown

_PIECE = 1 << 30  # Linux reads at most 2 GiB at once


class Bytes(Protocol):
    """One file.

    Attributes:
        where: how errors name it.
        size: its length in bytes when it was opened.
    """

    where: str
    size: int

    def read(self, begin: int, count: int) -> bytearray:
        """Return exactly `count` bytes from `begin` on, owned by the caller.

        Raises:
            BadInput: unreadable, shorter than that, or not the file any more that was opened.
        """
        ...


class Folder(Protocol):
    """Attributes:
    where: how errors name it.
    """

    where: str

    def names(self) -> set[str]:
        """Return what lies in it, by name. BadInput: it cannot be read."""
        ...

    def has(self, name: str) -> bool:
        """Return whether `name`, which may have folders in it, is a file."""
        ...

    def file(self, name: str) -> Bytes:
        """Open a file whose name `stays_inside`. BadInput: no such file, or it is a link that leaves the folder."""
        ...


class LocalFile:
    """A file on this machine. It is opened for each read, so that many shards need no descriptors."""

    def __init__(self, path: Path, where: str = "") -> None:
        """Look at the file. BadInput: no regular file.

        Args:
            where: how errors name it, if not by its path.
        """
        self.path = path
        self.where = where or shown(str(path))
        try:
            status = path.stat()
        except FileNotFoundError:
            raise BadInput("no such file", where=self.where) from None
        except (OSError, ValueError) as error:
            raise self._unreadable(error) from None
        if not stat.S_ISREG(status.st_mode):
            raise BadInput("is not a file", where=self.where)
        self.size = status.st_size
        self._identity = _identity(status)

    def read(self, begin: int, count: int) -> bytearray:
        """As `Bytes.read`."""
        if not 0 <= begin <= self.size - count or count < 0:
            raise BadInput(f"has no {count} bytes at {begin}, only {self.size} in all", where=self.where)
        buffer = bytearray(count)
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                if _identity(os.fstat(descriptor)) != self._identity:
                    raise BadInput("changed since it was opened", where=self.where)
                self._fill(descriptor, memoryview(buffer), begin)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise self._unreadable(error) from None
        return buffer

    def _fill(self, descriptor: int, view: memoryview, begin: int) -> None:
        while view:
            done = os.preadv(descriptor, [view[:_PIECE]], begin)
            if not done:
                raise BadInput("ended while it was read", where=self.where)
            view, begin = view[done:], begin + done

    def _unreadable(self, error: Exception) -> BadInput:
        reason = error.strerror or str(error) if isinstance(error, OSError) else "the name is not a path"
        return BadInput(f"cannot be read: {reason}", where=self.where)


def _identity(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


class LocalFolder:
    """A folder on this machine."""

    def __init__(self, path: Path, named: str = "") -> None:
        """Take an existing folder.

        Args:
            named: a file in it that the user named himself: it may be a link to anywhere.
        """
        self.path = path
        self._named = named
        self.where = shown(str(path))

    def names(self) -> set[str]:
        """As `Folder.names`."""
        try:
            return {entry.name for entry in self.path.iterdir()}
        except OSError as error:
            raise BadInput(f"cannot be read: {error.strerror}", where=self.where) from None

    def has(self, name: str) -> bool:
        """As `Folder.has`."""
        return is_regular_file(self.path / name)

    def file(self, name: str) -> LocalFile:
        """As `Folder.file`."""
        return LocalFile(self.path / name if name == self._named else linked_inside(self.path, name))


def read_whole(file: Bytes, limit: int) -> bytes:
    """Return all bytes of a file that has at most `limit`. BadInput: it has more, or cannot be read."""
    if file.size > limit:
        what = f"has {file.size} bytes, more than the {limit} that such a file may have"
        raise BadInput(what, where=file.where)
    return bytes(file.read(0, file.size))


def stays_inside(name: str) -> bool:
    """Return whether a name in an index is a path below its folder, on any system."""
    path = PurePosixPath(name)
    return not (path.is_absolute() or ".." in path.parts or "\\" in name or ":" in name or "\0" in name)


def linked_inside(folder: Path, name: str) -> Path:
    """Return the path of a file of the checkpoint, once its links are known to stay in the folder.

    Raises:
        BadInput: it is a link to somewhere else (the Hugging Face cache's own layout excepted).
    """
    file = folder / name
    try:
        real, home = file.resolve(), folder.resolve()
    except (OSError, RuntimeError):  # RuntimeError: a loop of links
        raise BadInput("cannot be resolved", where=shown(str(file))) from None
    if not (real.is_relative_to(home) or _is_hub_blob(real, home)):
        raise BadInput(
            "is a link that leaves the checkpoint folder", where=shown(str(file)), hint="copy the file in its place"
        )
    return file


def _is_hub_blob(real: Path, home: Path) -> bool:
    """The Hugging Face cache keeps ``snapshots/REVISION/*`` as links into ``blobs/`` of the same model."""
    return home.parent.name == "snapshots" and real.parent == home.parent.parent / "blobs"
