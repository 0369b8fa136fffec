"""What the report needs of an ELF file: program headers, allocated sections, symbols."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from colibri.errors import BadInput
from colibri.symbol_table import READING_FAILED, Symbol, SymbolKind, read_symbols


@dataclass(frozen=True)
class Segment:
    """One PT_LOAD program header; addresses and sizes in bytes.

    Attributes:
        run: p_vaddr, where the bytes are when the program runs.
        load: p_paddr, where the bytes are stored.
        offset: of its first byte in the file.
        stored: p_filesz.
        memory: p_memsz.
        writable: PF_W.
    """

    run: int
    load: int
    offset: int
    stored: int
    memory: int
    writable: bool


@dataclass(frozen=True)
class ElfSection:
    """One section that occupies memory at run time.

    Attributes:
        address: its run address.
        offset: of its first byte in the file; means nothing for NOBITS.
        bytes: its length in memory; never 0.
        stored: whether the file has its bytes (not NOBITS).
        writable: SHF_WRITE.
        code: SHF_EXECINSTR.
    """

    name: str
    address: int
    offset: int
    bytes: int
    stored: bool
    writable: bool
    code: bool

    @property
    def end(self) -> int:
        """First address behind it."""
        return self.address + self.bytes


@dataclass(frozen=True)
class Place:
    """An address in a section: in an image that overflowed, two sections can have the same one."""

    section: str
    address: int


@dataclass(frozen=True)
class Image:
    """An ELF file.

    Attributes:
        segments: in file order, those that take memory.
        sections: by address.
        symbols: name to place; of local symbols with one name, the first.
        functions: place (on Arm with the Thumb bit) to the names of the functions there, in file order.
        table: the whole symbol table; empty in a stripped file.
        thumb: whether bit 0 of a function's address only says that it is Thumb code (Arm).
        base: address of a Windows program; else 0.
    """

    segments: tuple[Segment, ...]
    sections: tuple[ElfSection, ...]
    symbols: dict[str, Place]
    functions: dict[Place, tuple[str, ...]]
    table: tuple[Symbol, ...] = ()
    thumb: bool = False
    base: int = 0


def read_image(path: Path, *, hint: str = "build the package again") -> Image:
    """Read an executable.

    Args:
        hint: what to try when it is none.

    Raises:
        BadInput: not an ELF file, a damaged one, or one without program headers.
    """
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    try:
        with path.open("rb") as stream:
            elf = ELFFile(stream)
            segments = tuple(_segments(elf))
            sections = tuple(sorted(_sections(elf), key=lambda section: section.address))
            table = tuple(read_symbols(elf))
            thumb = elf["e_machine"] == "EM_ARM"
    except BadInput as error:
        raise BadInput(error.what, where=path.name, hint=hint) from None
    except (ELFError, *READING_FAILED) as error:
        reason = str(error) or "its tables are damaged"
        raise BadInput(f"not a readable ELF file: {reason}", where=path.name, hint=hint) from None
    if not segments:
        raise BadInput("no program headers that load anything", where=path.name, hint=hint)
    return Image(segments, sections, *places(table), table, thumb)


def _segments(elf: object) -> list[Segment]:
    from elftools.elf.constants import P_FLAGS

    return [
        Segment(
            run=header["p_vaddr"],
            load=header["p_paddr"],
            offset=header["p_offset"],
            stored=header["p_filesz"],
            memory=header["p_memsz"],
            writable=bool(header["p_flags"] & P_FLAGS.PF_W),
        )
        for header in (segment.header for segment in elf.iter_segments("PT_LOAD"))  # type: ignore[attr-defined]
        if header["p_memsz"]
    ]


def _sections(elf: object) -> list[ElfSection]:
    from elftools.elf.constants import SH_FLAGS

    found = []
    for section in elf.iter_sections():  # type: ignore[attr-defined]
        flags, stored = section["sh_flags"], section["sh_type"] != "SHT_NOBITS"
        # .tbss has an address but takes no memory: each thread gets its own copy.
        template = flags & SH_FLAGS.SHF_TLS and not stored
        if flags & SH_FLAGS.SHF_ALLOC and section["sh_size"] and not template:
            found.append(
                ElfSection(
                    name=section.name,
                    address=section["sh_addr"],
                    offset=section["sh_offset"],
                    bytes=section["sh_size"],
                    stored=stored,
                    writable=bool(flags & SH_FLAGS.SHF_WRITE),
                    code=bool(flags & SH_FLAGS.SHF_EXECINSTR),
                )
            )
    return found


def places(table: tuple[Symbol, ...]) -> tuple[dict[str, Place], dict[Place, tuple[str, ...]]]:
    """Name to place of each symbol that lies in a section, and place to names of each function."""
    symbols: dict[str, Place] = {}
    functions: dict[Place, tuple[str, ...]] = {}
    for symbol in table:
        if not symbol.section:
            continue
        place = Place(symbol.section, symbol.value)
        symbols.setdefault(symbol.name, place)
        if symbol.kind is SymbolKind.FUNCTION:
            functions[place] = (*functions.get(place, ()), symbol.name)
    return symbols, functions
