"""Compile a dot kernel of any folder into a program of its own and run it on packed matrices."""

from __future__ import annotations

import shutil
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from colibri.boards.load import load_board
from colibri.boards.profile import EmulatorKind
from colibri.graph.coding import F32, FP4, W4, W8, Coding
from colibri.graph.graph import BufferKind
from colibri.graph.weights import Matrix
from colibri.passes.kernels import KernelSet, Tile, dot_kernel
from colibri.passes.pack import MatrixLayout, aligned, matrix_layout, pack_matrix
from colibri.paths import data_folder

FLAGS = ["-std=c11", "-O2", "-ffp-contract=off", "-fno-math-errno"]
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]
SANITIZE = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]

# The board on which a folder's kernels run.
BOARDS = {"portable": "x86-64-v3", "avx2": "x86-64-v3", "neon_dotprod": "raspberry-pi-5"}

FORMS = [
    (F32, BufferKind.FLOAT),
    (W8, BufferKind.Q8),
    (W8, BufferKind.Q16),
    (W4, BufferKind.Q8),
    (W4, BufferKind.Q16),
    (FP4, BufferKind.Q8),
    (FP4, BufferKind.Q16),
]
SUMS = {F32: np.float32, W8: np.int32, W4: np.int32, FP4: np.int64}
C_TYPES = {np.float32: "float", np.int32: "int32_t", np.int64: "int64_t"}


@dataclass(frozen=True)
class Dot:
    """One dot kernel of one folder."""

    folder: str
    form: Coding
    kind: BufferKind

    def __str__(self) -> str:
        return f"{self.folder}-{self.stem}"

    @property
    def stem(self) -> str:
        return dot_kernel(self.form, self.kind)

    @property
    def tile(self) -> Tile:
        return KernelSet((self.folder, "portable")).tile(self.form, self.kind)

    @property
    def dtype(self) -> type[np.generic]:
        """Element type of x."""
        return {BufferKind.FLOAT: np.float32, BufferKind.Q8: np.int8, BufferKind.Q16: np.int16}[self.kind]


@dataclass(frozen=True)
class Case:
    """A matrix, a vector of its columns, and where they stand: bytes behind a multiple of 16."""

    matrix: Matrix
    x: np.ndarray
    weight_offset: int = 0
    value_offset: int = 0


@dataclass(frozen=True)
class DotProgram:
    """The program, and the command that runs it."""

    dot: Dot
    command: list[str]

    def run(self, cases: list[Case]) -> list[np.ndarray]:
        """Sums of each case's rows ``[n]``, of the format's type."""
        request = b"".join(self._encode(case) for case in cases)
        done = subprocess.run(self.command, input=request, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode(errors="replace")
        sums = np.frombuffer(done.stdout, SUMS[self.dot.form])
        results, at = [], 0
        for case in cases:
            n = case.matrix.shape[0]
            results.append(sums[at : at + n])
            at += aligned(n, self.dot.tile.rows)
        assert at == len(sums)
        return results

    def _encode(self, case: Case) -> bytes:
        layout = matrix_layout(case.matrix.coding, *case.matrix.shape, False, self.dot.tile)
        packed = pack_matrix(case.matrix, layout)
        tiles = layout.padded_n // layout.tile_rows
        weights, scales = _split(packed, layout, tiles)
        x = np.zeros(layout.padded_k, self.dot.dtype)
        x[: layout.k] = case.x
        offsets = case.weight_offset, case.value_offset
        head = struct.pack("<7i", layout.padded_k, tiles, len(weights[0]), len(scales[0]), x.nbytes, *offsets)
        return head + x.tobytes() + b"".join(w + s for w, s in zip(weights, scales, strict=True))


def _split(packed: bytes, layout: MatrixLayout, tiles: int) -> tuple[list[bytes], list[bytes]]:
    """The weights and the group scales of each tile."""
    bits = layout.coding.format.bits
    size = layout.tile_rows * layout.padded_k * bits // 8
    weights = [packed[layout.data + i * size :][:size] for i in range(tiles)]
    if layout.group_scale < 0:
        return weights, [b""] * tiles
    groups = layout.tile_rows * layout.padded_k // 32
    return weights, [packed[layout.group_scale + i * groups :][:groups] for i in range(tiles)]


def build_dot(dot: Dot, folder: Path, *, sanitize: bool = False) -> DotProgram:
    """Compile the harness with a kernel; skips the test by name when a tool is missing."""
    board = load_board(BOARDS[dot.folder])
    compiler = f"{board.toolchain.prefix}gcc"
    emulator = board.emulators[0]
    for tool in (compiler, *([] if emulator.kind is EmulatorKind.NATIVE else [emulator.program])):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    header = f"kernels/{KernelSet((dot.folder, 'portable')).folder(dot.stem)}/{dot.stem}.h"
    defines = {
        "KERNEL_HEADER": f'"{header}"',
        "KERNEL": f"colibri_{dot.stem}",
        "ROWS": f"COLIBRI_{dot.stem.upper()}_ROWS",
        "SUM": C_TYPES[SUMS[dot.form]],
        **({"GROUPED": "1"} if dot.form.format.grouped else {}),
    }
    program = folder / f"{dot}.elf"
    command = [compiler, *board.toolchain.flags, *FLAGS, *WARNINGS, *(SANITIZE if sanitize else ["-static"])]
    command += [f"-D{name}={value}" for name, value in defines.items()]
    command += [f"-I{data_folder('runtime_c')}", str(Path(__file__).parent / "dot_harness.c"), "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    native = emulator.kind is EmulatorKind.NATIVE
    return DotProgram(dot, [str(program)] if native else [emulator.program, *emulator.args, str(program)])
