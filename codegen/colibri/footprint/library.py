"""The library of a package: what its archive brings into a program, and which functions it offers."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

import msgspec

from colibri.errors import BadInput, in_bytes
from colibri.symbol_table import READING_FAILED

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

_AGAIN = "build the package again"
_MAGIC = b"!<arch>\n"
_HEADER = 60
_WEIGHTS = (".rodata.model", ".rodata.hot_weights")
_INDEXES = (b"/", b"//", b"/SYM64/")  # symbol table, long names
_SHF_WRITE, _SHF_ALLOC, _SHF_EXECINSTR = 1, 2, 4
_RELOCATED = ".data.rel.ro"  # constants that hold addresses


class LibraryUse(msgspec.Struct, frozen=True):
    """Bytes of the library's sections, before a linker leaves out what a program does not call.

    Weights, debug information, the port and the C library are not in it.

    Attributes:
        code: instructions of model and runtime.
        tables: constants; under Linux with the tables for unwinding.
        data: variables.
        functions: that a program may call, by name; nothing else of the library's code is visible to it.
    """

    code: int
    tables: int
    data: int
    functions: tuple[str, ...]

    def text(self) -> str:
        """In words, without the names."""
        size = f"{in_bytes(self.code + self.tables)} of code and tables ({self.code:,} + {self.tables:,})"
        return f"library: {size}, {len(self.functions)} public functions; weights not counted"


def library_use(archive: Path) -> LibraryUse | None:
    """Read an archive of ELF objects; None when there is none.

    Raises:
        BadInput: the file is something else, or damaged.
    """
    from elftools.common.exceptions import ELFError

    if not archive.is_file():
        return None
    sizes = {"code": 0, "tables": 0, "data": 0}
    functions: set[str] = set()
    try:
        with archive.open("rb") as file:
            for member in _members(file):
                _add(member, sizes, functions)
    except (ELFError, *READING_FAILED) as error:
        raise BadInput(f"not a readable library: {error}", where=archive.name, hint=_AGAIN) from None
    return LibraryUse(**sizes, functions=tuple(sorted(functions)))


class _Member(io.RawIOBase):
    """A part of a file as a file: weights are gigabytes, and are never read."""

    def __init__(self, file: IO[bytes], start: int, size: int) -> None:
        super().__init__()
        self._file, self._start, self._size, self._at = file, start, size, 0

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        left = max(0, self._size - self._at)
        self._file.seek(self._start + self._at)
        got = self._file.read(left if size is None or size < 0 else min(size, left))
        self._at += len(got)
        return got


def _members(file: IO[bytes]) -> Iterator[ELFFile]:
    """The objects; each is to be read before the next is asked for."""
    from elftools.elf.elffile import ELFFile

    if file.read(len(_MAGIC)) != _MAGIC:
        raise ValueError("no archive")
    at = len(_MAGIC)
    while header := file.read(_HEADER):
        size = int(header[48:58]) if header[58:] == b"`\n" else -1
        if size < 0:
            raise ValueError("a header is damaged")
        if header[:16].rstrip() not in _INDEXES:
            yield ELFFile(cast("IO[bytes]", _Member(file, at + _HEADER, size)))
        at += _HEADER + size + size % 2
        file.seek(at)


def _add(elf: ELFFile, sizes: dict[str, int], functions: set[str]) -> None:
    from elftools.elf.sections import SymbolTableSection

    for section in elf.iter_sections():
        if section["sh_flags"] & _SHF_ALLOC and section.name not in _WEIGHTS:
            sizes[_kind(section.name, section["sh_flags"])] += section["sh_size"]
        if isinstance(section, SymbolTableSection):
            functions |= {
                symbol.name
                for symbol in section.iter_symbols()
                if symbol["st_info"]["type"] == "STT_FUNC"
                and symbol["st_info"]["bind"] != "STB_LOCAL"
                and symbol["st_other"]["visibility"] == "STV_DEFAULT"
                and symbol["st_shndx"] != "SHN_UNDEF"
            }


def _kind(name: str, flags: int) -> str:
    if flags & _SHF_EXECINSTR:
        return "code"
    return "data" if flags & _SHF_WRITE and not name.startswith(_RELOCATED) else "tables"
