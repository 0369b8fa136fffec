"""The table of contents of a zip file whose entries are stored plainly, as PyTorch writes it; nothing is unpacked.

Source: PKWARE's APPNOTE 6.3.10, sections 4.3 and 4.5.3 (zip64).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from colibri.checkpoint.files import Bytes
from colibri.errors import BadInput, shown

_END = struct.Struct("<4s4H2IH")
_END64_AT = struct.Struct("<4sIQI")
_END64 = struct.Struct("<4sQ2H2I4Q")
_ENTRY = struct.Struct("<4s6H3I5H2I")
_LOCAL = struct.Struct("<4s5H3I2H")
_COMMENT_BYTES = 0xFFFF
_MAX_TABLE_BYTES = 64 << 20
_FULL16, _FULL32 = 0xFFFF, 0xFFFFFFFF
_ZIP64 = 1
_ENCRYPTED = 1
_AGAIN = "download the file again"


@dataclass(frozen=True)
class Entry:
    """Attributes:
    name: path in the archive, untrusted.
    size: bytes.
    crc: CRC-32 of them.
    header: place of the local header in the file.
    odd: ``encrypted`` or ``compressed``; empty where the data lies there as it is.
    """

    name: str
    size: int
    crc: int
    header: int
    odd: str


def read_entries(file: Bytes) -> dict[str, Entry]:
    """Return the entries by name.

    Raises:
        BadInput: no zip file, a cut or contradicting table, or a name twice.
    """
    begin, size, count = _table(file)
    if size > _MAX_TABLE_BYTES or begin + size > file.size:
        raise _damaged(file, f"its table of contents has {size} bytes at {begin}")
    raw = bytes(file.read(begin, size))
    entries: dict[str, Entry] = {}
    at = 0
    for _ in range(count):
        if at + _ENTRY.size > len(raw) or raw[at : at + 4] != b"PK\1\2":
            raise _damaged(file, f"its table of contents ends behind {len(entries)} of {count} entries")
        fields = _ENTRY.unpack_from(raw, at)
        flags, method, crc, packed, plain = fields[3], fields[4], fields[7], fields[8], fields[9]
        name_bytes, extra_bytes, comment_bytes, header = *fields[10:13], fields[16]
        behind = at + _ENTRY.size + name_bytes
        name = raw[at + _ENTRY.size : behind].decode("utf-8", errors="replace")
        wide = _wide(raw[behind : behind + extra_bytes])
        plain, packed, header = (next(wide, value) if value == _FULL32 else value for value in (plain, packed, header))
        at = behind + extra_bytes + comment_bytes
        if header + _LOCAL.size + packed > begin:
            raise _damaged(file, f"entry '{shown(name)}' has {packed} bytes at {header}")
        odd = "encrypted" if flags & _ENCRYPTED else "compressed" if method or packed != plain else ""
        if name in entries:
            raise BadInput(f"entry '{shown(name)}' is there twice", where=file.where)
        entries[name] = Entry(name, plain, crc, header, odd)
    return entries


def data_begin(file: Bytes, entry: Entry) -> int:
    """Return the first byte of an entry's data in the file.

    Raises:
        BadInput: it is compressed or encrypted, or its local header contradicts the table.
    """
    if entry.odd:
        raise BadInput(f"entry '{shown(entry.name)}' is {entry.odd}; PyTorch stores entries plainly", where=file.where)
    raw = bytes(file.read(entry.header, _LOCAL.size))
    fields = _LOCAL.unpack(raw)
    begin: int = entry.header + _LOCAL.size + fields[9] + fields[10]
    if fields[0] != b"PK\3\4" or fields[3] != 0 or begin + entry.size > file.size:
        raise _damaged(file, f"entry '{shown(entry.name)}' has no sound header of its own")
    return begin


def _table(file: Bytes) -> tuple[int, int, int]:
    """Begin, bytes and entries of the table of contents."""
    tail_bytes = min(file.size, _END.size + _COMMENT_BYTES)
    tail = bytes(file.read(file.size - tail_bytes, tail_bytes))
    at = tail.rfind(b"PK\5\6")
    if at < 0 or at + _END.size > len(tail):
        raise _damaged(file, "it has no table of contents at its end")
    _, _, _, _, count, size, begin, _ = _END.unpack_from(tail, at)
    if count == _FULL16 or _FULL32 in (size, begin):
        if at < _END64_AT.size or tail[at - _END64_AT.size : at - _END64_AT.size + 4] != b"PK\6\7":
            raise _damaged(file, "its table of contents is not where it says")
        place = _END64_AT.unpack_from(tail, at - _END64_AT.size)[2]
        if place + _END64.size > file.size:
            raise _damaged(file, f"its table of contents is said to be at {place}")
        fields = _END64.unpack(bytes(file.read(place, _END64.size)))
        if fields[0] != b"PK\6\6":
            raise _damaged(file, "its table of contents is not where it says")
        count, size, begin = fields[7], fields[8], fields[9]
    if count * _ENTRY.size > size:
        raise _damaged(file, f"its table of contents is said to have {count} entries in {size} bytes")
    return begin, size, count


def _wide(extra: bytes) -> Iterator[int]:
    """The 64-bit numbers of an entry, in their order."""
    at = 0
    while at + 4 <= len(extra):
        kind, size = struct.unpack_from("<2H", extra, at)
        if kind == _ZIP64:
            part = extra[at + 4 : at + 4 + size]
            return iter(struct.unpack_from(f"<{len(part) // 8}Q", part))
        at += 4 + size
    return iter(())


def _damaged(file: Bytes, what: str) -> BadInput:
    return BadInput(f"is cut off or damaged: {what}", where=file.where, hint=_AGAIN)
