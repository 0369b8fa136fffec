"""What must hold in the regions of a board: each alone, among each other, and where an emulator has them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from colibri.boards.locate import KeyPath
from colibri.boards.places import At, first_repeated
from colibri.boards.profile import Board, BoardKind, Holds, MemoryKind, Region
from colibri.errors import BadInput, shown

# What a core asks of the address of its vectors, which stand first in the code. An M-profile table is aligned to the
# next power of two at or above its size, and to no less than this; ours has 64 bytes.
VECTORS_ALIGN = {"arm": 128, "riscv32": 4, "riscv64": 4}

_READ_ONLY = frozenset({Holds.CODE, Holds.WEIGHTS})
_ADDRESSES = 1 << 32
_LONGEST = 1 << 48  # bytes; what a Linux process can address
_HIGHEST_COST = 1_000_000

# What the grammar of linker scripts takes for words of its own where a region is named.
_LINKER_WORDS = frozenset({"l", "len", "o", "org"})

# Armv7-M and Armv8-M Architecture Reference Manuals, system address map: the same on every chip of the M profile. RAM
# may lie outside its range (tightly coupled memory below, backup RAM above), flash may not lie in it.
_ARM_CODE = range(0, 0x2000_0000)
_ARM_SRAM = range(0x2000_0000, 0x4000_0000)
_ARM_NO_CODE = (range(0x4000_0000, 0x6000_0000), range(0xA000_0000, 0x1_0000_0000))  # execute-never
_ARM_SYSTEM = range(0xE000_0000, 0xE010_0000)  # private peripheral bus


def memory_faults(board: Board, at: At) -> Iterator[BadInput]:
    """Of the regions as the file has them."""
    bare = board.kind is BoardKind.BARE
    for index, region in enumerate(board.memory):
        yield from _name_faults(region, at, index)
        yield from _size_faults(region, bare, at, index)
        yield from _use_faults(board, region, at, index)
    m_profile = bare and board.cpu.arch == "arm"
    swapped = m_profile and _are_swapped(board.memory)
    if swapped:
        flash, ram = swapped
        what = f"the origins of {flash.name!r} and {ram.name!r} are swapped: flash at {flash.origin:#x}, where the M"
        what += f" profile has SRAM, and RAM at {ram.origin:#x}, where it has flash"
        yield BadInput(what, where=at(("memory", board.memory.index(flash), "origin")), hint="exchange them")
    elif m_profile:
        for index, region in enumerate(board.memory):
            yield from _arm_faults(region, at, index)
    yield from _share_faults(board, at)


def map_faults(board: Board, at: At) -> Iterator[BadInput]:
    """Of a board file only: a package moves just the regions that it uses, and the others may then be in the way."""
    used = tuple(region for region in board.memory if region.holds)
    for index, emulator in enumerate(board.emulators):
        here = at(("emulators", index, "origins"))
        for region in used:
            origin = emulator.origins.get(region.name, region.origin)
            if board.kind is BoardKind.BARE and not 0 <= origin <= _ADDRESSES - region.length:
                what = f"in its memory map {region.name!r} has {region.length:,} bytes from {_hex(origin)}"
                yield BadInput(what, where=here, hint="addresses have 32 bits")
        if emulator.origins and (pair := _overlap(used, emulator.origins)):
            yield BadInput(f"in its memory map, regions {pair[0]!r} and {pair[1]!r} overlap", where=here)


def vector_faults(board: Board, origins: dict[str, int], at: At, key: KeyPath) -> Iterator[BadInput]:
    """The linker would put the vectors behind the origin, where the core does not look.

    Args:
        origins: regions that lie elsewhere.
        key: of the list of regions, or of these origins.
    """
    code = next((region for region in board.memory if Holds.CODE in region.holds), None)
    align = VECTORS_ALIGN.get(board.cpu.arch)
    if code is None or align is None:
        return
    origin = origins.get(code.name, code.origin)
    if origin % align:
        place = (*key, code.name) if code.name in origins else ("memory", board.memory.index(code), "origin")
        yield BadInput(
            f"code at {_hex(origin)}, where the core takes no vectors",
            where=at(place),
            hint=f"give an origin that is a multiple of {align}, the chip's own or where its bootloader jumps to",
        )


def room_faults(board: Board, at: At) -> Iterator[BadInput]:
    """What is set aside must leave something to place."""
    for key, size, what in (("stack", board.stack, Holds.STACK), ("reserve", board.reserve, Holds.DATA)):
        region = board.region_for(what)
        if size >= region.limit:
            yield BadInput(
                f"{size} bytes, and {region.name!r} may hold {region.limit}",
                where=at((key,)),
                hint=f"lower {key} until there is room for the rest",
            )


def _name_faults(region: Region, at: At, index: int) -> Iterator[BadInput]:
    here = at(("memory", index, "name"))
    if not re.fullmatch(r"[a-z][a-z0-9_]*", region.name):
        what = f"'{shown(region.name)}' becomes a linker symbol"
        yield BadInput(what, where=here, hint="use small letters, digits and _")
    elif region.name in _LINKER_WORDS:
        yield BadInput(f"{region.name!r} is a word of linker scripts", where=here, hint="choose another one")


def _size_faults(region: Region, bare: bool, at: At, index: int) -> Iterator[BadInput]:
    end = region.origin + region.length
    if region.origin < 0 or region.length < (1 if bare else 0) or end > (_ADDRESSES if bare else _LONGEST):
        key = "origin" if region.origin < 0 or region.length > 0 else "length"
        what = f"{region.name!r} has {region.length:,} bytes from {_hex(region.origin)}"
        hint = "give the chip's own numbers, in bytes" + (", below 4 GB" if bare and end > _ADDRESSES else "")
        yield BadInput(what, where=at(("memory", index, key)), hint=hint)
    elif not 0 <= region.budget <= region.length:
        what = f"{region.budget:,} bytes of the {region.length:,} that {region.name!r} has"
        yield BadInput(what, where=at(("memory", index, "budget")), hint="a budget is a part of the region")
    elif region.warn < 0 or (region.limit and region.warn > region.limit):
        what = f"{region.warn:,} bytes, and {region.limit:,} may be used"
        hint = "give at most the budget, or 0 for no warning"
        yield BadInput(what, where=at(("memory", index, "warn")), hint=hint)


def _use_faults(board: Board, region: Region, at: At, index: int) -> Iterator[BadInput]:
    for place, held in enumerate(region.holds):
        if (region.kind is MemoryKind.FLASH) != (held in _READ_ONLY):
            what = f"{region.name!r} is of kind {region.kind} and cannot hold {held}"
            hint = "are flash and ram swapped?"
            yield BadInput(what, where=at(("memory", index, "holds", place)), hint=hint)
            break
    if repeated := first_repeated(region.holds):
        yield BadInput(f"{repeated} is there twice", where=at(("memory", index, "holds")))
    if not 1 <= region.cost <= _HIGHEST_COST:
        hint = f"the fastest memory has 1, others more, at most {_HIGHEST_COST:,}"
        yield BadInput(f"cost {region.cost}", where=at(("memory", index, "cost")), hint=hint)
    if Holds.KERNELS in region.holds and len(region.holds) > 1:
        what = f"{region.name!r} holds kernels and something else"
        yield BadInput(what, where=at(("memory", index, "holds")), hint="split it into two regions")
    yield from _clock_faults(board, region, at(("memory", index, "clock")))


def _clock_faults(board: Board, region: Region, here: str) -> Iterator[BadInput]:
    if (clock := region.clock) is None:
        return
    if board.cpu.arch != "arm":
        yield BadInput("only the start-up for Arm M profile sets clocks", where=here)
    if Holds.STACK in region.holds or Holds.CODE in region.holds:
        what = f"a clock for what the start-up itself needs, in {region.name!r}"
        yield BadInput(what, where=here, hint="it is on already, or nothing runs")
    if not (0 < clock.register < _ADDRESSES and clock.register % 4 == 0 and 0 < clock.bits < _ADDRESSES):
        what = f"clock bits {_hex(clock.bits)} in a register at {_hex(clock.register)}"
        yield BadInput(what, where=here, hint="a register has an address that is a multiple of 4, and 32 bits")


def _are_swapped(regions: tuple[Region, ...]) -> tuple[Region, Region] | None:
    """A flash where only SRAM can be, and the RAM of the variables where every chip has its flash."""
    flash = next((one for one in regions if one.kind is MemoryKind.FLASH and one.origin in _ARM_SRAM), None)
    ram = next((one for one in regions if Holds.DATA in one.holds and one.kind is MemoryKind.RAM), None)
    return (flash, ram) if flash and ram and ram.origin in _ARM_CODE else None


def _arm_faults(region: Region, at: At, index: int) -> Iterator[BadInput]:
    """What the system address map of the M profile rules out on every chip."""
    here = at(("memory", index, "origin"))
    last = region.origin + region.length - 1
    if region.kind is MemoryKind.FLASH and region.origin in _ARM_SRAM:
        what = f"flash {region.name!r} at {region.origin:#x}, where the M profile has SRAM"
        yield BadInput(what, where=here, hint="are flash and ram swapped?")
    elif last >= _ARM_SYSTEM.start and region.origin in range(_ARM_SYSTEM.stop):
        what = f"{region.name!r} ends at {last:#x}: the M profile has its own registers from {_ARM_SYSTEM.start:#x}"
        yield BadInput(what, where=here, hint="give the chip's own numbers")
    elif any(region.origin in one for one in _ARM_NO_CODE) and {Holds.CODE, Holds.KERNELS} & {*region.holds}:
        what = f"{region.name!r} at {region.origin:#x} is to hold code, which the M profile never runs there"
        yield BadInput(what, where=here, hint="code lies below 0x40000000, or from 0x60000000 to 0x9fffffff")


def _share_faults(board: Board, at: At) -> Iterator[BadInput]:
    """Among the regions."""
    if repeated := first_repeated(region.name for region in board.memory):
        second = [index for index, region in enumerate(board.memory) if region.name == repeated][1]
        yield BadInput(f"two regions are called '{shown(repeated)}'", where=at(("memory", second, "name")))
    for what in (what for what in Holds if what is not Holds.KERNELS):
        if not any(what in region.holds for region in board.memory):
            hint = "name it in one region's `holds`"
            yield BadInput(f"no region holds {what}", where=at(("memory",)), hint=hint)
    if board.kind is not BoardKind.BARE:
        if kind := first_repeated(region.kind for region in board.memory):
            twice = f"two regions of kind {kind}, and nobody can tell the loader which one to use"
            yield BadInput(twice, where=at(("memory",)), hint="give one of each kind")
    elif pair := _overlap(board.memory, {}):
        names = [region.name for region in board.memory]
        later = max(map(names.index, pair))
        spans = " and ".join(_span(board.memory[names.index(name)]) for name in pair)
        yield BadInput(f"regions overlap: {spans}", where=at(("memory", later, "origin")))


def _span(region: Region) -> str:
    return f"{region.name!r} from {_hex(region.origin)} to {_hex(region.origin + region.length - 1)}"


def _overlap(regions: tuple[Region, ...], origins: dict[str, int]) -> tuple[str, str] | None:
    """Names of two regions that share an address."""
    spans = sorted((origins.get(region.name, region.origin), region.length, region.name) for region in regions)
    return next(
        ((left[2], right[2]) for left, right in pairwise(spans) if left[0] + left[1] > right[0]),
        None,
    )


def _hex(number: int) -> str:
    return f"{number:#x}"
