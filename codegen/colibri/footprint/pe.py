"""What the report needs of a Windows program: its sections and symbols, in the form that ELF files are read into."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from colibri.checkpoint.untrusted import read_bounded
from colibri.errors import BadInput
from colibri.footprint.elf import ElfSection, Image, Segment, places
from colibri.symbol_table import Symbol, SymbolKind

# Microsoft, PE Format.
_MOST_BYTES = 1 << 32
_OFFSET_OF_HEADER = 0x3C
_SIGNATURE = b"PE\0\0"
_PE32_PLUS = 0x20B
_SECTION_BYTES, _SYMBOL_BYTES = 40, 18
_CODE, _EXECUTE, _WRITE = 0x20, 0x2000_0000, 0x8000_0000
_FUNCTION = 0x20  # type of a symbol
_EXTERNAL = 2  # storage class of one that other objects see


@dataclass(frozen=True)
class _Header:
    image_base: int
    sections: int
    n_sections: int
    symbols: int
    n_symbols: int


def read_pe(path: Path) -> Image:
    """Read a 64-bit Windows program.

    Each section is a segment: its length is that in memory, where the system maps whole pages.

    Raises:
        BadInput: it is none, or damaged.
    """
    data = read_bounded(path, _MOST_BYTES)
    try:
        header = _header(data)
        sections = [_section(data, header, index) for index in range(header.n_sections)]
        table = tuple(_symbols(data, header, sections))
    except (struct.error, ValueError, IndexError):
        hint = "build the package again"
        raise BadInput("not a readable 64-bit Windows program", where=path.name, hint=hint) from None
    kept = tuple(sorted((one for one in sections if one.bytes), key=lambda one: one.address))
    return Image(tuple(map(_segment, kept)), kept, *places(table), table, base=header.image_base)


def _header(data: bytes) -> _Header:
    (at,) = struct.unpack_from("<I", data, _OFFSET_OF_HEADER)
    if data[:2] != b"MZ" or data[at : at + 4] != _SIGNATURE:
        raise ValueError
    _, n_sections, _, symbols, n_symbols, optional, _ = struct.unpack_from("<HHIIIHH", data, at + 4)
    magic, image_base = struct.unpack_from("<H22xQ", data, at + 24)
    if magic != _PE32_PLUS:
        raise ValueError
    return _Header(image_base, at + 24 + optional, n_sections, symbols, n_symbols)


def _section(data: bytes, header: _Header, index: int) -> ElfSection:
    name, size, address, raw, offset, flags = struct.unpack_from(
        "<8sIIII12xI", data, header.sections + index * _SECTION_BYTES
    )
    if offset + raw > len(data):
        raise ValueError
    return ElfSection(
        name=_name(data, header, name),
        address=header.image_base + address,
        offset=offset,
        bytes=size,
        stored=bool(raw),
        writable=bool(flags & _WRITE),
        code=bool(flags & (_CODE | _EXECUTE)),
    )


def _segment(section: ElfSection) -> Segment:
    stored = section.bytes if section.stored else 0
    return Segment(section.address, section.address, section.offset, stored, section.bytes, section.writable)


def _symbols(data: bytes, header: _Header, sections: list[ElfSection]) -> Iterator[Symbol]:
    """Their sizes are not in the file."""
    index = 0
    while index < header.n_symbols:
        raw, value, number, type_, storage, more = struct.unpack_from(
            "<8sIhHBB", data, header.symbols + index * _SYMBOL_BYTES
        )
        index += 1 + more
        if 0 < number <= len(sections):
            section = sections[number - 1]
            kind = SymbolKind.FUNCTION if type_ == _FUNCTION else SymbolKind.OTHER
            name = _name(data, header, raw)
            yield Symbol(name, section.address + value, 0, section.name, kind, "", storage == _EXTERNAL)


def _name(data: bytes, header: _Header, raw: bytes) -> str:
    """A name of at most 8 bytes, or one in the table behind the symbols: of a section ``/12``, of a symbol 0 and 12."""
    if raw[:4] == b"\0\0\0\0":
        (offset,) = struct.unpack_from("<I", raw, 4)
    elif raw[:1] == b"/":
        offset = int(raw[1:].rstrip(b"\0"))
    else:
        return raw.rstrip(b"\0").decode()
    start = header.symbols + header.n_symbols * _SYMBOL_BYTES + offset
    return data[start : data.index(b"\0", start)].decode()
