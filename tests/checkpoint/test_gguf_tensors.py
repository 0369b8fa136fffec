"""Parts of GGUF's tensors are what the whole has there, and no more is read."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest

from colibri.checkpoint.checkpoint import Checkpoint
from colibri.checkpoint.files import LocalFile
from colibri.checkpoint.forms import open_form
from colibri.checkpoint.forms.gguf_blocks import FORMATS
from colibri.checkpoint.forms.gguf_tensors import Blocks, Joined, stacked

ORACLE = Path(__file__).parents[1] / "oracle/gguf"


@pytest.fixture
def blocks(tmp_path: Path) -> Blocks:
    """Of shape 3 × 4 × 64 in Q8_0, behind 5 other bytes."""
    values = np.random.default_rng(5).normal(0, 1, (3, 4, 64)).astype(np.float32)
    raw = gguf.quants.quantize(values, gguf.GGMLQuantizationType.Q8_0).tobytes()
    (tmp_path / "x").write_bytes(bytes(5) + raw)
    return Blocks(LocalFile(tmp_path / "x"), FORMATS[8], (3, 4, 64), 5)


def test_entries_and_spans(blocks: Blocks) -> None:
    whole = blocks.rows(0, 3)
    assert whole.shape == (3, 4, 64) and blocks.nbytes == 3 * 4 * 68
    assert np.array_equal(blocks.rows(1, 2), whole[1:2]) and blocks.rows(2, 2).shape == (0, 4, 64)
    assert np.array_equal(blocks.entry(2).rows(1, 4), whole[2, 1:4])
    assert np.array_equal(blocks.span(1, 3).rows(0, 2), whole[1:3])
    inner = blocks.inner(1, 3)
    assert inner.shape == (3, 2, 64)
    assert np.array_equal(inner.rows(0, 3), whole[:, 1:3]) and np.array_equal(inner.rows(2, 3), whole[2:, 1:3])
    assert np.array_equal(inner.entry(1).rows(0, 2), whole[1, 1:3]) and inner.rows(1, 1).shape == (0, 2, 64)
    assert np.array_equal(inner.raw(0, 3), b"".join(inner.entry(at).raw(0, 2) for at in range(3)))


def test_joined_entries_as_one_axis(blocks: Blocks) -> None:
    joined = Joined((blocks, blocks.inner(0, 1)), stacked, flat=True)
    whole = joined.rows(0, 15)
    assert joined.shape == (15, 64) == whole.shape and joined.dtype == "joined Q8_0"
    for begin, end in ((0, 0), (0, 1), (4, 5), (3, 11), (14, 15)):
        assert np.array_equal(joined.rows(begin, end), whole[begin:end])


@pytest.mark.parametrize("file", sorted(path.name for path in ORACLE.glob("*.gguf")))
def test_any_rows_of_any_tensor(file: str) -> None:
    """Of every kind of join that the architectures have."""
    stored = open_form(ORACLE / file).tensors._stored
    rng = np.random.default_rng(1)
    for name, tensor in stored.items():
        count = tensor.shape[0]
        whole = tensor.rows(0, count)
        assert whole.shape == tensor.shape, name
        begin, end = sorted(int(at) for at in rng.integers(0, count + 1, 2))
        assert np.array_equal(tensor.rows(begin, end), whole[begin:end]), name


def test_older_and_fused_layouts_hold_the_same(tmp_path: Path) -> None:
    """Experts one by one, as before they were stored together; q, k and v, gate and up joined, as on request."""
    read = gguf.GGUFReader(ORACLE / "mixtral.gguf")
    whole = {tensor.name: (tensor.data, tensor.tensor_type) for tensor in read.tensors}
    old, fused = dict(whole), dict(whole)
    for name in whole:
        layer, _, stem = name.rpartition(".ffn_")
        if stem.endswith("_exps.weight"):
            data, kind = old.pop(name)
            slot = stem.removesuffix("_exps.weight")
            old |= {f"{layer}.ffn_{slot}.{expert}.weight": (part, kind) for expert, part in enumerate(data)}
    for layer in ("blk.0", "blk.1"):
        parts = [fused.pop(f"{layer}.attn_{slot}.weight") for slot in "qkv"]
        fused[f"{layer}.attn_qkv.weight"] = np.concatenate([data for data, _ in parts]), parts[0][1]
        parts = [fused.pop(f"{layer}.ffn_{slot}_exps.weight") for slot in ("gate", "up")]
        fused[f"{layer}.ffn_gate_up_exps.weight"] = np.concatenate([data for data, _ in parts], axis=1), parts[0][1]
    wanted = Checkpoint.open(ORACLE / "mixtral.gguf")
    for number, tensors in enumerate((old, fused)):
        write = gguf.GGUFWriter(tmp_path / f"{number}.gguf", "llama")
        for key, field in read.fields.items():
            if not key.startswith("GGUF.") and key != "general.architecture":
                write.add_key_value(key, field.contents(), field.types[0])
        for name, (data, kind) in tensors.items():
            write.add_tensor(name, data, raw_dtype=kind)
        write.write_header_to_file()
        write.write_kv_data_to_file()
        write.write_tensors_to_file()
        write.close()
        found = Checkpoint.open(tmp_path / f"{number}.gguf")
        assert found.names() == wanted.names() and len(found.names()) == 1 + 2 * (7 + 3 * 5) + 2
        for name in found.names():
            shape = found.shape(name)
            assert np.array_equal(found.take(name, shape), Checkpoint.open(ORACLE / "mixtral.gguf").take(name, shape))
