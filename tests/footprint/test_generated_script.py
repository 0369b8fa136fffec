"""Images linked with the linker script that the generator writes."""

from __future__ import annotations

import msgspec
import pytest
from small_firmware import FLASH, RAM, Firmware

from colibri.boards.profile import Cpu, Holds, MemoryKind, Region
from colibri.emit.linker import Plan, linker_script
from colibri.footprint.attribute import GroupKind
from colibri.footprint.report import make_report

ONE_OF_EACH = (FLASH, RAM)
SPREAD = (
    Region("flash", MemoryKind.FLASH, 65536, 0x08000000, holds=(Holds.CODE,)),
    Region("bank2", MemoryKind.FLASH, 65536, 0x08010000, holds=(Holds.WEIGHTS,)),
    Region("dtcm", MemoryKind.RAM, 16384, 0x20000000, holds=(Holds.DATA, Holds.STACK)),
    Region("axi", MemoryKind.RAM, 16384, 0x24000000, holds=(Holds.ARENA,)),
)
RISCV = (
    Region("flash", MemoryKind.FLASH, 65536, 0x80000000, holds=(Holds.CODE, Holds.WEIGHTS)),
    Region("ram", MemoryKind.RAM, 16384, 0x80010000, holds=(Holds.STACK, Holds.DATA, Holds.ARENA)),
)


# Not enough for arena, for weights, for code, for both: also where another region begins right behind it.
LENGTHS = {
    "product": {},
    "short of RAM": {Holds.ARENA: 512},
    "short of flash": {Holds.WEIGHTS: 512},
    "very short of flash": {Holds.CODE: 64},
    "short of both": {Holds.WEIGHTS: 768, Holds.ARENA: 256, Holds.CODE: 256},
}


def shorten(regions: tuple[Region, ...], lengths: dict[Holds, int]) -> tuple[Region, ...]:
    """Cut regions; what followed a region without a hole still does."""
    moved: list[Region] = []
    for region in regions:
        length = min([region.length, *(lengths[what] for what in region.holds if what in lengths)])
        before = next((old for old in regions if old.origin + old.length == region.origin), None)
        origin = region.origin
        if before:
            behind = next(new for new in moved if new.name == before.name)
            origin = behind.origin + behind.length
        moved.append(msgspec.structs.replace(region, length=length, origin=origin))
    return tuple(moved)


@pytest.mark.parametrize("regions", [ONE_OF_EACH, SPREAD, RISCV], ids=["two", "four", "riscv"])
@pytest.mark.parametrize("shortage", list(LENGTHS))
def test_report_of_a_generated_script(firmware: Firmware, regions: tuple[Region, ...], shortage: str) -> None:
    cpu = Cpu("arm", "Cortex-M3", fpu=False)
    if regions is RISCV:
        cpu = Cpu("riscv32", "rv32imac", fpu=False)
        firmware.compiler = "riscv64-unknown-elf-gcc"
        firmware.cflags = ("-march=rv32imac", "-mabi=ilp32", "-mcmodel=medany")
    oversize = bool(LENGTHS[shortage])
    firmware.regions = shorten(regions, LENGTHS[shortage])
    arena = next(region.name for region in regions if Holds.ARENA in region.holds)
    firmware.sources = {
        name: text.replace(".section .model,", ".section .rodata.model,")
        .replace("main(", "port_start(")
        .replace(".colibri.ram", f".colibri.{arena}")
        for name, text in firmware.sources.items()
    }
    # The script reserves the stack itself.
    firmware.sources["demo_data.S"] = firmware.sources["demo_data.S"].split("    .section .stack")[0]
    firmware.sources["app/main.c"] = firmware.sources["app/main.c"].replace("(void *)main", "(void *)port_start")
    board = msgspec.structs.replace(firmware.package().board, cpu=cpu)
    firmware.script = linker_script(board, None, "demo", Plan(firmware.package().memory))
    report = make_report(firmware.link(oversize=oversize))

    sizes: dict[GroupKind, int] = {}
    for region in report.regions:
        for group in region.groups:
            sizes[group.kind] = sizes.get(group.kind, 0) + group.bytes
            assert group.predicted in (None, group.bytes), group.kind
    assert {kind: sizes[kind] for kind in (GroupKind.WEIGHTS, GroupKind.CONTEXT, GroupKind.STATES)} == {
        GroupKind.WEIGHTS: 896,
        GroupKind.CONTEXT: 48,
        GroupKind.STATES: 208,
    }
    assert (sizes[GroupKind.ARENA], sizes[GroupKind.STACK]) == (704, 512)
    assert GroupKind.UNATTRIBUTED not in sizes
    assert {name for name, _ in report.over()} == {
        one.name for one in regions if any(what in one.holds for what in LENGTHS[shortage])
    }
