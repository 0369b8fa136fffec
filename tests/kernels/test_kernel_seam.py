"""A board's kernel folder against the portable one: another packing, other code, the same output bits."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from make_bad import CONFIG, tiny_mixtral, write_checkpoint
from shared_objects import SharedObjects
from small_models import EXAMPLES

from colibri.boards.load import load_board
from colibri.generate import generate
from colibri.graph.graph import StateType
from colibri.graph.scheme import SCHEMES, Scheme
from colibri.options import Options
from colibri.passes.kernels import KernelSet
from colibri.testing import EmulatorResult, check_package
from colibri.toolchain.probe import examine_emulator

# No extent is a multiple of a tile.
ODD_MIXTRAL = CONFIG | {
    "hidden_size": 20,
    "intermediate_size": 35,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "tie_word_embeddings": True,
    "vocab_size": 41,
}

# Heads of 16 elements, which kernels may read as words.
WIDE_HEADS = CONFIG | {"hidden_size": 32, "num_attention_heads": 2, "num_key_value_heads": 2}

BOARDS = [
    pytest.param("x86-64-v2", "native", "sse41", id="sse41"),
    pytest.param("x86-64-v3", "native", "avx2", id="avx2"),
    pytest.param("x86-64-v4", "native", "avx512vnni", id="avx512vnni"),
    pytest.param("raspberry-pi-4", "cortex-a72", "neon", id="neon", marks=pytest.mark.emulator),
    pytest.param("raspberry-pi-5", "cortex-a76", "neon_dotprod", id="neon_dotprod", marks=pytest.mark.emulator),
    pytest.param("graviton-4", "vl128", "neon_i8mm", id="neon_i8mm", marks=pytest.mark.emulator),
    pytest.param("aarch64-sve2", "vl256", "sve", id="sve", marks=pytest.mark.emulator),
    pytest.param("stm32f405", "netduinoplus2", "dsp", id="dsp", marks=pytest.mark.emulator),
]


def run_both(
    checkpoint: Path,
    board: str,
    emulator: str,
    folder: str,
    options: Options,
    tmp_path: Path,
    objects: SharedObjects,
) -> None:
    """Test two packages of a checkpoint; both agree with the reference, so their digests must be one."""
    own = load_board(board)
    if emulator == "native" and (problem := examine_emulator(own, own.emulators[0]).problem):
        pytest.skip(f"{folder}: {problem}")
    assert own.kernels[0] == folder
    scheme, kernels_of = options.scheme, KernelSet(own.kernels)
    own_kernel = kernels_of.folder(kernels_of.dot_kernel(scheme.coding, scheme.activations)) != "portable"
    results: list[EmulatorResult] = []
    models = []
    for kernels in (own.kernels, ("portable",)):
        out = tmp_path / kernels[0]
        generate(checkpoint, msgspec.structs.replace(own, kernels=kernels), options, out)
        objects.lend(out)
        used = {header.parent.name for header in (out / "runtime" / "kernels").glob("*/dot_*.h")}
        assert used & set(kernels[:-1] or kernels) or not own_kernel
        models.append((out / "model.bin").read_bytes())
        results += check_package(out, emulators=(emulator,))
        objects.keep(out)
    assert [result.mismatches for result in results] == [(), ()]
    assert results[0].digest == results[1].digest
    assert results[0].outputs == results[1].outputs > 0
    assert (models[0] != models[1]) is own_kernel, "the packing of the folder is not the portable one"


@pytest.mark.parametrize(("board", "emulator", "folder"), BOARDS)
@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
class TestSameBits:
    def test_trained_sensor_model(
        self, scheme: Scheme, board: str, emulator: str, folder: str, tmp_path: Path, objects: SharedObjects
    ) -> None:
        checkpoint = EXAMPLES / "load-moe" / "top1-e3-tiny"
        run_both(checkpoint, board, emulator, folder, Options(scheme=scheme, batch=3), tmp_path, objects)

    def test_odd_tied_token_model(
        self, scheme: Scheme, board: str, emulator: str, folder: str, tmp_path: Path, objects: SharedObjects
    ) -> None:
        """The embedding reads the head's packing; the rows of a call stand a padded stride apart."""
        arrays = tiny_mixtral(ODD_MIXTRAL)
        del arrays["lm_head.weight"]
        write_checkpoint(tmp_path / "checkpoint", ODD_MIXTRAL, arrays)
        options = Options(scheme=scheme, kv=StateType.F16, prefill=3)
        run_both(tmp_path / "checkpoint", board, emulator, folder, options, tmp_path, objects)

    def test_experts_with_all_rows_that_chose_them(
        self, scheme: Scheme, board: str, emulator: str, folder: str, tmp_path: Path, objects: SharedObjects
    ) -> None:
        """A call has more rows than a kernel takes at once, and of most experts another number than a multiple."""
        arrays = tiny_mixtral(ODD_MIXTRAL)
        del arrays["lm_head.weight"]
        write_checkpoint(tmp_path / "checkpoint", ODD_MIXTRAL, arrays)
        options = Options(scheme=scheme, prefill=21)
        run_both(tmp_path / "checkpoint", board, emulator, folder, options, tmp_path, objects)


@pytest.mark.parametrize(("board", "emulator", "folder"), BOARDS)
@pytest.mark.parametrize("config", [CONFIG, WIDE_HEADS], ids=["narrow", "wide"])
def test_same_bits_of_8_bit_states(
    config: dict[str, object], board: str, emulator: str, folder: str, tmp_path: Path, objects: SharedObjects
) -> None:
    own = config | {"tie_word_embeddings": False}
    write_checkpoint(tmp_path / "checkpoint", own, tiny_mixtral(own))
    options = Options(scheme=Scheme.W8A8, kv=StateType.I8, prefill=3)
    run_both(tmp_path / "checkpoint", board, emulator, folder, options, tmp_path, objects)
