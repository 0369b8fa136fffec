"""The symbol table of an ELF file, read in one piece: libraries that parse entry by entry need seconds for 20,000."""

from __future__ import annotations

import struct
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple

from colibri.errors import BadInput

_ENTRY_32 = ("IIIBBH", (0, 1, 2, 3, 5))
_ENTRY_64 = ("IBBHQQ", (0, 4, 5, 1, 3))
_STT_SECTION, _STT_FILE = 3, 4
_STB_LOCAL, _STB_GLOBAL = 0, 1
_UNDEFINED, _FIRST_SPECIAL, _ABSOLUTE = 0, 0xFF00, 0xFFF1

# All of these come out of pyelftools, besides its own, when a table of the file is damaged.
READING_FAILED = (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, AssertionError)


class SymbolKind(IntEnum):
    """What a symbol names, as far as the report cares; the numbers are ELF's."""

    UNTYPED = 0
    OBJECT = 1
    FUNCTION = 2
    OTHER = -1


class Symbol(NamedTuple):
    """One defined symbol.

    Attributes:
        value: address, of a function on Arm with the Thumb bit.
        bytes: its length; 0 when the assembler source does not say.
        section: where it is; empty for an absolute one.
        file: source file of a local symbol; empty when not known, as for every global one.
        public: whether other files see it, and none replaces it; neither local nor weak.
    """

    name: str
    value: int
    bytes: int
    section: str
    kind: SymbolKind
    file: str
    public: bool


def symbols_of(image: Path) -> tuple[list[Symbol], bool]:
    """The symbols of a file, as `read_symbols` gives them, and whether bit 0 of a function only says that it is Thumb.

    Raises:
        BadInput: not an ELF file, or a damaged one.
    """
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    try:
        with image.open("rb") as file:
            elf = ELFFile(file)
            return read_symbols(elf), elf["e_machine"] == "EM_ARM"
    except BadInput as error:
        raise BadInput(error.what, where=str(image)) from None
    except (ELFError, *READING_FAILED) as error:
        raise BadInput(f"no ELF file: {error}", where=str(image)) from None


def read_symbols(elf: Any) -> list[Symbol]:
    """Every symbol with a name and a value, in file order; none of a stripped file.

    Args:
        elf: an open `elftools.elf.elffile.ELFFile`.

    Raises:
        BadInput: the table is not one of symbols.
    """
    table = elf.get_section_by_name(".symtab")
    if table is None:
        return []
    layout, order = _ENTRY_64 if elf.elfclass == 64 else _ENTRY_32
    entry = struct.Struct(("<" if elf.little_endian else ">") + layout)
    strings = elf.get_section(table["sh_link"])
    whole = all(one["sh_offset"] + one["sh_size"] <= elf.stream_len for one in (table, strings))
    if not whole or table["sh_entsize"] != entry.size or table["sh_size"] % entry.size:
        raise BadInput("the symbol table is damaged")
    raw, names = table.data(), strings.data()
    sections = [section.name for section in elf.iter_sections()]
    kinds = {int(kind): kind for kind in SymbolKind}
    found: list[Symbol] = []
    file = ""
    for fields in entry.iter_unpack(raw):
        at, value, size, info, index = (fields[one] for one in order)
        name = names[at : names.find(b"\0", at)].decode(errors="replace")
        bound, kind = info >> 4, info & 15
        if kind == _STT_FILE:
            file = name
        elif name and kind != _STT_SECTION and index != _UNDEFINED and (index < _FIRST_SPECIAL or index == _ABSOLUTE):
            section = "" if index == _ABSOLUTE else sections[index]
            source = file if bound == _STB_LOCAL else ""
            meant = kinds.get(kind, SymbolKind.OTHER)
            found.append(Symbol(name, value, size, section, meant, source, bound == _STB_GLOBAL))
    return found
