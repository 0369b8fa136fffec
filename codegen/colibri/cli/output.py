"""Text into a file: whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from colibri.errors import UsageError


def write_text(path: Path, text: str) -> None:
    """Write beside ``path`` and rename; what is no regular file (a pipe, ``/dev/stdout``) is written to.

    Raises:
        UsageError: nothing can be written there.
    """
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")
            return
        # A link stays one: what it points to is replaced.
        target = path.resolve()
        descriptor, name = tempfile.mkstemp(prefix=f".{target.name}-", dir=target.parent)
        beside = Path(name)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
            beside.chmod(0o644)
            beside.replace(target)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror}", where=str(path), hint="choose another -o") from None
