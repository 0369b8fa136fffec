"""Objects of the runtime and of ports, made once a compiler and lent to the other packages of a test session.

A package is C of its own, and copies of files that all packages for a compiler share, which take half of the time of a
build. What is lent is what ninja would not make again if the packages were one folder that was generated anew: it
decides by its log, by the command of each object and by the times of what went into it. So a file that a test changes,
or another option, is compiled as ever. What is the model's own is never lent, nor is an archive or an image.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from selection import compiler_of

from colibri.package import load_package

_LOGS = (".ninja_log", ".ninja_deps")
_SOURCES = ("runtime", "port")


class SharedObjects:
    """Of the tests of one session, in a folder that its processes share."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._lenders: dict[Path, Path] = {}

    def lend(self, package: Path) -> None:
        """Give a package that is not built yet what another has left for its compiler."""
        lender = self._lenders[package] = self._lender(package)
        if not lender.is_dir():
            return
        for path in _files(lender, *_SOURCES):
            own = package / path
            if own.is_file() and own.read_bytes() == (lender / path).read_bytes():
                shutil.copystat(lender / path, own)
        for path in _files(lender, "build"):
            if (package / _source_of(path)).is_file():
                (package / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(lender / path, package / path)
        for log in _LOGS:
            shutil.copy2(lender / log, package / log)

    def keep(self, package: Path) -> None:
        """Leave the objects of a package that was asked about, if it was built and no other has."""
        lender = self._lenders[package]
        if lender.is_dir() or not all((package / log).is_file() for log in _LOGS):
            return
        beside = Path(tempfile.mkdtemp(dir=self._store))
        objects = (path for path in _files(package, "build") if _source_of(path).parts[0] in _SOURCES)
        for path in (*_files(package, *_SOURCES), *objects, *map(Path, _LOGS)):
            (beside / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(package / path, beside / path)
        with suppress(OSError):  # another process was first
            beside.rename(lender)

    def _lender(self, package: Path) -> Path:
        loaded = load_package(package)
        decides = (compiler_of(loaded.board), loaded.compiler)
        return self._store / hashlib.sha256(repr(decides).encode()).hexdigest()[:16]


def _files(folder: Path, *below: str) -> Iterator[Path]:
    """Of these folders, relative to the first."""
    for top in below:
        for place, _, names in os.walk(folder / top):
            yield from (Path(place, name).relative_to(folder) for name in names)


def _source_of(output: Path) -> Path:
    """``build/RULE/port/fault.o``, and what the compiler writes beside it, are made of ``port/fault.c``."""
    return Path(*output.parts[2:]).with_suffix(".c") if len(output.parts) > 3 else Path(output.name)
