"""The report's totals against what ld itself prints, over many linker scripts."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from small_firmware import PLAIN, Firmware, script

from colibri.boards.profile import Holds, MemoryKind, Region
from colibri.footprint.attribute import GroupKind
from colibri.footprint.elf import read_image
from colibri.footprint.foreign import report_on_elf
from colibri.footprint.groups import Part
from colibri.footprint.linker import parse_usage
from colibri.footprint.report import Report, make_report
from colibri.package import load_package

FLASH_HOLDS = (Holds.CODE, Holds.WEIGHTS)
RAM_HOLDS = (Holds.DATA, Holds.STACK, Holds.ARENA)


def assert_sums(report: Report) -> None:
    def check(part: Part) -> None:
        if part.parts:
            assert sum(inner.bytes for inner in part.parts) == part.bytes
            for inner in part.parts:
                check(inner)

    for region in report.regions:
        assert sum(group.bytes for group in region.groups) == region.used == region.printed
        for group in region.groups:
            assert sum(part.bytes for part in group.parts) == group.bytes
            for part in group.parts:
                check(part)


def random_firmware(firmware: Firmware, seed: int) -> None:
    """Regions at odd or adjacent addresses, sections of odd sizes and alignments in random places and order."""
    rng = random.Random(seed)
    origin = rng.choice([0x0, 0x08000000, 0x08004000, 0x08000100, 0x0800_0004])
    bank = rng.choice([0x2000, 0x4000, 0x10000])
    firmware.regions = (
        Region("flash", MemoryKind.FLASH, bank, origin, holds=FLASH_HOLDS),
        Region("bank-2", MemoryKind.FLASH, bank, origin + bank + rng.choice([0, 0, 0x100])),
        Region("ram", MemoryKind.RAM, 0x4000, 0x20000000, holds=RAM_HOLDS),
        Region("axi", MemoryKind.RAM, 0x2000, rng.choice([0x20004000, 0x24000000])),
        Region("unused", MemoryKind.RAM, 0x400, 0x30000000),
    )
    asm, extra = [], []
    for index in range(rng.randint(3, 9)):
        kind = rng.choice(["rodata", "data", "bss", "noload", "empty"])
        size, align = rng.randint(1, 700), rng.choice([1, 2, 4, 8, 32])
        flags = '"a",%progbits' if kind == "rodata" else '"aw",%nobits' if kind == "bss" else '"aw",%progbits'
        if kind != "empty":
            # Kept whatever refers to it; two pieces, so that there is alignment inside the section too.
            asm.append(
                f"    .section .x{index},{flags}\n    .balign {align}\n    .space {size}\n    .balign 4\n    .space 5\n"
            )
        where = {
            "rodata": rng.choice(["flash", "bank_2"]),
            "data": f"{rng.choice(['ram', 'axi'])} AT> {rng.choice(['flash', 'bank_2'])}",
            "bss": rng.choice(["ram", "axi", "ram AT> flash"]),
        }.get(kind, rng.choice(["ram", "axi"]))
        noload = " (NOLOAD)" if kind == "noload" else ""
        at = rng.choice(["", f" ALIGN({rng.choice([8, 64])})"])
        extra.append(f"  .x{index}{noload} :{at} {{ KEEP(*(.x{index})) }} > {where}\n")
    lines = PLAIN.strip("\n").splitlines(keepends=True)
    for line in extra:
        lines.insert(rng.randrange(1, len(lines) + 1), line)
    firmware.sections = "".join(lines)
    firmware.sources["extra.S"] = "".join(asm)


@pytest.mark.parametrize("seed", range(14))
def test_rows_sum_to_what_the_linker_prints(firmware: Firmware, seed: int) -> None:
    random_firmware(firmware, seed)
    report = make_report(firmware.link())
    assert_sums(report)
    used = parse_usage((firmware.folder / "build/product.usage").read_text())
    assert [region.used for region in report.regions] == list(used.values())
    assert report.over() == []


def test_initialised_data_counts_in_flash_and_in_ram(firmware: Firmware) -> None:
    firmware.sources["app/main.c"] += '__attribute__((used, section(".data.kept"))) int kept[25] = {1};\n'
    firmware.sections = PLAIN.replace("*(.data*)", "KEEP(*(.data*))")
    flash, ram = make_report(firmware.link()).regions
    copies = [part.bytes for group in flash.groups for part in group.parts if part.name == "load image of .data"]
    data = [part.bytes for group in ram.groups for part in group.parts if part.name == ".data"]
    assert (copies, data) == ([104], [104])


def test_adjacent_banks_in_one_segment(firmware: Firmware) -> None:
    table = '    .section .tail,"a",%progbits\n    .space 77\n'
    firmware.sources["tail.S"] = table
    firmware.sections = PLAIN.replace("  .data :", "  .tail : { KEEP(*(.tail)) } > bank2\n  .data :")
    firmware.regions = (
        Region("flash", MemoryKind.FLASH, 2048, 0x08000000, holds=FLASH_HOLDS),
        Region("bank2", MemoryKind.FLASH, 2048, 0x08000800),
        Region("ram", MemoryKind.RAM, 16384, 0x20000000, holds=RAM_HOLDS),
    )
    sections = firmware.sections.replace("AT> flash", "AT> flash :copy").replace("> ram\n", "> ram :rest\n")
    sections = sections.replace("> flash\n", "> flash :rom\n").replace("> bank2\n", "> bank2 :rom\n")
    segments = "PHDRS { rom PT_LOAD; copy PT_LOAD; rest PT_LOAD; }\nSECTIONS"
    firmware.script = script(firmware.regions, sections).replace("SECTIONS", segments)
    report = make_report(firmware.link())
    assert_sums(report)
    assert report.regions[1].used == 77
    # What the test is about: one segment with a hole where the first bank ends.
    image = read_image(firmware.folder / "build/product.elf")
    assert any(one.run < 0x08000800 < one.run + one.memory for one in image.segments)
    assert report.regions[0].used < 2048


def test_memory_in_several_blocks(spread: Path) -> None:
    whole, alone = make_report(spread), report_on_elf(spread / "build/product.elf")
    assert_sums(whole)
    block = {GroupKind.CONTEXT, GroupKind.STATES, GroupKind.ARENA}
    expected = {one.region: one.total for one in load_package(spread).memory.blocks}
    for report in (whole, alone):
        found = {
            region.name: size
            for region in report.regions
            if (size := sum(group.bytes for group in region.groups if group.kind in block))
        }
        assert found == expected
    assert {one.name: one.used for one in alone.regions} == {one.name: one.used for one in whole.regions}


@pytest.mark.parametrize("march", ["rv32imac", "rv32imafc"])
def test_riscv_in_one_ram_counts_each_byte_once(firmware: Firmware, march: str) -> None:
    firmware.compiler = "riscv64-unknown-elf-gcc"
    firmware.cflags = (f"-march={march}", f"-mabi={'ilp32f' if 'f' in march else 'ilp32'}", "-mcmodel=medany")
    firmware.regions = (Region("ram", MemoryKind.RAM, 1 << 20, 0x80000000, holds=(*FLASH_HOLDS, *RAM_HOLDS)),)
    firmware.sections = PLAIN.replace("AT> flash", "").replace("> flash", "> ram")
    report = make_report(firmware.link())
    assert_sums(report)
    assert not any("load image" in part.name for group in report.regions[0].groups for part in group.parts)


@pytest.mark.parametrize(("flash", "ram"), [(1024, 16384), (65536, 512), (700, 300)])
def test_oversize_image_is_measured_and_over_by_what_the_linker_says(firmware: Firmware, flash: int, ram: int) -> None:
    firmware.regions = (
        Region("flash", MemoryKind.FLASH, flash, 0x08000000, holds=FLASH_HOLDS),
        Region("ram", MemoryKind.RAM, ram, 0x20000000, holds=RAM_HOLDS),
    )
    report = make_report(firmware.link(oversize=True))
    assert_sums(report)
    assert not report.linked
    limits = {"flash": flash, "ram": ram}
    used = parse_usage((firmware.folder / "build/oversize.usage").read_text())
    assert report.over() == [(name, used[name] - limits[name]) for name in limits if used[name] > limits[name]]
