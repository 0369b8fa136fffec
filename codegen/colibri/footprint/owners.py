"""Whose object file is it, and what is in an input section."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path, PurePosixPath

from colibri.footprint.elf import ElfSection


class Owner(StrEnum):
    """Who wrote the bytes; the value is the row's name."""

    MODEL = "model"
    RUNTIME = "runtime"
    PORT = "port and app"
    COMPILER = "compiler library"
    LIBC = "C library"
    LINKER = "linker"
    OTHER = "other objects"


class Content(StrEnum):
    """What the bytes are for the processor."""

    CODE = "code"
    TABLES = "tables"
    DATA = ".data"
    BSS = ".bss"


_PORT_FOLDERS = {"port", "ports", "app", "apps"}
_RUNTIME_FOLDERS = {"runtime", "runtime_c", "core", "kernels"}
_SOURCES = {".c", ".s", ".S"}
_COMPILER = re.compile(r"^(libgcc|libclang_rt|libcompiler_rt|libubsan_rt|crtbegin|crtend)")
_LIBC = re.compile(r"^(lib(c|m|mvec|pthread|c_nonshared)(-[\d.]+)?\.a|r?crt[1in]\.o|[gS]crt1\.o)$")
_CONTENT = (
    (re.compile(r"^\.(s?rodata|vectors|isr_vector|ARM\.ex|eh_frame|gcc_except_table|note|rel)"), Content.TABLES),
    (re.compile(r"^\.(text|init$|fini$|plt|iplt)"), Content.CODE),
    (re.compile(r"^(\.s?bss|\.tbss|COMMON$)"), Content.BSS),
    (re.compile(r"^\.(s|t)?data"), Content.DATA),
)
_SUBSECTION = re.compile(
    r"^\.(?:text|rodata|srodata|data|sdata|bss|sbss)\.(?:(?:startup|unlikely|hot|rel\.ro|local)\.)?(.+)$"
)


# GCC's names for where code goes, as in .text.unlikely: no function is meant.
_PLACES = {"unlikely", "hot", "startup", "exit", "rel.ro", "local"}


class Owners:
    """Looks an object file up among the sources of a package.

    Args:
        folder: of the package; its ``build`` folder is not searched.
    """

    def __init__(self, folder: Path) -> None:
        self._sources: dict[str, list[PurePosixPath]] = {}
        for path in sorted(folder.rglob("*")):
            relative = PurePosixPath(path.relative_to(folder).as_posix())
            if path.suffix in _SOURCES and relative.parts[0] != "build":
                self._sources.setdefault(path.stem, []).append(relative)

    def of(self, object_: str) -> Owner:
        """The owner of an object as the map file names it: a path, or ``archive(member)``."""
        if object_ in ("linker stubs", ""):
            return Owner.LINKER
        archive = object_.split("(", 1)[0]
        file = PurePosixPath(archive).name
        if _COMPILER.match(file):
            return Owner.COMPILER
        if _LIBC.match(file):
            return Owner.LIBC
        candidates = self._sources.get(stem(object_), [])
        # Two sources of one name: the object's folders say which.
        path = set(PurePosixPath(archive).parts)
        best = max(candidates, key=lambda source: len(path & set(source.parts[:-1])), default=None)
        if best is None:
            return Owner.OTHER
        folders = set(best.parts[:-1])
        if folders & _PORT_FOLDERS or best.stem == "main":
            return Owner.PORT
        return Owner.RUNTIME if folders & _RUNTIME_FOLDERS else Owner.MODEL


def stem(object_: str) -> str:
    """Name of the source file without its ending.

    >>> stem("lib.a(model.c.o)"), stem("obj/core/start.o")
    ('model', 'start')
    """
    name = PurePosixPath(object_.rstrip(")").rsplit("(", 1)[-1]).name
    return re.sub(r"(\.[csS])?\.(o|obj)$", "", name)


def content(name: str, section: ElfSection) -> Content:
    """What an input section holds: by its name, or else as its output section is mapped."""
    for pattern, kind in _CONTENT:
        if pattern.match(name):
            return kind
    if section.code:
        return Content.CODE
    if section.writable:
        return Content.DATA if section.stored else Content.BSS
    return Content.TABLES


def subject(name: str) -> str:
    """The function or object that a section of its own holds, or an empty string.

    >>> subject(".text.startup.main"), subject(".text")
    ('main', '')
    """
    match = _SUBSECTION.match(name)
    return match[1] if match and match[1] not in _PLACES else ""
