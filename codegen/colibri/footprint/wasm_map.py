"""The map file of wasm-ld: which input became what of the module and of its memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from colibri.footprint.linker import Input

# "   103d0     34f2   140970         build/libx.a(model_bin.o):(.rodata.model)"
_LINE = re.compile(r"^\s*([0-9a-f]+|-)\s+([0-9a-f]+)\s+([0-9a-f]+) (\s*)(\S.*)$")
_INPUT = re.compile(r"^(.+):\(([^()]*)\)$")
_INTERNAL = "<internal>"  # strings that the linker has merged
_IN, _SYMBOL = 8, 16  # columns behind the sizes


@dataclass(frozen=True)
class Span:
    """An output segment of the memory."""

    name: str
    address: int
    bytes: int


@dataclass(frozen=True)
class WasmMap:
    """What a map says. Its file offsets do not count the headers of sections, so only sizes are taken from it.

    Attributes:
        code: functions of the code section, ``name`` being the function's; their addresses are 0.
        segments: of the memory, by address.
        inputs: of the segments, with a ``*fill*`` for each gap.
        symbols: name of each function and object to its segment or section, and its address; 0 for functions.
    """

    code: tuple[Input, ...]
    segments: tuple[Span, ...]
    inputs: tuple[Input, ...]
    symbols: dict[str, tuple[str, int]]


def parse_wasm_map(text: str) -> WasmMap:
    """Read a map; lines that are not understood are skipped, and their bytes stay without a name."""
    code: list[Input] = []
    segments: list[Span] = []
    inputs: list[Input] = []
    symbols: dict[str, tuple[str, int]] = {}
    output = ""
    for line in text.splitlines():
        if (entry := _LINE.match(line)) is None:
            continue
        address, size, depth, what = int(entry[1].replace("-", "0"), 16), int(entry[3], 16), len(entry[4]), entry[5]
        if depth < _IN:
            output = what
            if entry[1] != "-" and size and what.startswith("."):
                segments.append(Span(what, address, size))
        elif depth >= _SYMBOL:
            symbols.setdefault(what, (output, address))
        elif (one := _INPUT.match(what)) and size:
            object_ = "" if one[1] == _INTERNAL else one[1]
            (code if output == "CODE" else inputs).append(Input(output, one[2], address, size, object_))
    return WasmMap(tuple(code), tuple(segments), tuple(_with_gaps(segments, inputs)), symbols)


def _with_gaps(segments: list[Span], inputs: list[Input]) -> Iterator[Input]:
    for segment in segments:
        position = segment.address
        for one in sorted((one for one in inputs if one.output == segment.name), key=lambda one: one.address):
            if one.address > position:
                yield Input(segment.name, "*fill*", position, one.address - position, "")
            yield replace(one, name=one.name or segment.name)
            position = max(position, one.address + one.bytes)
