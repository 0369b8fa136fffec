"""The boards: what their files say, read through what they inherit."""

from __future__ import annotations

import pytest

from colibri.boards.load import board_names, load_board
from colibri.boards.profile import BoardKind, EmulatorKind, Holds, Proves
from colibri.passes.kernels import KernelSet


@pytest.mark.parametrize("name", board_names())
def test_every_board_says_where_its_numbers_come_from(name: str) -> None:
    board = load_board(name)
    assert board.id == name
    assert board.sources
    assert board.toolchain.apt
    assert all(emulator.note for emulator in board.emulators)
    no_package = (EmulatorKind.NATIVE, EmulatorKind.WASMTIME)
    assert all(emulator.apt for emulator in board.emulators if emulator.kind not in no_package)
    for emulator in board.emulators:
        assert (emulator.kind is EmulatorKind.NATIVE) == (emulator.proves is Proves.MACHINE)
        assert emulator.proves is not Proves.MAP or board.kind is BoardKind.BARE


@pytest.mark.parametrize("name", board_names())
def test_kernel_folders_exist(name: str) -> None:
    assert KernelSet(load_board(name).kernels).folders[-1] == "portable"


def test_stm32f405_enforces_128_kb() -> None:
    board = load_board("stm32f405")
    sram = board.region_for(Holds.ARENA)
    assert (sram.origin, sram.length) == (0x20000000, 128 << 10)
    flash = board.region_for(Holds.WEIGHTS)
    assert (flash.origin, flash.length) == (0x08000000, 1 << 20)
    ccm = next(region for region in board.memory if region.name == "ccm")
    assert ccm.holds == (Holds.ARENA,)
    assert [(e.program, e.args, e.trap) for e in board.emulators] == [
        ("qemu-system-arm", ("-M", "netduinoplus2"), "bkpt")
    ]


def test_h743_says_what_each_emulator_proves() -> None:
    board = load_board("nucleo-h743zi")
    assert {what: board.region_for(what).name for what in Holds} == {
        Holds.CODE: "flash",
        Holds.WEIGHTS: "flash",
        Holds.DATA: "dtcm",
        Holds.STACK: "dtcm",
        Holds.ARENA: "dtcm",
        Holds.KERNELS: "itcm",
    }
    assert [region.name for region in board.memory if Holds.ARENA in region.holds] == ["dtcm", "axi", "sram1", "sram2"]
    core, memory_map = board.emulators
    assert (core.proves, core.trap) == (Proves.CORE, "bkpt")
    assert core.origins == {
        "flash": 0, "itcm": 0x300000, "axi": 0x60000000, "sram1": 0x60100000, "sram2": 0x60120000,
    }  # fmt: skip
    assert (memory_map.proves, memory_map.trap, memory_map.origins) == (Proves.MAP, "svc", {})
    assert (
        sum(region.length for region in board.memory if region.kind == "ram") == (64 + 128 + 512 + 288 + 64 + 4) << 10
    )


def test_riscv_has_no_fpu_and_neither_has_its_emulator() -> None:
    board = load_board("riscv-virt-rv32imac")
    assert not board.cpu.fpu
    assert "-march=rv32imac" in board.toolchain.flags
    assert "sifive-e31" in board.emulators[0].args


# QEMU's processor models that have the instructions of a value of -march, and no others.
EXACTLY = {
    "-march=rv32imc": "lowrisc-ibex",
    "-march=rv32imac": "sifive-e31",
    "-march=rv32imafc": "sifive-e34",
    "-march=rv64imac": "sifive-e51",
    "-march=rv64gc": "sifive-u54",
}


@pytest.mark.parametrize("name", [name for name in board_names() if load_board(name).cpu.arch.startswith("riscv")])
def test_emulators_of_riscv_have_no_instruction_too_many(name: str) -> None:
    board = load_board(name)
    for emulator in board.emulators:
        if emulator.args == ("-M", "sifive_e"):  # the machine has its own core, an E31
            assert board.toolchain.flags[0] == "-march=rv32imac"
        elif board.toolchain.flags[0] in ("-march=rv32gcv", "-march=rv64gcv"):
            width = board.cpu.arch.removeprefix("riscv")
            assert board.toolchain.flags[0] == f"-march=rv{width}gcv"
            assert emulator.args[emulator.args.index("-cpu") + 1].startswith(f"rv{width},v=true,")
        else:
            assert EXACTLY[board.toolchain.flags[0]] == emulator.args[emulator.args.index("-cpu") + 1]


def test_chips_with_several_windows_and_banks() -> None:
    c3, c6 = load_board("esp32-c3"), load_board("esp32-c6")
    headers, first = 0x20, 0x1_0000  # of an image, of boot loader and partition table
    windows = [region.length + headers for region in c3.memory if region.kind == "flash"]
    assert sum(windows) == c6.region_for(Holds.CODE).length + headers == (4 << 20) - first
    assert c3.region_for(Holds.CODE) is not c3.region_for(Holds.WEIGHTS)
    sizes = {"esp32-c6": (512 + 16) << 10, "kendryte-k210": 4 << 20, "hifive1": (16 + 8) << 10, "gd32vf103": 32 << 10}
    for name, size in sizes.items():
        assert sum(region.length for region in load_board(name).memory if region.kind == "ram") == size


def test_what_runs_on_an_armv6_is_built_for_armv5() -> None:
    """Debian's armhf has Armv7 in its C library; that of armel has softfp calls, and the FPU computes all the same."""
    board = load_board("raspberry-pi-zero")
    assert board.cpu.fpu
    assert board.toolchain.prefix == "arm-linux-gnueabi-"
    assert "-mfloat-abi=softfp" in board.toolchain.flags


def test_three_vector_lengths() -> None:
    board = load_board("aarch64-sve2")
    assert {emulator.name: emulator.args[-1] for emulator in board.emulators} == {
        "vl128": "max,sve-max-vq=1",
        "vl256": "max,sve-max-vq=2",
        "vl512": "max,sve-max-vq=4",
    }


def test_linux_boards_have_no_walls() -> None:
    for name in ("x86-64-v3", "raspberry-pi-5", "aarch64-sve2"):
        board = load_board(name)
        assert board.kind is BoardKind.LINUX
        assert all(region.limit == 0 for region in board.memory)
        assert not any(emulator.trap for emulator in board.emulators)
