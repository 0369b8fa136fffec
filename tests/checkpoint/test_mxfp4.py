"""MXFP4: 4-bit floats in blocks of 32 with a power of two each, whose values stay exact."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from make_bad import Arrays, write_checkpoint
from rich.console import Console
from safetensors.numpy import load_file
from small_models import ORACLE, load_graph

from colibri.checkpoint.checkpoint import Checkpoint
from colibri.checkpoint.mxfp4 import Blocks
from colibri.cli import main
from colibri.errors import BadInput
from colibri.graph.coding import WeightFormat
from colibri.graph.interpret import Reference
from colibri.graph.scheme import Scheme
from colibri.graph.weights import E2M1_DOUBLED
from colibri.inspection import Inspection, print_inspection
from colibri.package import load_package

SOURCE = ORACLE / "variants/gptoss-mxfp4"
HALVES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def element(blocks: np.ndarray, scales: np.ndarray, place: tuple[int, ...], column: int) -> float:
    """One value by the words of the OCP specification: sign, e2m1, times 2^(scale - 127); the low half comes first."""
    byte = int(blocks[(*place, column // 32, column % 32 // 2)])
    bits = byte >> 4 if column % 2 else byte & 15
    return (-1.0 if bits & 8 else 1.0) * HALVES[bits & 7] * 2.0 ** (int(scales[(*place, column // 32)]) - 127)


@pytest.mark.parametrize("scheme", [Scheme.F32, Scheme.W4A8, Scheme.W4A16])
def test_weights_are_exactly_those_of_the_checkpoint(scheme: Scheme) -> None:
    arrays = load_file(SOURCE / "model.safetensors")
    graph = load_graph(SOURCE, scheme)
    for layer in range(2):
        prefix = f"model.layers.{layer}.mlp.experts"
        for expert in range(3):
            for slot, tensor, step, first in (
                ("gate", "gate_up_proj", 2, 0),
                ("up", "gate_up_proj", 2, 1),
                ("down", "down_proj", 1, 0),
            ):
                matrix = graph.matrix(f"layers.{layer}.experts.{expert}.{slot}").load()
                assert matrix.format is (WeightFormat.F32 if scheme is Scheme.F32 else WeightFormat.FP4)
                blocks, scales = (arrays[f"{prefix}.{tensor}_{part}"] for part in ("blocks", "scales"))
                for row in range(0, matrix.shape[0], 5):
                    place = (expert, first + step * row)
                    want = [element(blocks, scales, place, column) for column in range(matrix.shape[1])]
                    assert matrix.values[row].tolist() == want
                bias = arrays[f"{prefix}.{tensor}_bias"][expert, first::step]
                assert matrix.bias is not None and np.array_equal(matrix.bias, bias)
    assert graph.warnings == []


@pytest.mark.parametrize("scheme", [Scheme.W8A8, Scheme.W8A16])
def test_rounding_again_is_said(scheme: Scheme) -> None:
    graph = load_graph(SOURCE, scheme)
    assert graph.warnings == [
        "18 matrices, the first layers.0.experts.0.gate, are MXFP4 in the checkpoint and rounded again to w8; "
        "w4a8 and w4a16 keep what it holds"
    ]


def test_generate_and_inspect_say_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = ["--board", "stm32f405", "--context", "8", "-o", str(tmp_path / "out")]
    for scheme, said in (("w8a8", "colibri: warning: 18 matrices, the first "), ("w4a8", "")):
        assert main(["generate", str(SOURCE), *out, "--scheme", scheme]) == 0
        err = capsys.readouterr().err
        assert err.startswith(said) and bool(err) == bool(said) and load_package(tmp_path / "out").scheme == scheme
    assert len(load_package(tmp_path / "out").warnings) == 0
    printed = io.StringIO()
    facts = Inspection("m", "f", "tokens", 1, 1, 8, 16, (2,), 1, "r", None, (), (), warnings=("rounded again",))
    print_inspection(facts, Console(file=printed, width=80))
    assert "warning: rounded again\n" in printed.getvalue()


def test_the_graph_of_blocks_is_that_of_the_weights_in_fp32(tmp_path: Path) -> None:
    """Which transformers and Colibri both read in another layout: transposed."""
    arrays = load_file(SOURCE / "model.safetensors")
    config = json.loads((SOURCE / "config.json").read_text())
    del config["quantization_config"]
    opened = Checkpoint.open(SOURCE)
    packed = [name for name in opened.names() if opened.dtype(name) == "MXFP4"]
    assert len(packed) == 4
    for name in packed:
        arrays[name] = np.ascontiguousarray(opened.take(name, opened.shape(name)).transpose(0, 2, 1))
        del arrays[f"{name}_blocks"], arrays[f"{name}_scales"]
    write_checkpoint(tmp_path, config, arrays)
    ids = np.arange(20) * 7 % 40
    blocks, plain = (Reference(load_graph(path)).extend(ids, all_rows=True) for path in (SOURCE, tmp_path))
    assert np.array_equal(blocks, plain)


def spread(exponents: list[int], codes: np.ndarray) -> Blocks:
    """A row of one block for each exponent."""
    return Blocks(codes.astype(np.uint8).reshape(1, -1), np.array([exponents], np.uint8))


def test_rows_of_wide_spans() -> None:
    """Blocks may lie 2^20 apart; a little more where halves and doubles are in the format too."""
    rng, every = np.random.default_rng(1), np.arange(32) % 16
    fives, eights = np.full(32, 1), np.full(32, 6)  # 0.5, which can be doubled thrice, and 4, which can be halved so
    for low, high, gap, fits in (
        (every, every, 20, True),
        (every, every, 21, False),
        (every, fives, 23, True),
        (every, fives, 24, False),
        (eights, fives, 26, True),
        (eights, fives, 27, False),
        (np.zeros(32), every, 200, True),
    ):
        blocks = spread([30, 30 + gap], np.concatenate([low, high]))
        matrix = blocks.matrix()
        assert (matrix is not None) == fits
        assert matrix is None or matrix.values.tobytes() == (blocks.values() + np.float32(0)).tobytes()
    for _ in range(50):
        scales = rng.integers(40, 61, (7, 5)).astype(np.uint8)
        blocks = Blocks(rng.integers(0, 16, (7, 160)).astype(np.uint8), scales)
        matrix = blocks.matrix()
        assert matrix is not None and matrix.integers is not None
        assert matrix.group_scale is not None and matrix.group_scale.max() <= 20
        assert set(matrix.integers.reshape(-1).tolist()) <= set(E2M1_DOUBLED.tolist())
        assert np.array_equal(matrix.values, blocks.values())


def test_ends_of_the_range() -> None:
    for scale, code, value in ((0, 1, 2.0**-128), (252, 7, 6 * 2.0**125)):
        blocks = spread([scale], np.full(32, code))
        matrix = blocks.matrix()
        assert matrix is not None
        assert blocks.values().tolist() == matrix.values.tolist() == [[value] * 32]


def test_a_wide_row_is_rounded_with_a_warning(tmp_path: Path) -> None:
    arrays = load_file(SOURCE / "model.safetensors")
    scales = arrays["model.layers.1.mlp.experts.down_proj_scales"]
    scales[2, 5] = [90, 124]
    write_checkpoint(tmp_path, json.loads((SOURCE / "config.json").read_text()), arrays)
    graph = load_graph(tmp_path, Scheme.W4A8)
    assert graph.warnings == [
        "2 matrices, the first layers.1.experts.0.down, are MXFP4 in the checkpoint and rounded again to w4",
        "layers.1.experts.2.down is MXFP4 with blocks of a row too far apart in the checkpoint and rounded again to w4",
    ]
    assert load_graph(tmp_path).warnings == []


def refusal(folder: Path, arrays: Arrays, config: dict[str, Any] | None = None) -> str:
    write_checkpoint(folder, config or {}, arrays)
    with pytest.raises(BadInput) as caught:
        checkpoint = Checkpoint.open(folder)
        checkpoint.take("w", checkpoint.shape("w"))
    return str(caught.value)


def test_damaged_blocks_are_refused(tmp_path: Path) -> None:
    blocks, scales = np.full((2, 3, 16), 0x77, np.uint8), np.full((2, 3), 120, np.uint8)
    pair = {"w_blocks": blocks, "w_scales": scales}
    assert "w_blocks: holds MXFP4 blocks, but there is no w_scales of bytes" in refusal(tmp_path, {"w_blocks": blocks})
    assert "no w_scales of bytes" in refusal(tmp_path, pair | {"w_scales": scales.astype(np.float32)})
    assert "shape 2×3×16, expected 16 bytes for each of 2×2 scales" in refusal(
        tmp_path, pair | {"w_scales": scales[:, :2]}
    )
    assert "'w' is stored twice" in refusal(tmp_path, pair | {"w": np.ones((2, 96), np.float32)})
    for bad in (255, 254):  # no number; 6 * 2^127
        scales[1, 2] = bad
        assert "w_scales: 1 of 6 blocks that were read are not finite in fp32" in refusal(tmp_path, pair)
    unused = np.zeros((2, 3, 16), np.float32)
    write_checkpoint(tmp_path, {}, {"w_blocks": unused, "w_scales": scales})
    assert Checkpoint.open(tmp_path).names() == ("w_blocks", "w_scales")
