"""Floats in integers on the cores that lack an FPU, where part of them is in assembler, against the compiler's own."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from dot_programs import FLAGS, WARNINGS, bare_options

from colibri.boards.load import load_board
from colibri.emulate.runner import run
from colibri.paths import data_folder

HERE = Path(__file__).parent
BOARDS = ("raspberry-pi-pico", "riscv-virt-rv32imac")


def line_of_difference(name: str, level: str, source: str, tmp_path: Path) -> int:
    """What the harness leaves with, compiled with a level of optimisation."""
    board = load_board(name)
    compiler, emulator = f"{board.toolchain.prefix}gcc", board.emulators[0]
    for tool in (compiler, emulator.program):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    (tmp_path / "harness.c").write_text(source)
    flags = [*board.toolchain.flags, *FLAGS, *WARNINGS, level, "-Wno-unused-function"]
    flags += [f"-I{data_folder('runtime_c')}", f"-I{data_folder('runtime_c') / 'ports'}"]
    image = tmp_path / "harness.elf"
    command = [compiler, *flags, str(tmp_path / "harness.c"), *bare_options(board, emulator, tmp_path)]
    done = subprocess.run([*command, "-o", str(image)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return run(image, board, emulator).exit_code


@pytest.mark.emulator
@pytest.mark.parametrize("level", ["-O0", "-O2", "-Os"])
@pytest.mark.parametrize("board", BOARDS)
def test_same_bits_as_the_compiler(board: str, level: str, tmp_path: Path) -> None:
    """And registers that a function has to keep are kept: gcc that optimises for size does not see to all."""
    line = line_of_difference(board, level, (HERE / "soft_arithmetic.c").read_text(), tmp_path)
    assert line == 0, f"soft_arithmetic.c:{line}"


@pytest.mark.emulator
@pytest.mark.parametrize("board", BOARDS)
def test_a_difference_is_found(board: str, tmp_path: Path) -> None:
    source = (HERE / "soft_arithmetic.c").read_text()
    wrong = source.replace("x[i] * other)) {", "x[i] * other * 1.0000001f)) {")
    assert wrong != source
    assert line_of_difference(board, "-O2", wrong, tmp_path) != 0
