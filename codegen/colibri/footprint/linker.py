"""What a linker writes about a link: the map file of GNU ld or lld, and the table of --print-memory-usage."""

from __future__ import annotations

import re
from dataclasses import dataclass

_UNITS = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
_USAGE = re.compile(r"^\s*(\S+):\s+(\d+) (B|KB|MB|GB)\s+\d+ (?:B|KB|MB|GB)\s+[\d.]+%", re.MULTILINE)
_OUTPUT = re.compile(r"^([^\s*]\S*)(?:\s+0x[0-9a-f]+\s+0x[0-9a-f]+.*)?$")
_PLACED = re.compile(r"^([^\s*]\S*)(?:[ \t]*\n)?[ \t]+0x([0-9a-f]+)[ \t]+0x([0-9a-f]+)", re.MULTILINE)
_INPUT_NAME = re.compile(r"^ ([^\s*]\S*)$")
_INPUT = re.compile(r"^ ([^\s*]\S*|\*fill\*)?\s+0x([0-9a-f]+)\s+0x([0-9a-f]+)(?: (.*))?$")
_DATA = re.compile(r"^(BYTE|SHORT|LONG|QUAD|SQUAD) ")
_MAP_START = "Linker script and memory map"
_LLD_START = re.compile(r"^ +VMA +LMA +Size Align Out +In +Symbol$", re.MULTILINE)
_LLD_LINE = re.compile(r"^ *([0-9a-f]+) +[0-9a-f]+ +([0-9a-f]+) +\d+ (.*)$", re.MULTILINE)
_LLD_PE_START = re.compile(r"^Address +Size +Align Out +In +Symbol$", re.MULTILINE)
_LLD_PE_LINE = re.compile(r"^([0-9a-f]+) +([0-9a-f]+) +\d+ (.*)$", re.MULTILINE)
_LLD_INPUT = re.compile(r" {8}(\S.*):\((.+)\)")


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


def parse_map(text: str, base: int = 0) -> list[Input]:
    """Every input section and every fill that the linker placed, in the order of the map.

    Args:
        base: address of a Windows program, which the map of lld leaves out.
    """
    if _LLD_START.match(text):
        return _parse_lld(_LLD_LINE.findall(text), 0)
    if _LLD_PE_START.match(text):
        return _parse_lld(_LLD_PE_LINE.findall(text), base)
    return _parse_gnu(text)


def parse_outputs(text: str, base: int = 0) -> set[tuple[str, int, int]]:
    """Name, run address and length of each output section of a map.

    >>> parse_outputs("Linker script and memory map\\n.text           0x08000040     0x13cc\\n")
    {('.text', 134217792, 5068)}
    """
    if _LLD_START.match(text):
        lines, start = _LLD_LINE.findall(text), 0
    elif _LLD_PE_START.match(text):
        lines, start = _LLD_PE_LINE.findall(text), base
    else:
        placed = _PLACED.findall(text[max(text.find(_MAP_START), 0) :])
        return {(name, int(address, 16), int(size, 16)) for name, address, size in placed}
    return {(name, start + int(at, 16), int(size, 16)) for at, size, name in lines if not name.startswith(" ")}


def _parse_lld(lines: list[tuple[str, str, str]], base: int) -> list[Input]:
    """Three columns: output sections, below each its input sections, below each its symbols. Fills are not named."""
    found: list[Input] = []
    output, end, last = "", 0, 0
    for address_, size_, what in lines:
        address, size = base + int(address_, 16), int(size_, 16)
        if not what.startswith(" "):
            if last < end:
                found.append(Input(output, "*fill*", last, end - last, ""))
            output, end, last = what, address + size, address
        elif (entry := _LLD_INPUT.fullmatch(what)) and size:
            if address > last:
                found.append(Input(output, "*fill*", last, address - last, ""))
            # What it merges and makes itself has no object.
            found.append(Input(output, entry[2], address, size, "" if entry[1] == "<internal>" else entry[1]))
            last = address + size
    if last < end:
        found.append(Input(output, "*fill*", last, end - last, ""))
    return found


def _parse_gnu(text: str) -> list[Input]:
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
