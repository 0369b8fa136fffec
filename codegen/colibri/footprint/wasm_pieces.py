"""A WebAssembly product as pieces: every byte of the module's file, and every byte of the memory it starts with."""

from __future__ import annotations

from pathlib import Path

from colibri.boards.profile import Holds
from colibri.errors import ColibriError
from colibri.footprint.attribute import GroupKind, Piece, attribute
from colibri.footprint.elf import ElfSection, Image, Place
from colibri.footprint.layout import Extent, Layout
from colibri.footprint.owners import Owners
from colibri.footprint.wasm import HEADER, WasmModule, read_module
from colibri.footprint.wasm_map import WasmMap, parse_wasm_map
from colibri.package import Package

_MAP = "build/product.map"
_STRUCTURE = "structure of the module"
_ZEROED = ".bss"

COPIED = "weights, copied from the module"


def wasm_pieces(path: Path, map_text: str, owners: Owners, package: Package) -> tuple[Layout, list[Piece]]:
    """Say of every byte of the module and of its memory what it is.

    The module's data is in both: it is copied into the memory when the module starts.

    Raises:
        BadInput: not a module.
        ColibriError: the module, the map and `package.json` are not of one build.
    """
    module, placed, regions = read_module(path), parse_wasm_map(map_text), package.board.memory
    image = _memory(module, placed, package.board.stack)
    empty = Layout(regions, (), gaps=False)
    file, ram = empty.home(Holds.CODE), empty.home(Holds.DATA)
    memory = Extent(ram, 0, module.memory, 0, image.sections)
    stored = [Extent(file, one.address, one.bytes, one.address, (one,)) for one in image.sections if one.stored]
    layout = Layout(regions, (memory, *stored), gaps=False)
    pieces = [_copied(piece, ram) for piece in attribute(image, layout, placed.inputs, owners, package)]
    data = sum(extent.bytes for extent in stored)
    pieces += _structure(file, module, placed, owners, data)
    whole = Extent(file, 0, module.bytes, 0, ())
    return Layout(regions, (memory, whole), gaps=False), pieces


def _copied(piece: Piece, ram: int) -> Piece:
    """Weights are counted in the file; in the memory they are constants like others, so that nothing counts twice."""
    if piece.region != ram or piece.group is not GroupKind.WEIGHTS:
        return piece
    return Piece(piece.region, piece.bytes, GroupKind.TABLES, (COPIED,))


def _memory(module: WasmModule, placed: WasmMap, stack: int) -> Image:
    """The memory as an image, whose sections are the stack and the linker's segments.

    Raises:
        ColibriError: the segments leave the memory, or begin in the stack.
    """
    spans = [(".stack", 0, stack), *((one.name, one.address, one.bytes) for one in placed.segments)]
    if any(address < stack or address + size > module.memory for _, address, size in spans[1:]):
        raise ColibriError("module and map do not fit together", where=_MAP)
    sections = tuple(
        ElfSection(
            name, address, 0, size, stored=name not in (".stack", _ZEROED), writable=name != ".rodata", code=False
        )
        for name, address, size in spans
    )
    symbols = {name: Place(section, address) for name, (section, address) in placed.symbols.items()}
    return Image((), sections, symbols, {})


def _structure(region: int, module: WasmModule, placed: WasmMap, owners: Owners, data: int) -> list[Piece]:
    """The functions, and what makes a module of them and of the data.

    Args:
        data: bytes of the data section that are data.
    """
    code = [Piece(region, one.bytes, GroupKind.CODE, (owners.of(one.object).value, one.name)) for one in placed.code]
    within = {"code": sum(piece.bytes for piece in code), "data": data}
    pieces = [*code, Piece(region, HEADER, GroupKind.TABLES, (_STRUCTURE, "header"))]
    for section in module.sections:
        rest = section.bytes - (0 if section.custom else within.get(section.name, 0))
        if rest < 0:
            raise ColibriError(f"section {section.name} is smaller than the map says", where=_MAP)
        pieces += [Piece(region, rest, GroupKind.TABLES, (_STRUCTURE, section.name))] if rest else []
    return pieces
