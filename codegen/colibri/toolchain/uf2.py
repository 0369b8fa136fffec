"""UF2: the form in which bootloaders that show up as a drive take a program.

Source: "USB Flashing Format (UF2)", https://github.com/microsoft/uf2; family ids are in utils/uf2families.json there.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path

from colibri.errors import BadInput

_MAGIC = (0x0A32_4655, 0x9E5D_5157)
_LAST_MAGIC = 0x0AB1_6F30
_HAS_FAMILY = 0x2000  # flag: the header's last word is the family id

_PAGE = 256  # bytes of flash in a block
_ROOM = 476  # bytes that a block has for them

# RP2040 datasheet, erratum RP2040-E14: its boot ROM may lose a sector of which pages are missing,
# except the last. So a sector that is touched is sent without gaps, up to the last page of all.
_SECTOR = 4096


def uf2(pieces: Iterable[tuple[int, bytes]], family: int) -> bytes:
    """The file for bytes at addresses.

    Args:
        pieces: address in flash and what goes there; they do not overlap.
        family: id of the chips that may take it.
    """
    pages: dict[int, bytearray] = {}
    for start, raw in pieces:
        for address in range(start - start % _PAGE, start + len(raw), _PAGE):
            page = pages.setdefault(address, bytearray(_PAGE))
            begin, end = max(address, start), min(address + _PAGE, start + len(raw))
            page[begin - address : end - address] = raw[begin - start : end - start]
    last = max(pages, default=0)
    for sector in {address - address % _SECTOR for address in pages}:
        for address in range(sector, min(sector + _SECTOR, last), _PAGE):
            pages.setdefault(address, bytearray(_PAGE))
    return b"".join(
        struct.pack("<8I", *_MAGIC, _HAS_FAMILY, address, _PAGE, number, len(pages), family)
        + bytes(pages[address]).ljust(_ROOM, b"\0")
        + struct.pack("<I", _LAST_MAGIC)
        for number, address in enumerate(sorted(pages))
    )


def write_uf2(image: Path, target: Path, family: int) -> None:
    """Write what an ELF file stores in flash, beside ``target``, then rename it there.

    Raises:
        BadInput: not an ELF file.
    """
    beside = target.with_suffix(".new")
    beside.write_bytes(uf2(stored_pieces(image), family))
    beside.replace(target)


def stored_pieces(image: Path) -> list[tuple[int, bytes]]:
    """Load address and bytes of each segment that an ELF file stores.

    Raises:
        BadInput: not an ELF file.
    """
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    try:
        with image.open("rb") as file:
            segments = [one for one in ELFFile(file).iter_segments("PT_LOAD") if one["p_filesz"]]
            return [(one["p_paddr"], one.data()) for one in segments]
    except (ELFError, OSError) as error:
        raise BadInput(f"no ELF file: {error}", where=str(image)) from None
