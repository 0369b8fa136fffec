"""The footprint of an ELF file on its own: no package, no board file, no linker's map, only what is inside."""

from __future__ import annotations

import re
from pathlib import Path

from colibri.boards.profile import Board, BoardKind, Cpu, Holds, MemoryKind, Region, Toolchain
from colibri.errors import BadInput, ColibriError, in_bytes, printable
from colibri.footprint.attribute import GroupKind, Label, cut_up, paint
from colibri.footprint.elf import ElfSection, Image, read_image
from colibri.footprint.embedded import EmbeddedModel, find_models
from colibri.footprint.groups import grouped
from colibri.footprint.layout import Extent, Layout, lay_out, members
from colibri.footprint.owners import Content, Owner, content
from colibri.footprint.report import SCHEMA, RegionUse, Report
from colibri.symbol_table import Symbol, SymbolKind

_REGION = re.compile(r"^colibri_region_(.+)_(origin|length)$")
_FLASH = re.compile(r"flash|rom|[qo]spi|xip|nor", re.IGNORECASE)
_NO_SYMBOL = "without a symbol"


def report_on_elf(path: Path) -> Report:
    """Measure a program that has a Colibri model, or the linker script of a Colibri package, inside.

    The regions are those of the linker script's symbols ``colibri_region_NAME_origin`` and ``_length``; without them
    (Linux, or a script of another hand) they are ``image``, the segments that are only read, and ``ram``. Nothing is
    predicted. Code is split by symbols, weights by the section table in `model.bin`.

    Raises:
        BadInput: not an ELF file, not one of Colibri's, or its symbols are gone.
    """
    image = read_image(path, hint="give a package, a report in JSON or a linked program")
    models, regions = find_models(path, image), _regions(image, path.name)
    if not image.table:
        raise BadInput("the ELF file has no symbols", where=path.name, hint="report on it before it is stripped")
    if not models and not regions:
        raise BadInput(
            "neither a Colibri model nor its memory regions are inside",
            where=path.name,
            hint="give a program that is linked with a Colibri package",
        )
    try:
        overflowed = bool(regions) and _overflowed(image, regions)
        layout = lay_out(image, _board(path.name, regions), overflowed=overflowed) if regions else _by_segments(image)
    except BadInput:
        raise
    except ColibriError as error:
        raise BadInput(error.what, where=path.name, hint="the file's regions and its addresses disagree") from None
    pieces = cut_up(layout, _labels(image, models))
    uses = []
    for index, region in enumerate(layout.regions):
        groups = grouped([piece for piece in pieces if piece.region == index], {})
        used = layout.used(index)
        if (total := sum(group.bytes for group in groups)) != used:
            what = f"the sections in {region.name} take {in_bytes(total)}, the program headers say {used:,}"
            raise BadInput(what, where=path.name)
        if regions and used and not region.length:  # which would mean: without a limit
            raise BadInput(f"the length of {region.name} is 0, and it holds {in_bytes(used)}", where=path.name)
        over = max(0, used - region.length) if region.length else 0
        kind, length = region.kind, region.length
        uses.append(RegionUse(region.name, kind, region.origin, length, length, 0, used, None, over, groups))
    return Report(
        schema=SCHEMA,
        package=", ".join(_names(models).values()) or path.stem,
        board="",
        title="memory regions by the symbols inside" if regions else "by segments: no memory regions inside",
        scheme=", ".join(dict.fromkeys(model.scheme for model in models)),
        image=path.name,
        linked=not overflowed,
        regions=tuple(uses),
    )


def _names(models: tuple[EmbeddedModel, ...]) -> dict[str, str]:
    """Prefix to name of each model, once for all its files."""
    return {model.prefix: model.name for model in models}


def _regions(image: Image, where: str) -> tuple[Region, ...]:
    """By address; of two at one address, as in some emulators, the longer is the last: there the bytes go."""
    found: dict[str, dict[str, int]] = {}
    for symbol in image.table:
        if match := _REGION.match(symbol.name):
            found.setdefault(match[1], {})[match[2]] = symbol.value
    regions = []
    for name, ends in found.items():
        if len(ends) != 2:
            only = f"colibri_region_{name}_{next(iter(ends))}"
            raise BadInput(f"{only} stands alone: each region has an origin and a length", where=where)
        origin, length = ends["origin"], ends["length"]
        inside = [section for section in image.sections if origin <= section.address < origin + length]
        flash = not any(section.writable for section in inside) if inside else bool(_FLASH.search(name))
        holds = (Holds.CODE,) if any(section.code for section in inside) else ()
        regions.append(
            Region(printable(name), MemoryKind.FLASH if flash else MemoryKind.RAM, length, origin, holds=holds)
        )
    return tuple(sorted(regions, key=lambda region: (region.origin, region.length)))


def _overflowed(image: Image, regions: tuple[Region, ...]) -> bool:
    """Whether a section passes the end of its region: then the program was linked only to be measured."""

    def fits(section: ElfSection) -> bool:
        ends = [one.origin + one.length for one in regions if one.origin <= section.address < one.origin + one.length]
        return any(section.end <= end for end in ends)

    return not all(fits(section) for section in image.sections)


def _board(name: str, regions: tuple[Region, ...]) -> Board:
    """A board of which only the memory is known."""
    return Board(
        id=name,
        title="",
        sources=(),
        kind=BoardKind.BARE,
        cpu=Cpu("", "", fpu=False),
        kernels=(),
        port="",
        toolchain=Toolchain("", "", (), ()),
        memory=regions,
        emulators=(),
    )


def _by_segments(image: Image) -> Layout:
    """What is only read and what is written; bytes that start-up copies count in both, as they are stored twice."""
    extents = []
    for segment, sections in members(image):
        moved = segment.load != segment.run
        ram = segment.writable or moved
        extents.append(Extent(int(ram), segment.run, segment.memory, segment.run, tuple(sections)))
        if moved and segment.stored:
            stored = tuple(section for section in sections if section.stored)
            extents.append(Extent(0, segment.load, segment.stored, segment.run, stored))
    regions = (Region("image", MemoryKind.FLASH, 0), Region("ram", MemoryKind.RAM, 0))
    return Layout(regions, tuple(sorted(extents, key=lambda one: (one.region, one.start))), gaps=False)


def _labels(image: Image, models: tuple[EmbeddedModel, ...]) -> dict[ElfSection, list[Label]]:
    symbols: dict[str, list[Symbol]] = {}
    for symbol in image.table:
        if symbol.bytes:
            symbols.setdefault(symbol.section, []).append(symbol)
    prefixes = tuple(f"{model.prefix}_" for model in models)
    labels = {}
    for section in image.sections:
        known = [
            *_weights(section, models),
            *_memory(section, models, symbols.get(section.name, [])),
            *([Label(section.address, section.end, GroupKind.STACK, ("reserve",))] if section.name == ".stack" else ()),
        ]
        inside = symbols.get(section.name, [])
        labels[section] = paint(section, [*known, *_tiles(section, inside, prefixes, thumb=image.thumb)])
    return labels


def _weights(section: ElfSection, models: tuple[EmbeddedModel, ...]) -> list[Label]:
    labels = []
    for model in (one for one in models if one.section == section.name):
        outside = (model.name,) if len(_names(models)) > 1 else ()
        for run in (one for one in model.runs if one.bytes):
            start = model.address + run.start
            labels.append(Label(start, start + run.bytes, GroupKind.WEIGHTS, (*outside, *run.path)))
        whole = (model.address, model.address + model.bytes)
        labels.append(Label(*whole, GroupKind.WEIGHTS, (*outside, "alignment")))
    return labels


def _memory(section: ElfSection, models: tuple[EmbeddedModel, ...], symbols: list[Symbol]) -> list[Label]:
    """The models' memory blocks; what is in one (context, states, arena) only the package knows."""
    if not section.writable:
        return []
    # Longest first: the block of a model a_memory is a_memory_memory, which is none of a model a.
    known = sorted(_names(models).items(), key=lambda one: -len(one[0]))
    labels = []
    for symbol in symbols:
        # The only block of a package has no region in its name, several have.
        owner = next((name for prefix, name in known if f"{symbol.name}_".startswith(f"{prefix}_memory_")), None)
        if owner is not None:
            path = ("memory block",) if len(known) == 1 else (owner, "memory block")
            labels.append(Label(symbol.value, symbol.value + symbol.bytes, GroupKind.ARENA, path))
    return labels


def _tiles(section: ElfSection, symbols: list[Symbol], prefixes: tuple[str, ...], *, thumb: bool) -> list[Label]:
    """The section by its symbols, each byte once; of names for one place the first in the alphabet counts."""

    def start(symbol: Symbol) -> int:
        return symbol.value & ~1 if thumb and symbol.kind is SymbolKind.FUNCTION else symbol.value

    tiles, position = [], section.address
    for symbol in sorted(symbols, key=lambda one: (start(one), -one.bytes, one.name)):
        begin, end = max(start(symbol), position), min(start(symbol) + symbol.bytes, section.end)
        if begin >= end:
            continue
        if begin > position:
            tiles.append(_label(section, position, begin, (_NO_SYMBOL,)))
        tiles.append(_label(section, begin, end, (_owner(symbol, prefixes).value, printable(symbol.name))))
        position = end
    if position < section.end:
        tiles.append(_label(section, position, section.end, (_NO_SYMBOL,)))
    return tiles


def _label(section: ElfSection, start: int, end: int, path: tuple[str, ...]) -> Label:
    kind = content(section.name, section)
    if kind is Content.CODE:
        return Label(start, end, GroupKind.CODE, path)
    if kind is Content.TABLES:
        return Label(start, end, GroupKind.TABLES, path)
    return Label(start, end, GroupKind.DATA, (kind.value, *path))


def _owner(symbol: Symbol, prefixes: tuple[str, ...]) -> Owner:
    """Whose a symbol is, by its name: an ELF file says from which source only for what is local to one."""
    if symbol.name.startswith(prefixes) or symbol.file == "model.c" or symbol.file.startswith("layers_"):
        return Owner.MODEL
    if symbol.name.startswith("colibri_"):
        return Owner.RUNTIME
    if symbol.name.startswith("port_") or symbol.name == "main":
        return Owner.PORT
    return Owner.COMPILER if symbol.name.startswith("__aeabi_") else Owner.OTHER
