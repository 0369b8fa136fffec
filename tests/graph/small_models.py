"""Graphs and checkpoints that the tests of several folders use."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from make_bad import CONFIG, tiny_mixtral, write_arrays, write_checkpoint

from colibri.boards.load import load_board
from colibri.checkpoint.checkpoint import Checkpoint
from colibri.checkpoint.families import ImportOptions, import_graph
from colibri.generate import generate
from colibri.graph.coding import FACTOR_MAX, FP4, FP4_SHIFT_MAX, TAIL_MAX, Coding
from colibri.graph.graph import Graph, StateType
from colibri.graph.scheme import Scheme
from colibri.graph.weights import E2M1_DOUBLED, Matrix, Vector
from colibri.options import Options
from colibri.package import Package
from colibri.passes.quantise import quantise_graph

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
ORACLE = ROOT / "tests" / "oracle"
SHAKESPEARE = EXAMPLES / "shakespeare-moe"
SENSORS = tuple(sorted(path.name for path in (EXAMPLES / "load-moe").iterdir()))
MIXTRALS = ("mixtral-base", "mixtral-fused-disk", "mixtral-sharded-swa")
DECODERS = (
    *MIXTRALS,
    "deepseekv2-lite",
    "deepseekv3-base",
    "gptoss-base",
    "granitemoe-base",
    "llama-llama3rope-tied",
    "llama4-top1",
    "olmoe-base",
    "phimoe-base",
    "qwen2-swa",
    "qwen2moe-base",
    "qwen3moe-base",
)
_VARIANTS = sorted(path.name for path in (ORACLE / "variants").iterdir())
VARIANTS = tuple(name for name in _VARIANTS if not name.startswith("switch"))
ENCODERS = ("switch-base", *(f"variants/{name}" for name in _VARIANTS if name.startswith("switch")))
HOST_BOARD = "x86-64-v3"
PORTABLE_BOARD = "stm32f405"  # of which `make_package` takes the portable kernels, which this machine compiles too

SENSOR_CONFIG: dict[str, Any] = {
    "input_dim": 5,
    "model_dim": 8,
    "expert_hidden": 6,
    "num_experts": 4,
    "top_k": 2,
    "output_dim": 2,
}


def sensor(name: str) -> Path:
    """Folder of one of the trained sensor models."""
    return EXAMPLES / "load-moe" / name


def load_graph(
    path: Path, scheme: Scheme = Scheme.F32, kv: StateType = StateType.F32, context: int | None = None
) -> Graph:
    """Import and quantise."""
    graph = import_graph(Checkpoint.open(path), ImportOptions(context, kv))
    quantise_graph(graph, scheme)
    return graph


def integer_matrix(coding: Coding, n: int, k: int, rng: np.random.Generator, bias: bool = False) -> Matrix:
    """Weights and what their groups have over the coding's whole range, row scales without short binary fractions."""
    low, high = coding.limits
    integers = rng.choice(E2M1_DOUBLED if coding == FP4 else np.arange(low, high + 1, dtype=np.int8), (n, k))
    top = FP4_SHIFT_MAX if coding == FP4 else FACTOR_MAX
    shape = n, coding.groups(k)
    least, kind = (0, np.uint8) if coding == FP4 else (0 if coding.zero else -top, np.int8)
    groups = rng.integers(least, top + 1, shape).astype(kind) if coding.format.grouped else None
    zeros = rng.integers(0, 256, shape).astype(np.uint8) if coding.zero else None
    offsets = rng.standard_normal(n).astype(np.float32) if bias else None
    row_scale = rng.uniform(0.001, 0.01, n).astype(np.float32)
    if coding.format.grouped:
        row_scale = (row_scale.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    tail = columns = None
    if count := coding.tail(k):
        tail = rng.integers(-TAIL_MAX, TAIL_MAX + 1, (n, count)).astype(np.int8)
        columns = np.sort(rng.permutation(k)[:count]).astype(np.int32)
    return Matrix(
        coding, (n, k), None, integers, row_scale, groups, offsets, zeros=zeros, tail=tail, tail_columns=columns
    )


def loaded(graph: Graph) -> dict[str, Vector | Matrix]:
    """All weights, read and converted."""
    return {name: one if isinstance(one, Vector) else one.load() for name, one in graph.weights.items()}


def write_mixtral(folder: Path, seed: int = 20, **changes: object) -> Path:
    """Write the tiny Mixtral with some keys of its config changed."""
    config = CONFIG | changes
    write_checkpoint(folder, config, tiny_mixtral(config, seed))
    return folder


def sensor_arrays(config: Mapping[str, Any] = SENSOR_CONFIG, seed: int = 3) -> dict[str, np.ndarray]:
    """Tensors of a sensor model of this config."""
    rng = np.random.default_rng(seed)
    width, hidden, experts = config["model_dim"], config["expert_hidden"], config["num_experts"]
    shapes = {
        "inp": (width, config["input_dim"]),
        "moe.gate": (experts, width),
        "out": (config["output_dim"], width),
    }
    for expert in range(experts):
        shapes[f"moe.experts.{expert}.fc1"] = (hidden, width)
        shapes[f"moe.experts.{expert}.fc2"] = (width, hidden)
    arrays: dict[str, np.ndarray] = {}
    for name, shape in sorted(shapes.items()):
        arrays[f"{name}.bias"] = (rng.standard_normal(shape[0]) * 0.2).astype(np.float32)
        arrays[f"{name}.weight"] = (rng.standard_normal(shape) * 0.5).astype(np.float32)
    return arrays


def write_sensor(folder: Path, arrays: Mapping[str, np.ndarray] | None = None, **changes: object) -> Path:
    """Write a sensor model; a change of None removes the key."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {key: value for key, value in {**SENSOR_CONFIG, **changes}.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(config))
    write_arrays(folder / "model.safetensors", dict(sensor_arrays() if arrays is None else arrays))
    return folder


def make_package(checkpoint: Path, out: Path, board: str = HOST_BOARD, **options: Any) -> Package:
    """Generate."""
    made_for = load_board(board)
    if board == PORTABLE_BOARD:
        made_for = msgspec.structs.replace(made_for, kernels=("portable",))
    return generate(checkpoint, made_for, Options(**options), out)
