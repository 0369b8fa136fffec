"""What is where in a linked image, with GNU ld and with lld."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from device_images import BOARDS, build_device, is_bare, plan_in, targets
from elftools.elf.elffile import ELFFile

from colibri.boards.load import load_board
from colibri.boards.profile import Board, Emulator, EmulatorKind, Holds
from colibri.emit.linker import block_section, linker_script, port_files
from colibri.emulate.symbols import Symbols
from colibri.errors import BadInput
from colibri.paths import data_folder

STM = load_board("stm32f405")
PLAN = plan_in(STM)


@pytest.mark.parametrize("clang", [False, True], ids=["ld", "lld"])
@targets(is_bare)
def test_sections_lie_in_their_regions(board: Board, emulator: Emulator, clang: bool, tmp_path: Path) -> None:
    image = build_device(board, emulator, tmp_path, clang=clang)
    values = Symbols.of(image).values
    memory = block_section(plan_in(board).memory.blocks[0])
    place = {
        ".text": Holds.CODE, ".rodata": Holds.CODE, ".data": Holds.DATA, ".bss": Holds.DATA,
        ".stack": Holds.STACK, memory: Holds.ARENA,
    }  # fmt: skip
    with image.open("rb") as file:
        elf = ELFFile(file)
        sections = {section.name: section for section in elf.iter_sections()}
        for name, what in place.items():
            section = sections[name]
            region = board.region_for(what)
            origin = values[f"colibri_region_{region.name}_origin"]
            assert origin == emulator.origins.get(region.name, region.origin)
            assert values[f"colibri_region_{region.name}_length"] == region.length
            assert origin <= section["sh_addr"]
            assert section["sh_addr"] + section["sh_size"] <= origin + region.length
        stack = sections[".stack"]
        assert (stack["sh_addr"], stack["sh_size"]) == (values["port_stack_limit"], board.stack)
        assert stack["sh_addr"] == values[f"colibri_region_{board.region_for(Holds.STACK).name}_origin"]
        for name in (".stack", ".bss", memory):
            assert sections[name]["sh_type"] == "SHT_NOBITS"


@targets(is_bare)
def test_segments_do_not_overlap_and_are_not_writable_code(board: Board, emulator: Emulator, tmp_path: Path) -> None:
    image = build_device(board, emulator, tmp_path)
    page = 4096 if emulator.kind is EmulatorKind.QEMU_USER else 1
    spans = []
    with image.open("rb") as file:
        for segment in ELFFile(file).iter_segments("PT_LOAD"):
            assert segment["p_flags"] & 3 != 3
            start, end = segment["p_vaddr"], segment["p_vaddr"] + segment["p_memsz"]
            spans.append((start // page, -(-end // page)))
    spans.sort()
    assert all(left[1] <= right[0] for left, right in pairwise(spans))


def test_script_of_the_board_itself_has_its_own_origins() -> None:
    board = load_board("nucleo-h743zi")
    script = linker_script(board, None, "demo", plan_in(board))
    assert "ORIGIN = 0x24000000, LENGTH = 512K" in script
    assert "AT> flash" in script
    assert "demo" in script
    moved = next(emulator for emulator in board.emulators if emulator.origins)
    assert "ORIGIN = 0x60000000, LENGTH = 512K" in linker_script(board, moved, "demo", plan_in(board))
    assert "\n\n\n" not in script


def test_linux_needs_no_script() -> None:
    with pytest.raises(BadInput, match="only bare metal has a linker script"):
        linker_script(load_board("x86-64-v3"), None, "demo", PLAN)


@pytest.mark.parametrize("stack", [0, -16, 1000])
def test_impossible_stack(stack: int) -> None:
    with pytest.raises(BadInput, match="multiple of 16"):
        linker_script(msgspec.structs.replace(STM, stack=stack), None, "demo", PLAN)


def test_unknown_region_of_an_emulator() -> None:
    emulator = msgspec.structs.replace(STM.emulators[0], origins={"tcm": 0})
    with pytest.raises(BadInput, match="'tcm'"):
        linker_script(STM, emulator, "demo", PLAN)


def test_port_files_exist() -> None:
    for board in map(load_board, BOARDS):
        files = port_files(board)
        assert len(files) == len(set(files))
        assert all((data_folder("runtime_c") / "ports" / name).is_file() for name in files)
    with pytest.raises(BadInput, match="no port 'abacus'"):
        port_files(msgspec.structs.replace(STM, port="abacus"))
