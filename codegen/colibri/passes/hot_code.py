"""Which kernels run from RAM: those that do most of the work, as many as the region holds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from colibri.boards.profile import Board, Holds, MemoryKind, Region
from colibri.errors import BadInput
from colibri.package import FastCode, OpFact
from colibri.passes.pins import Pins, pinned

_ALIGN = 8


def _free(region: Region) -> bool:
    """Whether a region of RAM can hold code. Buffers that are pinned there too are refused later."""
    return region.kind is MemoryKind.RAM and not set(region.holds) - {Holds.KERNELS}


def fast_code(
    board: Board, ops: Sequence[tuple[OpFact, Collection[str]]], sizes: Mapping[str, int], spare: int, pins: Pins
) -> FastCode | None:
    """Choose the kernels that are copied into RAM at start-up; None when the board has no region for them.

    Args:
        ops: the steps of the model, with the functions that each of them runs through.
        sizes: function to bytes of code, as far as they can be known before the compiler ran.
        spare: bytes by which their sum may be too low.
        pins: a kernel pinned to a region of flash stays there.

    Raises:
        BadInput: pins that fit nothing, or that name two regions of RAM.
    """
    work: dict[str, int] = defaultdict(int)
    for op, functions in ops:
        for function in functions:
            work[function] += 1 + op.macs + op.macs_per_position * op.reach
    regions = {
        region.name: region
        for region in board.memory
        if region.length and (Holds.CODE in region.holds or _free(region))
    }
    default = next((region.name for region in board.memory if Holds.KERNELS in region.holds), "")
    wanted = pinned(pins.kernels, sorted(work), regions, f"{pins.source}: kernels")
    in_ram = sorted({name for name in wanted.values() if regions[name].kind is MemoryKind.RAM})
    if len(in_ram) > 1:
        raise BadInput(f"kernels are to be in {in_ram[0]!r} and in {in_ram[1]!r}", where=f"{pins.source}: kernels")
    home = in_ram[0] if in_ram else default
    if not home:
        return None
    room, chosen = regions[home].limit - spare, []
    for name in sorted(work, key=lambda name: (name not in wanted, -work[name] / max(1, sizes[name]), name)):
        size = -(-sizes[name] // _ALIGN) * _ALIGN
        if wanted.get(name, default) == home and size <= room:
            room -= size
            chosen.append(name)
    return FastCode(home, tuple(sorted(chosen))) if chosen else None
