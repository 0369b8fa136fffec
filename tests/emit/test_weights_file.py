"""model.bin is the same whether it is written whole or in the smallest pieces, and nothing stays of what fails."""

from __future__ import annotations

import random
import zlib
from pathlib import Path

import numpy as np
import pytest
from make_bad import CONFIG, tiny_mixtral, write_checkpoint
from small_models import ORACLE, load_graph, write_mixtral

from colibri.boards.load import load_board
from colibri.checkpoint.source import Tensors
from colibri.checksum import combined
from colibri.emit import weights_file
from colibri.emit.model_bin import plan_model_bin
from colibri.emit.weights_file import write_model_bin
from colibri.errors import BadInput
from colibri.generate import generate, prepare
from colibri.graph import interpret
from colibri.graph.interpret import Reference
from colibri.graph.scheme import Scheme
from colibri.graph.weights import Kept
from colibri.options import Options
from colibri.passes.kernels import KernelSet
from colibri.passes.pack import plan_layouts

DECODERS = ["mixtral-fused-disk", "deepseekv3-base", "gptoss-base", "llama4-top1", "granitemoe-base", "qwen2moe-base"]


def test_checksums_of_pieces_make_that_of_the_whole() -> None:
    raw = random.Random(2).randbytes(5000)
    for cut in (0, 1, 17, 4096, 4999, 5000):
        first, second = raw[:cut], raw[cut:]
        assert combined(zlib.crc32(first), zlib.crc32(second), len(second)) == zlib.crc32(raw)


def written(file: Path, name: str, scheme: Scheme, kernels: str) -> bytes:
    graph = load_graph(ORACLE / name, scheme)
    layouts = plan_layouts(graph, KernelSet((kernels, "portable")))
    write_model_bin(file, plan_model_bin(graph, layouts, b"{}", ""), graph, layouts, lambda done: None)
    return file.read_bytes()


CASES = [(name, scheme, "avx2") for name in DECODERS for scheme in (Scheme.F32, Scheme.W4A8)]
CASES += [("mixtral-fused-disk", Scheme.W8A8, "avx2"), ("gptoss-base", Scheme.W4A8, "portable")]


@pytest.mark.parametrize(("name", "scheme", "kernels"), CASES)
def test_pieces_make_the_same_file(
    name: str, scheme: Scheme, kernels: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = written(tmp_path / "whole", name, scheme, kernels)
    monkeypatch.setattr(weights_file, "_BLOCK", 64)
    monkeypatch.setattr(weights_file, "_TASK", 200)
    assert written(tmp_path / "pieces", name, scheme, kernels) == whole


@pytest.mark.parametrize("scheme", [Scheme.F32, Scheme.W4A16])
@pytest.mark.parametrize("name", DECODERS)
def test_the_reference_answers_alike_where_no_matrix_is_kept(
    name: str, scheme: Scheme, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, tokens = load_graph(ORACLE / name, scheme, context=24), np.arange(5)
    kept = Reference(graph).extend(tokens, all_rows=True)
    assert graph.kept.made
    graph.kept = Kept(left=0)
    monkeypatch.setattr(interpret, "_BLOCK", 200)
    assert Reference(graph).extend(tokens, all_rows=True).tobytes() == kept.tobytes()
    assert not graph.kept.made


def test_what_cannot_be_read_ends_the_writing(tmp_path: Path) -> None:
    arrays = tiny_mixtral()
    arrays["model.layers.1.block_sparse_moe.experts.3.w2.weight"][3, 2] = np.nan
    write_checkpoint(tmp_path / "m", CONFIG, arrays)
    graph = load_graph(tmp_path / "m", Scheme.W8A8)
    layouts = plan_layouts(graph, KernelSet(("portable",)))
    made = plan_model_bin(graph, layouts, b"{}", "")
    with pytest.raises(BadInput, match=r"experts\.3\.w2\.weight: 1 of 384 values are not finite"):
        write_model_bin(tmp_path / "model.bin", made, graph, layouts, lambda done: None)


def test_a_fault_in_an_expert_that_no_vector_needs_leaves_no_folder(tmp_path: Path) -> None:
    arrays = tiny_mixtral(CONFIG | {"num_experts_per_tok": 1})
    for layer in range(2):  # the last expert is never chosen: its score is that of the one before, which goes first
        arrays[f"model.layers.{layer}.block_sparse_moe.gate.weight"][3] = 0
        arrays[f"model.layers.{layer}.block_sparse_moe.gate.weight"][2] = 0
    arrays["model.layers.1.block_sparse_moe.experts.3.w2.weight"][3, 2] = np.inf
    write_checkpoint(tmp_path / "m", CONFIG | {"num_experts_per_tok": 1}, arrays)
    board, options = load_board("stm32f405"), Options(Scheme.W8A8, context=8)
    prepare(tmp_path / "m", board, options, tmp_path / "far" / "out")  # nothing here has read it
    with pytest.raises(BadInput, match=r"experts\.3\.w2\.weight: 1 of 384 values are not finite"):
        generate(tmp_path / "m", board, options, tmp_path / "far" / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_no_matrix_is_read_before_the_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: set[str] = set()
    rows = Tensors.rows
    monkeypatch.setattr(Tensors, "rows", lambda self, name, *span: read.add(name) or rows(self, name, *span))
    graph = load_graph(write_mixtral(tmp_path / "m"), Scheme.W8A8)
    layouts = plan_layouts(graph, KernelSet(("portable",)))
    made = plan_model_bin(graph, layouts, b"{}", "")
    assert read and all("norm" in name for name in read)
    write_model_bin(tmp_path / "model.bin", made, graph, layouts, lambda done: None)
    assert any("experts" in name for name in read)
