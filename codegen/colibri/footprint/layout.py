"""Program headers → the stretches of each memory region that the image takes."""

from __future__ import annotations

from dataclasses import dataclass

from colibri.boards.profile import Board, BoardKind, Holds, MemoryKind, Region
from colibri.errors import ColibriError
from colibri.footprint.elf import ElfSection, Image, Segment


@dataclass(frozen=True)
class Extent:
    """A stretch of one region.

    Attributes:
        region: index into `Layout.regions`.
        start: address in the region.
        bytes: its length.
        run: address at which its first byte is when the program runs; differs from ``start`` for a load image.
        sections: what lies in it, by address.
    """

    region: int
    start: int
    bytes: int
    run: int
    sections: tuple[ElfSection, ...]

    @property
    def stored_copy(self) -> bool:
        """Whether these bytes are only the source that start-up copies from."""
        return self.start != self.run


@dataclass(frozen=True)
class Layout:
    """Where the image lies.

    Attributes:
        regions: of the board, in its order; ``image`` and ``ram`` for a board with a loader that names none.
        extents: by region and ascending address; they do not overlap.
        gaps: whether holes between extents are lost (bare metal) or never backed by memory (Linux).
    """

    regions: tuple[Region, ...]
    extents: tuple[Extent, ...]
    gaps: bool

    def used(self, region: int) -> int:
        """Bytes taken in a region: on bare metal up to the last one used, as the linker counts."""
        mine = [extent for extent in self.extents if extent.region == region]
        if not self.gaps:
            return sum(extent.bytes for extent in mine)
        return max((extent.start + extent.bytes for extent in mine), default=self.origin(region)) - self.origin(region)

    def origin(self, region: int) -> int:
        """First address of a region."""
        return self.regions[region].origin

    def home(self, what: Holds) -> int:
        """Index of the region where the plan puts ``what``."""
        for index, region in enumerate(self.regions):
            if what in region.holds:
                return index
        wanted = MemoryKind.FLASH if what in (Holds.CODE, Holds.WEIGHTS) else MemoryKind.RAM
        return next((index for index, region in enumerate(self.regions) if region.kind is wanted), 0)


def lay_out(image: Image, board: Board, *, overflowed: bool = False) -> Layout:
    """Assign every byte of every PT_LOAD segment to a region: p_memsz by p_vaddr, p_filesz by p_paddr.

    Args:
        overflowed: the image was linked past the limits. What lies behind the end of a region is then the rest of
            the segment that began in it, even where the next region begins; otherwise adjacent regions may share a
            segment.

    Raises:
        ColibriError: a segment begins outside every region of the board.
    """
    if board.kind is not BoardKind.BARE:
        return _lay_out_hosted(members(image), board)
    extents: list[Extent] = []
    for segment, sections in members(image):
        # With an origin inside a page, ld maps the file's own headers below it; nothing programs them into flash.
        headers = sections[0].address - segment.run if sections and segment.offset == 0 else 0
        run, move = segment.run + headers, segment.load - segment.run
        extents.extend(_cut(board, sections, run, segment.run + segment.memory, 0, overflowed))
        if move and segment.stored:
            extents.extend(_cut(board, sections, run, segment.run + segment.stored, move, overflowed))
    return Layout(board.memory, _merge(extents), gaps=True)


def members(image: Image) -> list[tuple[Segment, list[ElfSection]]]:
    """The sections of each segment, each section once."""
    members: dict[Segment, list[ElfSection]] = {segment: [] for segment in image.segments}
    for section in image.sections:
        homes = [one for one in image.segments if one.run <= section.address and section.end <= one.run + one.memory]
        if section.stored:
            homes = [one for one in homes if section.offset - one.offset == section.address - one.run]
        # NOBITS may also lie in a hole of another segment: its own has no bytes there, and no more than it needs.
        homes.sort(key=lambda one: (section.address < one.run + one.stored and not section.stored, one.memory))
        if homes:
            members[homes[0]].append(section)
    return list(members.items())


def _merge(extents: list[Extent]) -> tuple[Extent, ...]:
    """Ascending, without overlap: ld may put one segment into a hole between the sections of another."""
    merged: list[Extent] = []
    for extent in sorted(extents, key=lambda extent: (extent.region, extent.start, -extent.bytes)):
        last = merged[-1] if merged else None
        together = last and last.region == extent.region and not (last.stored_copy or extent.stored_copy)
        if last and together and extent.start < last.start + last.bytes:
            end = max(last.start + last.bytes, extent.start + extent.bytes)
            sections = sorted((*last.sections, *extent.sections), key=lambda section: section.address)
            merged[-1] = Extent(last.region, last.start, end - last.start, last.run, tuple(sections))
        else:
            merged.append(extent)
    return tuple(merged)


def _cut(board: Board, sections: list[ElfSection], run: int, end: int, move: int, overflowed: bool) -> list[Extent]:
    """Split ``run:end`` of a segment, whose bytes lie ``move`` further on, where a section of another region begins."""
    inside = [section for section in sections if run <= section.address < end]
    if overflowed:
        # Start-up copies from the region of the code; its address alone says nothing once that has overflowed.
        code = next((index for index, region in enumerate(board.memory) if Holds.CODE in region.holds), None)
        region = code if move and code is not None else _region_at(board, run + move, overflowed=True)
        return [Extent(region, run + move, end - run, run, tuple(inside))]
    cuts = [(run, _region_at(board, run + move))]
    for section in inside:
        region = _region_at(board, section.address + move)
        if region != cuts[-1][1]:
            cuts.append((section.address, region))
    extents = []
    for index, (start, region) in enumerate(cuts):
        stop = cuts[index + 1][0] if index + 1 < len(cuts) else end
        mine = tuple(section for section in inside if start <= section.address < stop)
        # The hole before the next region's section is nobody's.
        last = stop if stop == end else max((section.end for section in mine), default=start)
        extents.append(Extent(region, start + move, last - start, start, mine))
    return extents


def _region_at(board: Board, address: int, *, overflowed: bool = False) -> int:
    """Index of the region that holds an address; ``overflowed``: or of the last one that begins before it."""
    below = [
        (region.origin, index)
        for index, region in enumerate(board.memory)
        if region.origin <= address and (overflowed or address < region.origin + region.length)
    ]
    if not below:
        raise ColibriError(
            f"the image has bytes at 0x{address:08x}, which is in no region of the board",
            where=board.id,
            hint="linker script and board file disagree",
        )
    return max(below)[1]


def _lay_out_hosted(segments: list[tuple[Segment, list[ElfSection]]], board: Board) -> Layout:
    named = {region.kind: region for region in reversed(board.memory)}
    regions = (
        named.get(MemoryKind.FLASH, Region("image", MemoryKind.FLASH, 0)),
        named.get(MemoryKind.RAM, Region("ram", MemoryKind.RAM, 0)),
    )
    extents = [
        Extent(int(segment.writable), segment.run, segment.memory, segment.run, tuple(sections))
        for segment, sections in segments
    ]
    return Layout(regions, tuple(sorted(extents, key=lambda extent: extent.start)), gaps=False)
