"""What GNU ld writes about a link: the map file, and the table of --print-memory-usage."""

from __future__ import annotations

import re
from dataclasses import dataclass

_UNITS = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
_USAGE = re.compile(r"^\s*(\S+):\s+(\d+) (B|KB|MB|GB)\s+\d+ (?:B|KB|MB|GB)\s+[\d.]+%", re.MULTILINE)
_OUTPUT = re.compile(r"^([^\s*]\S*)(?:\s+0x[0-9a-f]+\s+0x[0-9a-f]+.*)?$")
_INPUT_NAME = re.compile(r"^ ([^\s*]\S*)$")
_INPUT = re.compile(r"^ ([^\s*]\S*|\*fill\*)?\s+0x([0-9a-f]+)\s+0x([0-9a-f]+)(?: (.*))?$")
_DATA = re.compile(r"^(BYTE|SHORT|LONG|QUAD|SQUAD) ")
_MAP_START = "Linker script and memory map"


@dataclass(frozen=True)
class Input:
    """One input section as the linker placed it.

    Attributes:
        output: the output section.
        name: e.g. ``.text.main``; ``*fill*`` for alignment.
        address: run address.
        bytes: its length; never 0.
        object: path of the object, ``archive(member)``, ``linker stubs``, or empty for alignment and script data.
    """

    output: str
    name: str
    address: int
    bytes: int
    object: str

    @property
    def fill(self) -> bool:
        """Whether these are alignment bytes."""
        return self.name == "*fill*"


def parse_usage(text: str) -> dict[str, int]:
    """Region name to used bytes, from the output of ``-Wl,--print-memory-usage``.

    >>> parse_usage("   FLASH:        2321 B        64 KB      3.54%")
    {'FLASH': 2321}
    """
    return {name: int(number) * _UNITS[unit] for name, number, unit in _USAGE.findall(text)}


def parse_map(text: str) -> list[Input]:
    """Every input section and every fill that the linker placed, in the order of the map."""
    found: list[Input] = []
    output = pending = ""
    for line in text[max(text.find(_MAP_START), 0) :].splitlines():
        if head := _OUTPUT.match(line):
            output, pending = head[1], ""
        elif name := _INPUT_NAME.match(line):
            pending = name[1]
        elif entry := _INPUT.match(line):
            name_, origin = entry[1] or pending, (entry[4] or "").strip()
            pending = ""
            if _DATA.match(origin):
                name_, origin = "linker script", ""
            if int(entry[3], 16) and name_:
                found.append(Input(output, name_, int(entry[2], 16), int(entry[3], 16), origin))
        else:
            pending = ""
    return found
