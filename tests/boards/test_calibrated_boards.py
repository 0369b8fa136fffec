"""Calibrated packages on one board of each family: folded scales, merged experts and all codings, to the last bit.

The C knows nothing of calibration, but its numbers are others than those of rounding to nearest: factors of both signs,
zero points and tails that make good what was lost before them, and steps that data has chosen.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from board_packages import Make
from make_bad import CONFIG, tiny_mixtral, write_checkpoint
from small_models import sensor_arrays, write_sensor

from colibri.recipe import parse_recipe
from colibri.testing import check_package

BOARDS = (
    "nucleo-h743zi",
    "stm32f405",
    "raspberry-pi-pico",
    "mps3-an547",
    "riscv-virt-rv32imac",
    "raspberry-pi-4",
    "wasm32",
    "x86-64-v3",
)
# A group of 128 columns and one of 8, two of 64 and one of 8; and one of 64 and one of 8.
SHAPE = {"hidden_size": 72, "intermediate_size": 136, "num_key_value_heads": 2, "vocab_size": 64}
LIMIT = 384  # tokens or samples to calibrate with
FACTOR = np.float32(64)
RECIPES = {
    "groups": "w3g64za8:attention=w4za16:experts.up=w3g64za16+o5:experts.gate=w3g64za16+o5:experts.down=w2g128a8+o10:"
    "embedding=w3a8:head=w4a8+o5:kv=int8:prefill=3:context=16:drop=1.2:merge=0.3-1@0.25:calibrate={data}",
    "own text": "w2za8+o10:attention=w5g64a8:0.attention.v=w6a16:experts.down=w4a8+o5:head=w8a16:router=w8a8:kv=f16:"
    "context=16:merge=1.0-2@0.5:calibrate=self",
    "nearest": "w4g128a16+o20:experts=w3a8+o5:experts.down=w8a16:kv=int8:prefill=4:context=16:calibrate={data}:"
    "rounding=nearest",
    "samples": "w4za8+o10:experts=w3g64a16+o20:router=w6a8:batch=2:merge=0.2-0@0.375:calibrate={data}",
}  # fmt: skip
# Two on all boards; of the others one on each.
RUNS = [
    *((name, board) for board in BOARDS for name in ("groups", "samples")),
    *(("own text", board) for board in BOARDS[1::2]),
    *(("nearest", board) for board in BOARDS[::2]),
]


def with_outliers(folder: Path) -> Path:
    """A Mixtral with outliers that norms show, and others that only data shows."""
    config = CONFIG | SHAPE
    arrays = tiny_mixtral(config, 20)
    for layer in range(2):
        prefix = f"model.layers.{layer}"
        arrays[f"{prefix}.input_layernorm.weight"][5] *= FACTOR
        for slot in "qkv":
            arrays[f"{prefix}.self_attn.{slot}_proj.weight"][:, 5] /= FACTOR
        expert = f"{prefix}.block_sparse_moe.experts.1"
        arrays[f"{expert}.w3.weight"][2] *= FACTOR
        arrays[f"{expert}.w2.weight"][:, 2] /= FACTOR
    write_checkpoint(folder, config, arrays)
    return folder


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Path]]:
    """Checkpoint and calibration data of a language model and a sensor model, by the kind of data."""
    folder = tmp_path_factory.mktemp("calibrated")
    rng = np.random.default_rng(6)
    np.save(folder / "tokens.npy", rng.integers(0, SHAPE["vocab_size"], 16 * 24))
    np.save(folder / "samples.npy", rng.standard_normal((96, 5)).astype(np.float32))
    wide = {"input_dim": 5, "model_dim": 72, "expert_hidden": 40, "num_experts": 4, "top_k": 2, "output_dim": 2}
    return {
        "tokens": (with_outliers(folder / "language"), folder / "tokens.npy"),
        "samples": (write_sensor(folder / "sensor", sensor_arrays(wide), **wide), folder / "samples.npy"),
    }


@pytest.mark.emulator
@pytest.mark.parametrize(("name", "board"), RUNS)
def test_a_calibrated_package_has_its_bits(
    name: str, board: str, models: dict[str, tuple[Path, Path]], make: Make
) -> None:
    if board == "wasm32":
        pytest.importorskip("wasmtime")
    checkpoint, data = models["samples" if name == "samples" else "tokens"]
    options = parse_recipe(RECIPES[name].format(data=data))
    assert options.calibration is not None
    options = replace(options, calibration=replace(options.calibration, limit=LIMIT))
    folder, package = make(checkpoint, board, options)
    recipe = json.loads((folder / "recipe.json").read_text())
    assert recipe["calibration"] and (name == "samples" or recipe["folds"]) and (not options.merges or recipe["merges"])
    results = check_package(folder, check_memory=True)
    assert {result.emulator for result in results} == {emulator.name for emulator in package.board.emulators}
    assert all(result.passed and result.outputs > 20 for result in results)
    assert len({result.digest for result in results}) == 1
