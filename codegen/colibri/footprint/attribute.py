"""Bytes → parts: one pass over the image, every byte exactly once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from colibri.errors import ColibriError, in_bytes
from colibri.footprint.elf import ElfSection, Image, Place
from colibri.footprint.layout import Extent, Layout
from colibri.footprint.linker import Input
from colibri.footprint.owners import Content, Owner, Owners, content, stem, subject
from colibri.package import Block, Package, Section

_NAMES_SHOWN = 3


class GroupKind(StrEnum):
    """The groups of a region, in the order of the report."""

    CODE = "code"
    WEIGHTS = "weights"
    TABLES = "tables"
    DATA = "data"
    CONTEXT = "context"
    STATES = "states"
    ARENA = "arena"
    STACK = "stack"
    PADDING = "padding"
    UNATTRIBUTED = "unattributed"


# What people read instead of the name; budgets and machines take the name.
TITLES = {GroupKind.DATA: ".data and .bss", GroupKind.STACK: "stack reserve"}


@dataclass(frozen=True)
class Piece:
    """A run of bytes with one meaning.

    Attributes:
        region: index into `Layout.regions`.
        bytes: its length; never 0.
        group: where the report counts it.
        path: rows below the group, from the outside in.
    """

    region: int
    bytes: int
    group: GroupKind
    path: tuple[str, ...]


@dataclass(frozen=True)
class Label:
    """What the bytes from ``start`` up to ``end`` are: run addresses in one section."""

    start: int
    end: int
    group: GroupKind
    path: tuple[str, ...]


def attribute(image: Image, layout: Layout, inputs: Iterable[Input], owners: Owners, package: Package) -> list[Piece]:
    """Say of every byte of every region what it is.

    Args:
        inputs: input sections as the linker's map places them, in any order.

    Raises:
        ColibriError: ``PREFIX_bin`` or a block of the model's memory is missing, or is not wholly in the image.
    """
    known = _known(image, package)
    by_output: dict[str, list[Input]] = {}
    for one in inputs:
        by_output.setdefault(one.output, []).append(one)
    labels = {
        section: paint(section, [*known.get(section.name, []), *_claims(section, known, by_output, image, owners)])
        for section in image.sections
    }
    return cut_up(layout, labels)


def cut_up(layout: Layout, labels: dict[ElfSection, list[Label]]) -> list[Piece]:
    """The regions as pieces.

    Args:
        labels: of each section, without gap or overlap.
    """
    pieces: list[Piece] = []
    for index in range(len(layout.regions)):
        position = layout.origin(index)
        for extent in (one for one in layout.extents if one.region == index):
            if layout.gaps and extent.start > position:
                pieces.append(Piece(index, extent.start - position, GroupKind.PADDING, ("between sections",)))
            position = extent.start + extent.bytes
            pieces.extend(_fill(extent, labels))
    return pieces


def _fill(extent: Extent, labels: dict[ElfSection, list[Label]]) -> Iterator[Piece]:
    """The pieces of one extent; what no section covers is padding, but before the first one the ELF header."""
    position, end, first = extent.run, extent.run + extent.bytes, True
    for section in extent.sections:
        if section.address < position:
            # Only in an image that was linked past an error of the linker.
            rest = max(0, section.end - position)
            yield from [Piece(extent.region, rest, GroupKind.UNATTRIBUTED, ("overlapping sections",))] if rest else []
            position += rest
            continue
        if section.address > position:
            gap = (GroupKind.TABLES, ("ELF header",)) if first else (GroupKind.PADDING, ("between sections",))
            yield Piece(extent.region, section.address - position, *gap)
        first, position = False, section.end
        if extent.stored_copy:
            group = GroupKind.CODE if section.code else GroupKind.DATA
            yield Piece(extent.region, section.bytes, group, (f"load image of {section.name}",))
        else:
            yield from (Piece(extent.region, part.end - part.start, part.group, part.path) for part in labels[section])
    if position < end:
        tail = (GroupKind.UNATTRIBUTED, ("no section",)) if first else (GroupKind.PADDING, ("between sections",))
        yield Piece(extent.region, end - position, *tail)


def _claims(
    section: ElfSection,
    known: dict[str, list[Label]],
    by_output: dict[str, list[Input]],
    image: Image,
    owners: Owners,
) -> Iterator[Label]:
    """What the map says of a section; the last label covers all of it, for what the map does not say.

    What lies around a known symbol in its input section is padding.
    """
    anchors = [label.start for label in known.get(section.name, [])]
    if section.name == ".stack":
        yield Label(section.address, section.end, GroupKind.STACK, ("reserve",))
    for one in by_output.get(section.name, []):
        end = one.address + one.bytes
        if one.fill:
            yield Label(one.address, end, GroupKind.PADDING, ("alignment",))
        elif any(one.address <= anchor < end for anchor in anchors):
            yield Label(one.address, end, GroupKind.PADDING, (f"around {section.name}",))
        else:
            yield Label(one.address, end, *_meaning(one, section, image, owners))
    yield Label(section.address, section.end, GroupKind.UNATTRIBUTED, (section.name,))


def paint(section: ElfSection, labels: list[Label]) -> list[Label]:
    """Give each byte of a section to the first label that claims it.

    Args:
        labels: fast when they follow each other without gaps, as what has not been claimed is searched for each.
    """
    free = [(section.address, section.end)]
    painted: list[Label] = []
    for label in labels:
        rest = []
        for low, high in free:
            left, right = max(low, label.start), min(high, label.end)
            if left >= right:
                rest.append((low, high))
                continue
            painted.append(Label(left, right, label.group, label.path))
            rest.extend(part for part in ((low, left), (right, high)) if part[0] < part[1])
        free = rest
    return painted


def _meaning(one: Input, section: ElfSection, image: Image, owners: Owners) -> tuple[GroupKind, tuple[str, ...]]:
    owner, kind = owners.of(one.object), content(one.name, section)
    leaf = (
        ()
        if owner in (Owner.LIBC, Owner.LINKER)
        else (subject(one.name) or _functions(one, image) or stem(one.object),)
    )
    if kind is Content.CODE:
        return GroupKind.CODE, (owner.value, *leaf)
    if kind is Content.TABLES:
        return GroupKind.TABLES, (owner.value, *leaf)
    return GroupKind.DATA, (kind.value, owner.value, *leaf)


def _functions(one: Input, image: Image) -> str:
    """Names of the functions in an input section that has no name of its own; empty when there are none or too many."""
    places = [place for place in image.functions if place.section == one.output]
    inside = sorted(place.address for place in places if one.address <= place.address < one.address + one.bytes)
    if len(inside) > _NAMES_SHOWN:
        return ""
    aliases = (image.functions[Place(one.output, address)] for address in inside)
    return ", ".join(min(names, key=lambda name: (name.startswith("__aeabi"), name)) for names in aliases)


def _known(image: Image, package: Package) -> dict[str, list[Label]]:
    """Labels that package.json knows, by the output section that they are in."""
    known: dict[str, list[Label]] = {}
    for symbol, length, labels in (
        *(
            (f"{package.prefix}_{name}", length, partial(_weights, sections=sections, length=length))
            for name, length, sections in package.weight_files()
        ),
        *(
            (f"{package.prefix}_{block.name}", block.total, partial(_block, block=block))
            for block in package.memory.blocks
        ),
    ):
        if length:
            place = _place(image, symbol, length)
            known.setdefault(place.section, []).extend(labels(place.address))
    return known


def _weights(base: int, sections: Sequence[Section], length: int) -> list[Label]:
    sections = sorted(sections, key=lambda section: section.offset)
    ends = [section.offset + section.bytes for section in sections]
    starts = [*(section.offset for section in sections[1:]), length][: len(ends)]
    if any(end > start for end, start in zip(ends, starts, strict=True)):
        raise ColibriError("sections of model.bin overlap or pass its end", where="package.json")
    labels = [
        Label(
            base + section.offset,
            base + section.offset + section.bytes,
            GroupKind.WEIGHTS,
            (*section.part.split(" / "), *((section.name,) if section.name != section.part else ())),
        )
        for section in sections
        if section.bytes
    ]
    return [*labels, Label(base, base + length, GroupKind.WEIGHTS, ("alignment",))]


def _block(base: int, block: Block) -> list[Label]:
    states, arena = base + block.context, base + block.context + block.states
    kinds = {"context": GroupKind.CONTEXT, "state": GroupKind.STATES}
    labels = [
        Label(base + span.offset, base + span.offset + span.bytes, kinds[span.kind], (span.name,))
        for span in block.spans
        if span.kind in kinds and span.bytes
    ]
    return [
        *labels,
        Label(base, states, GroupKind.CONTEXT, ("alignment",)),
        Label(states, arena, GroupKind.STATES, ("alignment",)),
        Label(arena, base + block.total, GroupKind.ARENA, ("buffers",)),
    ]


def _place(image: Image, symbol: str, length: int) -> Place:
    """Where a symbol is that must have ``length`` bytes behind it in its section."""
    place = image.symbols.get(symbol)
    if place is None:
        raise ColibriError(f"the image has no symbol {symbol}", hint="build the package again")
    end = next((one.end for one in image.sections if one.name == place.section), 0)
    if place.address + length > end:
        raise ColibriError(
            f"{symbol} is shorter than the {in_bytes(length)} that package.json says", hint="build the package again"
        )
    return place
