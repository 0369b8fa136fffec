"""Build the echo device for any board, with the board's own port and linker script."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from colibri.boards.load import load_board
from colibri.boards.profile import Board, BoardKind, Emulator, EmulatorKind, Holds
from colibri.emit.linker import Plan, block_section, linker_script, port_files
from colibri.package import Block, Memory
from colibri.paths import data_folder

BOARDS = (
    "x86-64-v3",
    "raspberry-pi-5",
    "aarch64-sve2",
    "microbit",
    "stm32vldiscovery",
    "stm32f405",
    "nucleo-h743zi",
    "nucleo-u575zi-q",
    "riscv-virt-rv32imac",
    "riscv-virt-rv64gc",
    "milk-v-duo",
    "raspberry-pi-2",
    "raspberry-pi-zero",
)

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]
FLAGS = ["-std=c11", "-O2", "-ffreestanding", "-ffp-contract=off", "-fno-math-errno"]
SECTIONS = ["-ffunction-sections", "-fdata-sections"]
DEVICE = Path(__file__).parent / "device" / "echo.c"


def targets(where: Callable[[Board, Emulator], bool] = lambda board, emulator: True) -> pytest.MarkDecorator:
    """Run a test, which takes ``board`` and ``emulator``, in each emulator of each board that ``where`` picks."""
    pairs = [
        (board, emulator) for board in map(load_board, BOARDS) for emulator in board.emulators if where(board, emulator)
    ]
    return pytest.mark.parametrize(
        ("board", "emulator"),
        [pytest.param(*pair, id=f"{pair[0].id}-{pair[1].name}", marks=pytest.mark.emulator) for pair in pairs],
    )


def is_bare(board: Board, emulator: Emulator) -> bool:
    """Bare metal, in whatever emulator."""
    return board.kind is BoardKind.BARE


def is_qemu(board: Board, emulator: Emulator) -> bool:
    """Not native."""
    return emulator.kind is not EmulatorKind.NATIVE


def is_small(board: Board) -> bool:
    """Armv6-M: any unaligned access is a fault, and no register says what a fault was."""
    return "-mcpu=cortex-m0" in board.toolchain.flags


def trap_flags(board: Board, emulator: Emulator) -> list[str]:
    """How the port reaches its host."""
    return [f"-DPORT_TRAP_{emulator.trap.upper()}"] if board.kind is BoardKind.BARE else []


def plan_in(board: Board) -> Plan:
    """A plan with one block, in the first region that may hold it."""
    return Plan(Memory((Block("memory", board.region_for(Holds.ARENA).name, 0, 0, 0, 0, 0, True, ()),), 0))


def build_device(board: Board, emulator: Emulator, folder: Path, *, clang: bool = False) -> Path:
    """Compile and link echo.c; skips the test when the compiler is not installed."""
    toolchain = board.toolchain
    compiler = "clang" if clang else f"{toolchain.prefix}gcc"
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    ports = data_folder("runtime_c") / "ports"
    sources = [str(ports / name) for name in port_files(board) if name.suffix == ".c"]
    image = folder / "device.elf"
    command = [compiler, *([f"--target={toolchain.clang_target}"] if clang else []), *toolchain.flags]
    command += [*FLAGS, *SECTIONS, *WARNINGS, *trap_flags(board, emulator), f"-I{ports}", str(DEVICE), *sources]
    command += [f'-DMEMORY_SECTION="{block_section(plan_in(board).memory.blocks[0])}"']
    if board.kind is BoardKind.BARE:
        script = folder / "board.ld"
        script.write_text(linker_script(board, emulator, "echo", plan_in(board)))
        command += ["-nostdlib", "-Wl,--gc-sections", "-Wl,-z,max-page-size=4096", f"-Wl,-T,{script}"]
        command += ["-fuse-ld=lld", libgcc(board)] if clang else ["-lgcc"]
        command += ["-Wl,--fatal-warnings"]
    else:
        command += ["-static"]
    done = subprocess.run([*command, "-o", str(image)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return image


def libgcc(board: Board) -> str:
    """Path of the helpers of gcc for a board, which clang does not find by itself."""
    command = [f"{board.toolchain.prefix}gcc", *board.toolchain.flags, "-print-libgcc-file-name"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def need(emulator: Emulator) -> None:
    """Skip by name when the emulator is not installed."""
    if emulator.kind is not EmulatorKind.NATIVE and shutil.which(emulator.program) is None:
        pytest.skip(f"{emulator.program} is not installed")
