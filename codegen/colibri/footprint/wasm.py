"""What the report needs of a WebAssembly module: its sections, and the size of its memory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from colibri.checkpoint.untrusted import read_bounded
from colibri.errors import BadInput

PAGE = 65536  # bytes, WebAssembly Core Specification 2.0, 4.2.8
HEADER = 8  # bytes, magic and version

_MAGIC = b"\0asm\x01\0\0\0"
_MOST_BYTES = 1 << 32
_CUSTOM, _MEMORY = 0, 5
_NAMES = ("custom", "type", "import", "function", "table", "memory", "global", "export", "start", "element", "code",
          "data", "data count", "tag")  # fmt: skip


@dataclass(frozen=True)
class WasmSection:
    """A section of the file.

    Attributes:
        name: its kind, or a custom section's own name.
        bytes: of the file, its header among them.
        start: offset in the file of what follows its header and, in a custom section, its name.
        end: offset in the file behind it.
    """

    name: str
    bytes: int
    start: int
    end: int
    custom: bool = False


@dataclass(frozen=True)
class WasmModule:
    """A module.

    Attributes:
        sections: in file order; with the header of 8 bytes they are the whole file.
        memory: bytes that its memory has when it starts; 0 when it has none of its own.
    """

    sections: tuple[WasmSection, ...]
    memory: int

    @property
    def bytes(self) -> int:
        """Length of the file."""
        return HEADER + sum(section.bytes for section in self.sections)

    def start(self, name: str) -> int | None:
        """Where the contents of the section of a name begin, in the file; None when there is none."""
        return next((section.start for section in self.sections if section.name == name), None)


def read_module(path: Path) -> WasmModule:
    """Read a module.

    Raises:
        BadInput: not a module, or cut off.
    """
    data = read_bounded(path, _MOST_BYTES)
    failure = BadInput("not a readable WebAssembly module", where=path.name, hint="build the package again")
    if data[:HEADER] != _MAGIC:
        raise failure
    sections, memory, at = [], 0, HEADER
    try:
        while at < len(data):
            kind = data[at]
            size, body = number(data, at + 1)
            end = body + size
            if end > len(data) or kind >= len(_NAMES):
                raise failure
            name = _NAMES[kind]
            if kind == _CUSTOM:
                length, start = number(data, body)
                name, body = data[start : start + length].decode(), start + length
            if kind == _MEMORY and number(data, body)[0]:
                memory = number(data, number(data, body)[1] + 1)[0] * PAGE  # flags, then the least size
            sections.append(WasmSection(name, end - at, body, end, custom=kind == _CUSTOM))
            at = end
    except (IndexError, UnicodeDecodeError):
        raise failure from None
    return WasmModule(tuple(sections), memory)


def number(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned LEB128 number of at most 32 bits, and the offset behind it."""
    value = 0
    for shift in range(0, 35, 7):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise IndexError
