"""One family of exceptions; each class carries the exit code that the command line returns."""

from __future__ import annotations

import errno
import os

_SHOWN_CHARS = 120
_WORD_CHARS = 300  # of a word in an error; a path of this length is still whole
_ERROR_CHARS = 2000


def printable(text: str) -> str:
    """Return `text` with what a terminal would obey or could not encode written as an escape."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def shown(text: str, limit: int = _SHOWN_CHARS) -> str:
    """Return `text` fit for one line of a terminal: escaped where it does not print, cut where it is long."""
    return printable(text if len(text) <= limit else text[: limit - 1] + "…")


def _line(text: str) -> str:
    """One line, in which what nobody cut before is cut: no word, and no line, goes on for pages."""
    words = (word if len(word) <= _WORD_CHARS else shown(word) + word[-1] for word in text.split())
    return shown(" ".join(words), _ERROR_CHARS)


class ColibriError(Exception):
    """A failure that a user can act on.

    Args:
        what: what is wrong, in one clause.
        where: file, tensor, key, line or region it concerns.
        hint: what to try next.
    """

    exit_code = 70

    def __init__(self, what: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        """One line: ``where: what (hint)``."""
        text = f"{self.where}: {self.what}" if self.where else self.what
        text = f"{text}; {self.hint}" if self.hint else text
        return _line(text)


class CheckFailed(ColibriError):
    """A test or check ran and did not pass."""

    exit_code = 1


class UsageError(ColibriError):
    """The command line asks for something that cannot be meant."""

    exit_code = 2


NO_ROOM = frozenset([errno.ENOSPC, errno.EDQUOT, errno.EFBIG])


def no_room(where: str, error: OSError, hint: str = "make room there") -> UsageError:
    """Return (not raise) the error of a disk that is full, or of a folder in which nothing can be written."""
    return UsageError(f"cannot be written: {error.strerror or error}", where=where, hint=hint)


def lack_of_room(said: str) -> OSError | None:
    """Return what a program's output says of a disk on which nothing more can be written, in the system's words."""
    numbers = (number for number in (*sorted(NO_ROOM), errno.EROFS) if os.strerror(number) in said)
    return next((OSError(number, os.strerror(number)) for number in numbers), None)


class DoesNotFit(ColibriError):
    """The image is larger than the board's memory or its budget."""

    exit_code = 3


class ToolMissing(ColibriError):
    """A compiler, linker or emulator is not installed; the hint installs it."""

    exit_code = 4


class BadInput(ColibriError):
    """A checkpoint, board file or data file is not what it should be."""

    exit_code = 5


class BuildFailed(ColibriError):
    """The compiler or the linker failed."""

    exit_code = 6


class EmulatorFailed(ColibriError):
    """The emulator hung, crashed or reported a fault."""

    exit_code = 7


def in_bytes(count: int) -> str:
    """A number of bytes in words.

    >>> in_bytes(1), in_bytes(1234)
    ('1 byte', '1,234 bytes')
    """
    return f"{count:,} byte{'' if count == 1 else 's'}"
