"""Kernels of rows of each folder that has some, against the portable ones, on its processor."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from dot_programs import BOARDS, FLAGS, WARNINGS, bare_options

from colibri.boards.load import load_board
from colibri.emulate.runner import run
from colibri.passes.kernels import KernelSet
from colibri.paths import data_folder

HERE = Path(__file__).parent
STEMS = ("rows_int8", "quantise", "linear", "rms_norm", "softmax_int8", "attention_int8")
STEMS += ("float32", "add", "experts", "rope")
FOLDERS = [
    folder
    for folder in BOARDS
    if load_board(BOARDS[folder]).kind == "bare"
    and any(KernelSet((folder, "portable")).folder(stem) == folder for stem in STEMS)
]


def program(folder: str, tmp_path: Path, harness: str) -> Path:
    """The harness with the folder's kernels and the portable ones."""
    board = load_board(BOARDS[folder])
    compiler, emulator = f"{board.toolchain.prefix}gcc", board.emulators[0]
    for tool in (compiler, emulator.program):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    flags = [*board.toolchain.flags, *FLAGS, *WARNINGS, "-Wno-unused-function", "-ffreestanding"]
    flags += [f"-I{data_folder('runtime_c')}", f"-I{data_folder('runtime_c') / 'ports'}", f"-I{HERE}"]
    objects = []
    for name, folders in (("own", (folder, "portable")), ("portable", ("portable",))):
        kernels = KernelSet(folders)
        found = sorted((kernels.folder(stem) == "portable", stem != "rows_int8", stem) for stem in STEMS)
        headers = [option for _, _, stem in found for option in ("-include", str(kernels.path(stem)))]
        objects.append(tmp_path / f"{name}.o")
        headers += ["-DWHOLE_ROWS"] if kernels.whole_rows else []
        compile_one = [compiler, *flags, *headers, f"-DROW(name)={name}_##name", "-c", str(HERE / "row_kernels.c")]
        subprocess.run([*compile_one, "-o", str(objects[-1])], check=True)
    (tmp_path / "row_harness.c").write_text(harness)
    image = tmp_path / "rows.elf"
    command = [compiler, *flags, str(tmp_path / "row_harness.c"), *map(str, objects)]
    done = subprocess.run(
        [*command, *bare_options(board, emulator, tmp_path), "-o", str(image)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return image


def exit_code(folder: str, tmp_path: Path, harness: str) -> int:
    board = load_board(BOARDS[folder])
    return run(program(folder, tmp_path, harness), board, board.emulators[0]).exit_code


@pytest.mark.emulator
@pytest.mark.parametrize("folder", FOLDERS)
def test_same_bits_as_the_portable_kernels(folder: str, tmp_path: Path) -> None:
    line = exit_code(folder, tmp_path, (HERE / "row_harness.c").read_text())
    assert line == 0, f"row_harness.c:{line}"


@pytest.mark.emulator
def test_a_difference_is_found(tmp_path: Path) -> None:
    """With another row scale on one side the harness ends at the line that compares it."""
    harness = (HERE / "row_harness.c").read_text()
    wrong, count = re.subn(r"own_grouped\(y\[1\], sums\[0\]", "own_grouped(y[1], sums[0] + 1", harness)
    assert count == 1
    line = exit_code("dsp", tmp_path, wrong)
    assert "differ(y[0], y[1], count)" in wrong.splitlines()[line - 1]
