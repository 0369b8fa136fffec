"""GGUF files that llama.cpp's own converter and quantiser wrote, against the outputs of the original models."""

from __future__ import annotations

import tomllib
from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf_bytes import rewrite, tensors_of
from small_models import ORACLE

from colibri.checkpoint.checkpoint import Checkpoint
from colibri.checkpoint.families import ImportOptions, import_graph
from colibri.errors import BadInput
from colibri.golden import compare_with_golden
from colibri.graph.coding import WeightFormat
from colibri.graph.scheme import Scheme
from colibri.passes.quantise import quantise_graph

FOLDER = ORACLE / "gguf"
CASES = tomllib.loads((ORACLE / "gguf.toml").read_text(encoding="utf-8"))
SEEN = 2e-5  # the worst that was seen is 1.1e-5


def file_of(name: str) -> str:
    return f"{name}-00002-of-00002.gguf" if "split" in CASES[name] else f"{name}.gguf"


def test_there_is_a_file_for_each_case() -> None:
    assert {path.stem for path in FOLDER.glob("*.npz")} == set(CASES)
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 1 << 20
    models = {import_graph(Checkpoint.open(FOLDER / file_of(name)), ImportOptions(16)).family for name in CASES}
    assert len(models) == 13


@pytest.mark.parametrize("name", CASES)
def test_logits_of_every_position(name: str) -> None:
    longest = 32 if name == "phimoe" else None  # behind it the original takes other frequencies
    result = compare_with_golden(FOLDER / file_of(name), FOLDER / f"{name}.npz", longest)
    assert result.passed(SEEN) and len(result.cases) == 4 and not result.skipped


@pytest.mark.parametrize("name", ["mixtral-k-blocks", "qwen3moe-q8", "qwen2moe-q4"])
def test_experts_are_the_values_that_the_blocks_hold(name: str) -> None:
    """Bit for bit, expert by expert, as the `gguf` package reads the same file."""
    file = FOLDER / file_of(name)
    checkpoint, stored = Checkpoint.open(file), {tensor.name: tensor for tensor in gguf.GGUFReader(file).tensors}
    prefix, slots = "mlp.experts", {"gate": "gate_proj", "up": "up_proj", "down": "down_proj"}
    if name.startswith("mixtral"):
        prefix, slots = "block_sparse_moe.experts", {"gate": "w1", "up": "w3", "down": "w2"}
    seen = set()
    for slot, called in slots.items():
        tensor = stored[f"blk.1.ffn_{slot}_exps.weight"]
        wanted = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        for expert, values in enumerate(wanted):
            found = f"model.layers.1.{prefix}.{expert}.{called}.weight"
            seen.add(checkpoint.dtype(found))
            assert np.array_equal(checkpoint.take(found, values.shape), values)
    assert seen == {tensor.tensor_type.name for name, tensor in stored.items() if "_exps" in name}


def test_blocks_of_mxfp4_stay_what_they_are() -> None:
    graph = import_graph(Checkpoint.open(FOLDER / "gptoss-mxfp4.gguf"), ImportOptions(16))
    quantise_graph(graph, Scheme.W4A8)
    experts = [graph.matrix(name).format for name in graph.weights if ".experts." in name]
    assert len(experts) == 2 * 3 * 3 and set(experts) == {WeightFormat.FP4}
    assert graph.warnings == []
    graph = import_graph(Checkpoint.open(FOLDER / "gptoss-mxfp4.gguf"), ImportOptions(16))
    quantise_graph(graph, Scheme.W8A8)
    assert "are MXFP4 in the checkpoint and rounded again to w8" in graph.warnings[0]


def test_gate_and_up_of_different_shapes(tmp_path: Path) -> None:
    tensors = tensors_of(FOLDER / "gptoss-mxfp4.gguf")
    data, kind = tensors["blk.1.ffn_up_exps.weight"]
    tensors["blk.1.ffn_up_exps.weight"] = data[:, :16], kind
    with pytest.raises(BadInput, match="shapes 3×32×32 and 3×16×32 where they belong together"):
        Checkpoint.open(rewrite(FOLDER / "gptoss-mxfp4.gguf", tmp_path / "x.gguf", tensors))


def test_a_layer_of_which_only_some_matrices_are_mxfp4(tmp_path: Path) -> None:
    tensors = tensors_of(FOLDER / "gptoss-mxfp4.gguf")
    for name, (data, kind) in tensors.items():
        if "ffn_down_exps.weight" in name:
            tensors[name] = gguf.quants.dequantize(data, kind), gguf.GGMLQuantizationType.F32
    file = rewrite(FOLDER / "gptoss-mxfp4.gguf", tmp_path / "mixed.gguf", tensors)
    assert compare_with_golden(file, FOLDER / "gptoss-mxfp4.npz").passed(SEEN)
