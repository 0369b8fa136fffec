"""Compile a dot kernel of any folder into a program of its own and run it on packed matrices."""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from colibri.boards.load import load_board
from colibri.boards.profile import Board, BoardKind, Emulator, EmulatorKind, Holds
from colibri.emit.linker import Plan, linker_script, port_files
from colibri.emulate.runner import run
from colibri.graph.coding import F32, FP4, GROUPS, W4, W8, Coding, WeightFormat
from colibri.graph.graph import BufferKind
from colibri.graph.weights import Matrix
from colibri.package import Memory
from colibri.passes.kernels import KernelSet, Tile
from colibri.passes.pack import aligned, matrix_layout, pack_matrix
from colibri.paths import data_folder
from colibri.toolchain.probe import examine_emulator

FLAGS = ["-std=c11", "-O2", "-ffp-contract=off", "-fno-math-errno"]
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]
SANITIZE = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]

# The board on which a folder's kernels run.
BOARDS = {
    "portable": "x86-64-v3",
    "sse41": "x86-64-v2",
    "avx2": "x86-64-v3",
    "avx512vnni": "x86-64-v4",
    "neon": "raspberry-pi-4",
    "neon_dotprod": "raspberry-pi-5",
    "neon_i8mm": "graviton-4",
    "sve": "aarch64-sve2",
    "dsp": "nrf5340dk",
    "mve": "mps3-an547",
    "armv6m": "raspberry-pi-pico",
    "armv7m": "stm32f205",
    "rv32im": "riscv-virt-rv32imac",
    "soft_float": "raspberry-pi-pico",
    "rvv": "riscv-virt-rv64gcv",
    "wasm_simd128": "wasm32-simd128",
}
# Folders whose kernels do something else on other processors of the board.
EMULATORS = {"sve": ("vl128", "vl256", "vl512")}

F16 = Coding(WeightFormat.F16)
_SOME = [Coding(WeightFormat(f"w{bits}"), group) for bits in range(2, 7) for group in GROUPS]
_SOME += [replace(coding, zero=True) for coding in _SOME]
PLANES = tuple(coding for coding in _SOME if coding != W4)
# The codings that a kernel serves, and what it multiplies them with.
FORMS = [
    ((F32,), BufferKind.FLOAT),
    ((F16,), BufferKind.FLOAT),
    *(((coding,), kind) for coding in (W8, W4, FP4) for kind in (BufferKind.Q8, BufferKind.Q16)),
    (PLANES, BufferKind.Q8),
    (PLANES, BufferKind.Q16),
]
C_TYPES = {np.float32: "float", np.int32: "int32_t", np.int64: "int64_t"}


@dataclass(frozen=True)
class Dot:
    """One dot kernel of one folder.

    Attributes:
        emulator: of the folder's board; empty for the first.
    """

    folder: str
    forms: tuple[Coding, ...]
    kind: BufferKind
    emulator: str = ""

    def __str__(self) -> str:
        return f"{self.folder}-{self.stem}{self.emulator and f'-{self.emulator}'}"

    @property
    def form(self) -> Coding:
        """One that it serves."""
        return self.forms[0]

    @property
    def stem(self) -> str:
        return self.kernels.dot_kernel(self.form, self.kind)

    @property
    def kernels(self) -> KernelSet:
        return KernelSet((self.folder, "portable"))

    @property
    def tile(self) -> Tile:
        return self.kernels.tile(self.form, self.kind)

    @property
    def inputs(self) -> int:
        """How many it takes at once."""
        return self.kernels.inputs(self.form, self.kind)

    @property
    def own(self) -> bool:
        """Whether the folder has it, and does not leave it to the portable ones."""
        return self.kernels.folder(self.stem) == self.folder

    @property
    def dtype(self) -> type[np.generic]:
        """Element type of x."""
        narrow = np.int16 if self.kernels.wide_activations else np.int8
        return {BufferKind.FLOAT: np.float32, BufferKind.Q8: narrow, BufferKind.Q16: np.int16}[self.kind]

    @property
    def sums(self) -> type[np.generic]:
        """Type of a sum."""
        return np.float32 if self.form.format.floating else np.int64 if self.form == FP4 else np.int32

    @property
    def element_bytes(self) -> int:
        """What weights are read in: a multiple of so many bytes is a place for them."""
        if self.folder == "dsp":
            return 8
        if self.folder in ("armv6m", "armv7m", "rv32im"):
            return 4
        return {"f32": 4, "f16": 2}.get(str(self.form), 4 if self.planes else 1)

    @property
    def value_bytes(self) -> int:
        """The same of activations."""
        return 8 if self.folder == "dsp" else np.dtype(self.dtype).itemsize

    @property
    def planes(self) -> bool:
        """Whether the kernel has the coding's numbers as arguments."""
        return len(self.forms) > 1


@dataclass(frozen=True)
class Case:
    """A matrix, a vector of its columns, and where they stand: bytes behind a multiple of 16."""

    matrix: Matrix
    x: np.ndarray  # [k], or [inputs, k]
    weight_offset: int = 0
    value_offset: int = 0


@dataclass(frozen=True)
class DotProgram:
    """The program, and where it runs."""

    dot: Dot
    image: Path
    board: Board
    emulator: Emulator
    inputs: int = 1

    def run(self, cases: list[Case]) -> list[np.ndarray]:
        """Sums of each case's rows, of the format's type: ``[n]``, or ``[inputs, n]``."""
        request = b"".join(self._encode(case) for case in cases)
        done = run(self.image, self.board, self.emulator, request=request)
        assert done.exit_code == 0, done.stderr
        sums = np.frombuffer(done.output, self.dot.sums)
        results, at = [], 0
        for case in cases:
            n, rows = case.matrix.shape[0], self.dot.tile.rows
            tiles = sums[at : at + self.inputs * aligned(n, rows)].reshape(-1, self.inputs, rows)
            own = tiles.transpose(1, 0, 2).reshape(self.inputs, -1)[:, :n]
            results.append(own if self.inputs > 1 else own[0])
            at += tiles.size
        assert at == len(sums)
        return results

    def _encode(self, case: Case) -> bytes:
        coding = case.matrix.coding
        layout = matrix_layout(coding, *case.matrix.shape, False, self.dot.tile)
        packed = pack_matrix(case.matrix, layout)
        rows, tiles = layout.tile_rows, layout.padded_n // layout.tile_rows
        parts = [
            _split(packed, layout.data, tiles, rows * layout.row_bytes),
            _split(packed, layout.group_scale, tiles, rows * layout.groups),
            _split(packed, layout.zeros, tiles, rows * layout.groups),
        ]
        x = np.zeros((*case.x.shape[:-1], layout.padded_k), self.dot.dtype)
        x[..., : layout.k] = case.x
        sizes = [len(part[0]) for part in parts]
        numbers = coding.format.bits, coding.group, case.weight_offset, case.value_offset
        head = struct.pack("<10i", layout.padded_k, tiles, *sizes, x.nbytes, *numbers)
        return head + x.tobytes() + b"".join(b"".join(tile) for tile in zip(*parts, strict=True))


def _split(packed: bytes, start: int, tiles: int, size: int) -> list[bytes]:
    """A part of the matrix, tile by tile; nothing where it has no such part."""
    return [packed[start + i * size :][:size] if start >= 0 else b"" for i in range(tiles)]


def build_dot(dot: Dot, folder: Path, *, sanitize: bool = False, at_once: bool = False) -> DotProgram:
    """Compile the harness with a kernel; skips the test by name when a tool or a feature of this machine is missing.

    Args:
        at_once: take the function for several inputs.
    """
    board = load_board(BOARDS[dot.folder])
    compiler = [f"{board.toolchain.prefix}gcc"]
    emulator = next(one for one in board.emulators if dot.emulator in ("", one.name))
    if board.kind is BoardKind.WASM:  # zig brings a C library along, which clang has not
        compiler = [sys.executable, "-m", "ziglang", "cc", "--target=wasm32-wasi"]
    native = emulator.kind is EmulatorKind.NATIVE
    for tool in (compiler[0], *([emulator.program] if emulator.program else [])):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    if native and (problem := examine_emulator(board, emulator).problem):
        pytest.skip(f"{dot}: {problem}")
    header = f"kernels/{dot.kernels.folder(dot.stem)}/{dot.stem}.h"
    name = f"COLIBRI_{dot.stem.upper()}"
    defines = {
        "KERNEL_HEADER": f'"{header}"',
        "KERNEL": f"colibri_{dot.stem}{'_inputs' if at_once else ''}",
        "ROWS": f"{name}_ROWS",
        "SUM": C_TYPES[dot.sums],
        **({"SUMS": "1"} if dot.tile.group_sums else {}),
        **({"ANY_GROUP": "1"} if dot.tile.any_group else {}),
        **({"PLANES": "1"} if dot.planes else {"GROUPED": "1"} if dot.form.format.grouped else {}),
        **(_several(dot, name) if at_once else {}),
    }
    image = folder / f"{dot}.elf"
    command = [*compiler, *board.toolchain.flags, *FLAGS, *WARNINGS, *(SANITIZE if sanitize else [])]
    command += [f"-D{name}={value}" for name, value in defines.items()]
    command += [f"-I{data_folder('runtime_c')}", str(Path(__file__).parent / "dot_harness.c"), "-o", str(image)]
    if board.kind is BoardKind.BARE:
        command += bare_options(board, emulator, folder)
    elif not sanitize:
        command.append("-static")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return DotProgram(dot, image, board, emulator, dot.inputs if at_once else 1)


def _several(dot: Dot, name: str) -> dict[str, str]:
    """What the harness wants to know of a function for several inputs."""
    given = {"INPUTS": f"{name}_INPUTS", "VALUE": f"int{8 * np.dtype(dot.dtype).itemsize}_t"}
    given |= {"FACTS": f"{name}_FACTS", "GATHER": f"colibri_{dot.stem}_facts"} if dot.tile.facts else {}
    return given | ({"FETCHES": "1"} if dot.tile.fetches else {})


def bare_options(board: Board, emulator: Emulator, folder: Path) -> list[str]:
    """The board's own start-up and linker script, and most of its memory for the program's arrays."""
    plan = Plan(Memory((), 0))
    script = folder / "board.ld"
    script.write_text(linker_script(board, emulator, "dot", plan))
    heap = board.region_for(Holds.DATA).length * 3 // 4
    sources = [str(data_folder("runtime_c") / "ports" / name) for name in port_files(board) if name.suffix == ".c"]
    options = ["-ffreestanding", f"-DHEAP={heap}", f"-DPORT_TRAP_{emulator.trap.upper()}", *sources]
    return [*options, "-nostdlib", "-ffunction-sections", "-Wl,--gc-sections", f"-Wl,-T,{script}", "-lgcc"]
