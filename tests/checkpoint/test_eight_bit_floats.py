"""Checkpoints of 8-bit floats with a scale for each block, as DeepSeek-V3 was released."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from make_bad import CONFIG, Arrays, tiny_mixtral, write_checkpoint
from safetensors.numpy import load_file
from small_models import ORACLE, load_graph

from colibri.checkpoint.checkpoint import Checkpoint
from colibri.errors import BadInput
from colibri.graph.interpret import Reference

BLOCK = (8, 6)
FP8 = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": list(BLOCK)}


def in_blocks(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rounded to 8 bits, and the scale of each block of the last two axes."""
    rows, columns = (-(-extent // block) for extent, block in zip(values.shape[-2:], BLOCK, strict=True))
    scales = np.zeros((*values.shape[:-2], rows, columns), np.float32)
    small = np.zeros(values.shape, ml_dtypes.float8_e4m3fn)
    for i in range(rows):
        for k in range(columns):
            block = np.s_[..., i * BLOCK[0] : (i + 1) * BLOCK[0], k * BLOCK[1] : (k + 1) * BLOCK[1]]
            scales[..., i, k] = np.abs(values[block]).max(axis=(-2, -1)) / 448 + np.float32(1e-9)
            small[block] = (values[block] / scales[..., i, k][..., None, None]).astype(ml_dtypes.float8_e4m3fn)
    return small, scales


def exactly(small: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """What the two mean, element by element."""
    whole = np.empty(small.shape, np.float32)
    for place in np.ndindex(small.shape):
        scale = scales[(*place[:-2], place[-2] // BLOCK[0], place[-1] // BLOCK[1])]
        whole[place] = np.float32(small[place]) * scale
    return whole


def shrink(arrays: Arrays) -> Arrays:
    """Every projection and expert in 8 bits; norms, router, embedding and head stay."""
    shrunk: Arrays = {}
    for name, values in arrays.items():
        if values.ndim < 2 or any(part in name for part in ("embed", "lm_head", "gate.weight", "norm")):
            shrunk[name] = values
        else:
            shrunk[name], shrunk[f"{name}_scale_inv"] = in_blocks(np.asarray(values, np.float32))
    return shrunk


def widened(arrays: Arrays) -> Arrays:
    """The same weights in fp32."""
    return {
        name: exactly(values, arrays[f"{name}_scale_inv"]) if f"{name}_scale_inv" in arrays else values
        for name, values in arrays.items()
        if not name.endswith("_scale_inv")
    }


def test_the_graph_is_that_of_the_weights_in_fp32(tmp_path: Path) -> None:
    arrays = shrink(tiny_mixtral())
    assert sum(name.endswith("_scale_inv") for name in arrays) > 10
    write_checkpoint(tmp_path / "small", CONFIG | {"quantization_config": FP8}, arrays)
    write_checkpoint(tmp_path / "wide", CONFIG, widened(arrays))
    ids = np.arange(10) * 3 % 40
    small, wide = (Reference(load_graph(tmp_path / name)).extend(ids, all_rows=True) for name in ("small", "wide"))
    assert np.array_equal(small, wide)


def test_fused_experts_have_blocks_of_their_own(tmp_path: Path) -> None:
    values = np.random.default_rng(3).standard_normal((3, 20, 13)).astype(np.float32)
    small, scales = in_blocks(values)
    write_checkpoint(tmp_path, {"quantization_config": FP8}, {"e": small, "e_scale_inv": scales})
    checkpoint = Checkpoint.open(tmp_path)
    assert checkpoint.names() == checkpoint.left() == ("e",)
    assert checkpoint.take("e", (3, 20, 13)).tobytes() == exactly(small, scales).tobytes()
    assert checkpoint.finish() == []


def test_a_deepseek_in_this_form(tmp_path: Path) -> None:
    source = ORACLE / "variants/deepseekv3-groups-of-three"
    config = json.loads((source / "config.json").read_text())
    arrays = shrink(load_file(source / "model.safetensors"))
    write_checkpoint(tmp_path / "small", config | {"quantization_config": FP8}, arrays)
    write_checkpoint(tmp_path / "wide", config, widened(arrays))
    ids = np.arange(20) * 7 % 40
    small, wide = (Reference(load_graph(tmp_path / name)).extend(ids, all_rows=True) for name in ("small", "wide"))
    assert np.array_equal(small, wide)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"quant_method": "fp8"}, "quantization_config fp8 is not readable as plain weights"),
        (FP8 | {"fmt": "e5m2"}, "quantization_config fp8 is not readable"),
        (FP8 | {"quant_method": "gptq"}, "quantization_config gptq is not readable"),
        (FP8 | {"weight_block_size": [128]}, "quantization_config fp8 is not readable"),
        (FP8 | {"weight_block_size": [0, 128]}, "weight_block_size[0] is 0, expected 1 to 65536"),
    ],
)
def test_other_ways_are_refused(tmp_path: Path, settings: dict[str, Any], words: str) -> None:
    write_checkpoint(tmp_path, CONFIG | {"quantization_config": settings})
    with pytest.raises(BadInput) as caught:
        Checkpoint.open(tmp_path)
    assert words in str(caught.value)


def refusal(folder: Path, config: dict[str, Any], arrays: Arrays) -> str:
    write_checkpoint(folder, config, arrays)
    checkpoint = Checkpoint.open(folder)
    with pytest.raises(BadInput) as caught:
        checkpoint.take("w", checkpoint.shape("w"))
    return str(caught.value)


def test_scales_that_are_missing_or_of_another_shape(tmp_path: Path) -> None:
    small, scales = in_blocks(np.ones((9, 9), np.float32))
    blocks = {"quantization_config": FP8}
    assert "w: holds 8-bit floats, but there is no w_scale_inv" in refusal(tmp_path, blocks, {"w": small})
    assert "but config.json has no quantization_config" in refusal(tmp_path, {}, {"w": small, "w_scale_inv": scales})
    odd = {"w": small, "w_scale_inv": scales[:1]}
    assert "w_scale_inv: shape 1×2, expected 2×2: a scale for each block of 8 × 6" in refusal(tmp_path, blocks, odd)
    flat = {"w": small[0], "w_scale_inv": scales[0]}
    assert "8-bit floats of 1 dimension" in refusal(tmp_path, blocks, flat)
    nan = {"w": small, "w_scale_inv": np.full((2, 2), np.nan, np.float32)}
    assert "w_scale_inv: 4 of 4 values are not finite" in refusal(tmp_path, blocks, nan)


def test_scales_of_nothing_are_a_tensor_too_many(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, {}, {"w": np.ones((2, 2), np.float32), "w_scale_inv": np.ones((1, 1), np.float32)})
    checkpoint = Checkpoint.open(tmp_path)
    checkpoint.take("w", (2, 2))
    with pytest.raises(BadInput, match=r"1 tensor\(s\) that this model does not have: 'w_scale_inv'"):
        checkpoint.finish()
