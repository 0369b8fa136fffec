"""Row kernels of folders that this machine cannot run, in an emulator, against the numpy reference of their op."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest
from dot_programs import BOARDS, FLAGS, WARNINGS
from kernel_library import reference_run, same_bits
from test_row_kernels import WIDTHS, quantise_rows, wide_range

from colibri.boards.load import load_board
from colibri.emulate.runner import run
from colibri.graph.float32 import quantise
from colibri.graph.ops import RmsNorm
from colibri.graph.weights import Vector
from colibri.paths import data_folder

F = np.float32
FOLDERS = [pytest.param("neon", marks=pytest.mark.emulator)]


def build(folder: str, harness: str, headers: dict[str, str], place: Path) -> Path:
    """A harness with some headers of a folder's kernels; skips where a tool is missing."""
    board, image = load_board(BOARDS[folder]), place / "rows.elf"
    compiler = f"{board.toolchain.prefix}gcc"
    for tool in (compiler, board.emulators[0].program):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    command = [compiler, *board.toolchain.flags, *FLAGS, *WARNINGS, "-static"]
    command += [f'-D{name}="{header}"' for name, header in headers.items()]
    command += [f"-I{data_folder('runtime_c')}", str(Path(__file__).parent / harness), "-o", str(image)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return image


class Rows:
    """Quantisation and norm of a folder; each request is a row."""

    def __init__(self, folder: str, place: Path) -> None:
        headers = {"QUANTISE": f"kernels/{folder}/quantise.h", "RMS_NORM": f"kernels/{folder}/rms_norm.h"}
        self._board, self._image = load_board(BOARDS[folder]), build(folder, "paged_rows.c", headers, place)

    def __call__(self, bits: int, stride: int, number: float, rows: list[list[np.ndarray]]) -> list[tuple[F, bytes]]:
        """The scale and the elements of each row."""
        head = [struct.pack("<3if", bits, row[0].size, stride, number) for row in rows]
        request = b"".join(b"".join([one, *(x.tobytes() for x in row)]) for one, row in zip(head, rows, strict=True))
        done = run(self._image, self._board, self._board.emulators[0], request=request)
        assert done.exit_code == 0, done.stderr
        each = 4 + stride * (bits // 8 or 4)
        assert len(done.output) == each * len(rows)
        answers = [done.output[at : at + each] for at in range(0, len(done.output), each)]
        return [(np.frombuffer(answer, F, 1)[0], answer[4:]) for answer in answers]


@pytest.mark.parametrize("folder", FOLDERS)
def test_quantise(folder: str, tmp_path: Path) -> None:
    program = Rows(folder, tmp_path)
    for bits, qmax in ((8, 127), (16, 32767), (16, 1000), (16, 127)):
        for width in WIDTHS:
            rows, stride = quantise_rows(width), -(-width // 32) * 32
            with np.errstate(all="ignore"):
                integers, scales = quantise(rows, qmax)
            padded = np.zeros((len(rows), stride), np.int8 if bits == 8 else np.int16)
            padded[:, :width] = integers
            for (scale, got), want, right in zip(
                program(bits, stride, float(qmax), [[row] for row in rows]), padded, scales, strict=True
            ):
                assert got == want.tobytes() and same_bits(scale[None], right[None]), (bits, qmax, width)


@pytest.mark.parametrize("folder", FOLDERS)
def test_rms_norm(folder: str, tmp_path: Path) -> None:
    program = Rows(folder, tmp_path)
    for width in WIDTHS:
        rng = np.random.default_rng(width)
        rows = np.concatenate([wide_range(rng, 20, width), np.zeros((1, width), F), np.full((1, width), 3e30, F)])
        rows = np.concatenate([rows, np.full((1, width), 1e-42, F), np.full((1, width), np.nan, F)])
        weight = wide_range(rng, width)
        run_of = reference_run({"w": Vector(weight)}, floats={"x": rows})
        with np.errstate(all="ignore"):
            RmsNorm(0, "", "norm", "x", "y", "w", width, 1e-5).reference(run_of)
        answers = program(0, width, 1e-5, [[row, weight] for row in rows])
        for (_, got), want in zip(answers, run_of.floats["y"], strict=True):
            assert same_bits(np.frombuffer(got, F), want), width


def attend(folder: str, attention: str, place: Path) -> int:
    """What the harness of attention leaves with: 1 at a difference."""
    headers = {"ATTENTION": attention, "ROWS_INT8": f"kernels/{folder}/rows_int8.h"}
    board, image = load_board(BOARDS[folder]), build(folder, "paged_attention.c", headers, place)
    return run(image, board, board.emulators[0]).exit_code


@pytest.mark.parametrize("folder", FOLDERS)
def test_attention(folder: str, tmp_path: Path) -> None:
    assert attend(folder, f"kernels/{folder}/attention.h", tmp_path) == 0


@pytest.mark.emulator
def test_a_product_that_is_not_rounded_is_found(tmp_path: Path) -> None:
    text = (data_folder("runtime_c") / "kernels/neon/attention.h").read_text()
    rounded = "vaddq_f32(vld1q_f32(total + d), product)"
    fused = "vfmaq_n_f32(vld1q_f32(total + d), colibri_state_four(value, d, half), term + 0 * product[0])"
    assert text.count(rounded) == 1
    (tmp_path / "fused.h").write_text(text.replace(rounded, fused))
    assert attend("neon", str(tmp_path / "fused.h"), tmp_path) == 1
