"""One family of exceptions; each class carries the exit code that the command line returns."""

from __future__ import annotations


def printable(text: str) -> str:
    """Return `text` with what a terminal would obey or could not encode written as an escape."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


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
        return printable(" ".join(text.split()))


class CheckFailed(ColibriError):
    """A test or check ran and did not pass."""

    exit_code = 1


class UsageError(ColibriError):
    """The command line asks for something that cannot be meant."""

    exit_code = 2


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
