"""The portable kernels, called from Python."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from dot_programs import FLAGS, WARNINGS

from colibri.boards.profile import Board
from colibri.graph.float32 import canonical
from colibri.graph.graph import Graph, ModelKind
from colibri.graph.interpret import Run
from colibri.graph.weights import Weight
from colibri.paths import data_folder
from colibri.toolchain.probe import examine_emulator

SOURCES = ("kernel_exports.c", "soft_float.c")


class Kernels:
    """A shared library of kernels; arrays go in as pointers, Python numbers as the C types of the same kind."""

    def __init__(self, library: Path) -> None:
        self._library = ctypes.CDLL(str(library))

    def call(self, name: str, *arguments: np.ndarray | float | int | bool | None) -> None:
        """Run ``test_NAME``; the kernel writes into the arrays it is given."""
        getattr(self._library, f"test_{name}")(*map(_argument, arguments))

    def each(self, name: str, x: np.ndarray, dtype: type[np.generic] = np.float32) -> np.ndarray:
        """A function of one number, of each element of x."""
        x = np.ascontiguousarray(x)
        y = np.empty(x.shape, dtype)
        self.call(name, y, x, x.size)
        return y


def build_kernels(folder: Path, board: Board) -> Kernels:
    """Compile the library with a board's options; skips where gcc or a feature of the processor is missing."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    if problem := examine_emulator(board, board.emulators[0]).problem:
        pytest.skip(f"{board.name}: {problem}")
    sources = [str(Path(__file__).parent / name) for name in SOURCES]
    library = folder / "kernels.so"
    command = [
        "gcc",
        *board.toolchain.flags,
        *FLAGS,
        *WARNINGS,
        "-ffreestanding",
        "-shared",
        "-fPIC",
        f"-I{data_folder('runtime_c')}",
        *sources,
    ]
    done = subprocess.run([*command, "-o", str(library)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return Kernels(library)


def _argument(value: np.ndarray | float | int | bool | None) -> object:
    if isinstance(value, np.ndarray):
        assert value.flags.c_contiguous
        return ctypes.c_void_p(value.ctypes.data)
    if value is None:
        return ctypes.c_void_p(None)
    if isinstance(value, bool):
        return ctypes.c_bool(value)
    return ctypes.c_int32(value) if isinstance(value, int) else ctypes.c_float(value)


def reference_run(weights: dict[str, Weight] | None = None, **fields: object) -> Run:
    """What an op's numpy reference needs to run alone."""
    graph = Graph("test", ModelKind.TOKENS, 0, 0, 1 << 20, "", weights=weights or {})
    values: dict[str, object] = {"sequences": 1, "length": 1, "position": 0, "all_rows": True, "states": {}}
    return Run(graph, **(values | fields))  # type: ignore[arg-type]


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two fp32 arrays agree in every bit; one NaN is as good as another."""
    assert a.dtype == b.dtype == np.float32 and a.shape == b.shape
    return canonical(a).tobytes() == canonical(b).tobytes()
