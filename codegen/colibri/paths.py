"""Where the C runtime, the templates and the boards are: in the source tree first, else in the wheel."""

from __future__ import annotations

import hashlib
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def data_folder(name: str) -> Path:
    """Return the folder ``runtime_c``, ``templates`` or ``boards``.

    A checkout has them beside ``codegen/``; the wheel carries them as ``colibri/_data/NAME``.

    Raises:
        FileNotFoundError: neither place has the folder (a broken installation).
    """
    tree = _PACKAGE.parent.parent / name
    if _PACKAGE.parent.name == "codegen" and tree.is_dir():
        return tree
    wheel = _PACKAGE / "_data" / name
    if wheel.is_dir():
        return wheel
    raise FileNotFoundError(f"{name}: neither beside codegen/ nor in the installed package")


def generator_digest() -> str:
    """Return a hash of the files that decide what a package is."""
    digest = hashlib.sha256()
    for folder in (_PACKAGE, data_folder("runtime_c"), data_folder("templates")):
        for path in sorted(folder.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()
