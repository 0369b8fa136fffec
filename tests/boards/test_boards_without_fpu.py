"""Cores without an FPU, whose kernels estimate: the bits of the reference for every family, odd shapes and schemes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from board_packages import ORACLE, Make
from make_bad import CONFIG, tiny_mixtral, write_checkpoint
from small_models import write_mixtral
from test_model_families import MODELS

from colibri.boards.load import load_board
from colibri.checkpoint.checkpoint import Checkpoint
from colibri.generate import build_graph
from colibri.graph.graph import StateType
from colibri.graph.ops import Experts, QuantisedNorm, Router
from colibri.graph.scheme import Scheme
from colibri.options import Options
from colibri.passes.estimate import estimate_ops
from colibri.passes.kernels import KernelSet
from colibri.progress import unseen
from colibri.testing import check_package

BOARDS = ("raspberry-pi-pico", "riscv-virt-rv32imac")
SCHEMES = ("w8a8", "w8a16", "w4a8", "w4g64za8", "w3a8+o5", "f16", "f32")

pytestmark = pytest.mark.emulator


def has_its_bits(checkpoint: Path, board: str, options: Options, make: Make) -> None:
    folder, package = make(checkpoint, board, options)
    results = check_package(folder, check_memory=True, instructions=False)
    assert {result.emulator for result in results} == {emulator.name for emulator in package.board.emulators}
    assert all(result.mismatches == () and result.outputs > 100 for result in results)


@pytest.mark.parametrize("board", BOARDS)
@pytest.mark.parametrize("model", MODELS)
def test_a_family_has_its_bits(model: str, board: str, make: Make) -> None:
    has_its_bits(ORACLE / model, board, MODELS[model], make)


@pytest.mark.parametrize("board", BOARDS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_odd_shapes_have_their_bits(scheme: str, board: str, tmp_path: Path, make: Make) -> None:
    """Rows that fill neither tiles nor groups, and several rows at once."""
    config = {"hidden_size": 24, "intermediate_size": 37, "num_local_experts": 5}  # heads of 6
    checkpoint = write_mixtral(tmp_path / "model", **config)
    options = Options(Scheme.parse(scheme), StateType.I8, prefill=3, context=12)
    has_its_bits(checkpoint, board, options, make)


@pytest.mark.parametrize("board", BOARDS)
@pytest.mark.parametrize("scheme", ["w8a8", "w4a8"])
def test_hidden_values_that_are_no_numbers(scheme: str, board: str, tmp_path: Path, make: Make) -> None:
    """A gate of 0 times an up value that overflows."""
    arrays = tiny_mixtral(CONFIG, 20)
    for name in list(arrays):
        if name.endswith(("w1.weight", "w3.weight")):
            arrays[name] = np.array(arrays[name], np.float32)
            arrays[name][0] *= 0 if "w1" in name else 1e38 / np.abs(arrays[name][0]).max()
    write_checkpoint(tmp_path / "model", CONFIG, arrays)
    has_its_bits(tmp_path / "model", board, Options(Scheme.parse(scheme), context=12), make)


@pytest.mark.parametrize("board", BOARDS)
def test_estimates_are_made_where_a_quantiser_alone_reads(board: str, tmp_path: Path) -> None:
    checkpoint = write_mixtral(tmp_path / "model")
    for scheme, estimated in (("w4a8", True), ("w4a16", False), ("f32", False)):
        graph = build_graph(Checkpoint.open(checkpoint), Options(Scheme.parse(scheme)), unseen)
        ops = estimate_ops(graph, KernelSet(load_board(board).kernels)).ops
        assert sum(isinstance(op, QuantisedNorm) for op in ops) == (
            3 if estimated else 0
        )  # of two layers, and the last
        assert {op.estimated for op in ops if isinstance(op, Experts)} == {estimated}
        assert {op.estimated for op in ops if isinstance(op, Router)} == {True}
