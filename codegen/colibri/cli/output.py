"""Text into a file, whole or not at all; and tables on the terminal."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING

from colibri.checkpoint.untrusted import is_folder
from colibri.errors import UsageError, no_room, shown

if TYPE_CHECKING:
    from rich.console import Console

_NARROWEST, _WIDEST = 80, 400  # columns; below, the terminal folds lines better than a table does


def make_console(file: IO[str] | None = None, width: int | None = None) -> Console:
    """A console that prints names as they are: no markup, no emoji, no colour for what looks like a number.

    Args:
        file: instead of standard output.
        width: columns; None takes those of the terminal, as far as a table can do with them.
    """
    from rich.console import Console

    console = Console(file=file, width=width, highlight=False, markup=False, emoji=False)
    if width is None:
        console.width = min(max(console.width, _NARROWEST), _WIDEST)
    return console


def refuse_unwritable(path: Path) -> None:
    """Say before long work what `write_text` would say after it.

    Raises:
        UsageError: ``path`` is a folder, or the folder above is not there, or nothing can be written there.
    """
    if is_folder(path):
        raise UsageError("is a folder", where=shown(str(path), 300), hint="name a file")
    if not is_folder(path.parent):
        raise UsageError("there is no such folder", where=shown(str(path.parent), 300), hint="make it first")
    if path.is_symlink() and not path.exists():
        raise _leads_nowhere(path)
    if not os.access(path if path.exists() and not path.is_file() else path.resolve().parent, os.W_OK):
        raise UsageError("cannot be written", where=shown(str(path), 300), hint="choose another folder")


def _leads_nowhere(path: Path) -> UsageError:
    return UsageError("is a link to nothing", where=shown(str(path), 300), hint="choose another -o")


def write_text(path: Path, text: str) -> None:
    """Write beside ``path`` and rename; what is no regular file (a pipe, ``/dev/stdout``) is written to.

    Raises:
        UsageError: nothing can be written there, or it is a link to nothing.
    """
    try:
        if path.is_symlink() and not path.exists():
            raise _leads_nowhere(path)
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")
            return
        # A link stays one: what it points to is replaced.
        target = path.resolve()
        descriptor, name = tempfile.mkstemp(prefix=".colibri-", dir=target.parent)
        beside = Path(name)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
            beside.chmod(0o644)
            beside.replace(target)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise no_room(str(path), error, "choose another -o") from None
