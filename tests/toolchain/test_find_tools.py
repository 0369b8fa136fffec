"""Compilers and emulators are found by letting them work, and rejected with the reason."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from selection import COMPILERS, RUNS
from small_package import need

from colibri.boards.load import load_board
from colibri.boards.profile import Board, CompilerFamily, Emulator, EmulatorKind
from colibri.errors import BadInput, ToolMissing
from colibri.toolchain.compiler import Installed, gcc_for
from colibri.toolchain.find import find_toolchain, fpu_mismatch, try_family
from colibri.toolchain.probe import examine_emulator, probe_emulator, why_not_link


@pytest.fixture
def only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Make PATH a folder of the named programs, some of them replaced by a shell script."""

    def make(*programs: str, **scripts: str) -> None:
        for program in programs:
            found = shutil.which(program)
            if found is None:
                pytest.skip(f"{program} is not installed")
            (tmp_path / program).symlink_to(found)
        for program, text in scripts.items():
            path = tmp_path / program.replace("_", "-")
            path.write_text(f"#!/bin/sh\n{text}\n")
            path.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))

    return make


def gcc_reason(board: Board) -> str:
    """Why the board's gcc does not serve."""
    return try_family(board, CompilerFamily.GCC)[0].reason


def with_options(installed: Installed, *options: str) -> Installed:
    compiler = installed.compiler
    flags = (*compiler.flags, *options)
    return Installed(msgspec.structs.replace(compiler, flags=flags), installed.folder)


def emulator_of(board: Board, **changes: object) -> Emulator:
    return msgspec.structs.replace(board.emulators[0], **changes)


@pytest.mark.parametrize("name", COMPILERS)
def test_compiler_of_each_board(name: str) -> None:
    board = load_board(name)
    need(board)
    installed = find_toolchain(board)
    compiler = installed.compiler
    assert compiler.family is board.toolchain.family
    if compiler.family is CompilerFamily.GCC:
        assert compiler.cc == (f"{board.toolchain.prefix}gcc",)
    assert Path(installed.command[0]).is_absolute()
    assert all("/" not in program for program in compiler.programs)


def test_nothing_is_installed(only: Callable[..., None]) -> None:
    only()
    with pytest.raises(ToolMissing) as caught:
        find_toolchain(load_board("stm32f405"))
    assert caught.value.exit_code == 4
    assert str(caught.value) == (
        "board stm32f405: arm-none-eabi-gcc: not installed; sudo apt-get install gcc-arm-none-eabi"
    )
    assert try_family(load_board("stm32f405"), CompilerFamily.CLANG)[0].reason == "not installed"


def test_half_a_toolchain(only: Callable[..., None]) -> None:
    only("arm-none-eabi-gcc", "arm-none-eabi-ar")
    assert gcc_reason(load_board("stm32f405")) == "arm-none-eabi-objcopy is not installed"


def test_flags_that_the_compiler_refuses() -> None:
    board = load_board("stm32f405")
    need(board)
    toolchain = msgspec.structs.replace(board.toolchain, flags=("-mthumb", "-mcpu=cortex-m99"))
    with pytest.raises(BadInput, match=r"arm-none-eabi-gcc rejects the flags: .*cortex-m99"):
        find_toolchain(msgspec.structs.replace(board, toolchain=toolchain))


@pytest.mark.parametrize(
    ("name", "said", "flags", "message"),
    [
        (
            "stm32f405",
            True,
            ("-mthumb", "-mcpu=cortex-m4"),
            "is true, but arm-none-eabi-gcc computes fp32 without an FPU",
        ),
        ("stm32f405", False, None, "is false, but arm-none-eabi-gcc uses an FPU under -mthumb -mcpu=cortex-m4"),
        ("stm32f405", True, ("-mcpu=cortex-m4", "-mfpu=fpv4-sp-d16", "-mfloat-abi=softfp"), ""),
        ("stm32f405", False, ("-mcpu=cortex-m3",), ""),
        ("riscv-virt-rv32imac", True, None, "is true, but riscv64-unknown-elf-gcc computes fp32 without an FPU"),
        ("riscv-virt-rv32imac", True, ("-march=rv32imafc", "-mabi=ilp32f"), ""),
        ("raspberry-pi-5", False, None, "is false, but aarch64-linux-gnu-gcc uses an FPU under -mcpu=cortex-a76"),
        ("x86-64-v3", False, None, "is false, but gcc uses an FPU under -march=x86-64-v3"),
    ],
)
def test_what_the_file_says_of_the_fpu(name: str, said: bool, flags: tuple[str, ...] | None, message: str) -> None:
    board = load_board(name)
    need(board)
    toolchain = msgspec.structs.replace(board.toolchain, flags=flags or board.toolchain.flags)
    cpu = msgspec.structs.replace(board.cpu, fpu=said)
    changed = msgspec.structs.replace(board, toolchain=toolchain, cpu=cpu)
    wrong = fpu_mismatch(Installed(gcc_for(changed)), changed)
    assert (wrong is None) == (not message)
    assert wrong is None or str(wrong).startswith(f"board {name}: cpu.fpu: {message}")


def test_a_board_file_with_the_wrong_fpu_is_refused() -> None:
    board = load_board("stm32f405")
    need(board)
    cpu = msgspec.structs.replace(board.cpu, fpu=False)
    with pytest.raises(BadInput, match="take the FPU out of") as caught:
        find_toolchain(msgspec.structs.replace(board, cpu=cpu))
    assert caught.value.exit_code == 5


def test_a_compiler_that_compiles_but_does_not_link() -> None:
    board = load_board("riscv-virt-rv32imac")
    need(board)
    toolchain = msgspec.structs.replace(board.toolchain, flags=(*board.toolchain.flags, "-Wl,-L/nowhere,-lnone"))
    assert "cannot find -lnone" in gcc_reason(msgspec.structs.replace(board, toolchain=toolchain))


@pytest.mark.parametrize("name", ["stm32f405", "riscv-virt-rv32imac"])
def test_the_line_needs_libgcc(name: str, tmp_path: Path) -> None:
    board = load_board(name)
    need(board)
    (tmp_path / "libgcc.a").write_bytes(b"!<arch>\n")
    reason = why_not_link(with_options(find_toolchain(board), "-L", str(tmp_path)), board)
    assert "undefined reference" in reason


def test_a_broken_compiler(only: Callable[..., None]) -> None:
    tools = {f"arm_none_eabi_{tool}": "exit 0" for tool in ("ar", "objcopy", "objdump", "size")}
    only(arm_none_eabi_gcc="echo out of order >&2; exit 3", **tools)
    assert gcc_reason(load_board("stm32f405")) == "out of order"


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.emulator
def test_emulators_of_each_board(name: str) -> None:
    board = load_board(name)
    installed = find_toolchain(board)
    for emulator in board.emulators:
        if emulator.kind is EmulatorKind.NATIVE:
            continue
        if emulator.program and shutil.which(emulator.program) is None:
            pytest.skip(f"{emulator.program} is not installed")
        assert re.search(r"\d+\.\d+", probe_emulator(board, emulator, installed))


def test_an_emulator_that_is_not_there(only: Callable[..., None]) -> None:
    only()
    board = load_board("stm32f405")
    with pytest.raises(ToolMissing) as caught:
        probe_emulator(board, board.emulators[0])
    assert str(caught.value) == "board stm32f405: qemu-system-arm: not installed; sudo apt-get install qemu-system-arm"


@pytest.mark.parametrize(
    ("name", "args", "problem"),
    [
        ("stm32f405", ("-M", "netduinoplus3"), "does not know machine 'netduinoplus3'; did you mean 'netduinoplus2'?"),
        (
            "riscv-virt-rv32imac",
            ("-M", "virt", "-cpu", "sifive-e99"),
            "does not know processor 'sifive-e99'; did you mean 'sifive-e",
        ),
        ("raspberry-pi-5", ("-cpu", "cortex-a99"), "does not know processor 'cortex-a99'; did you mean 'cortex-a"),
    ],
)
@pytest.mark.emulator
def test_an_emulator_without_the_machine(name: str, args: tuple[str, ...], problem: str) -> None:
    board = load_board(name)
    emulator = emulator_of(board, args=args)
    if shutil.which(emulator.program) is None:
        pytest.skip(f"{emulator.program} is not installed")
    assert examine_emulator(board, emulator).problem.startswith(problem)


@pytest.mark.emulator
def test_an_emulator_that_does_not_run_programs() -> None:
    board = load_board("aarch64-sve2")
    need(board)
    emulator = emulator_of(board, args=("-cpu", "max,no-such-property=1"))
    if shutil.which(emulator.program) is None:
        pytest.skip(f"{emulator.program} is not installed")
    problem = examine_emulator(board, emulator, find_toolchain(board)).problem
    assert "does not run a program" in problem
    assert "no-such-property" in problem


def test_a_host_that_is_not_the_board() -> None:
    board = load_board("x86-64-v3")
    other = msgspec.structs.replace(board, cpu=msgspec.structs.replace(board.cpu, arch="riscv32"))
    assert "this machine is" in examine_emulator(other, board.emulators[0]).problem
