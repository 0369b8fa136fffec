"""Parts of GGUF's tensors are what the whole has there, and no more is read."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf_bytes import rewrite, tensors_of

from colibri.checkpoint.checkpoint import Checkpoint
from colibri.checkpoint.families import ImportOptions, import_graph
from colibri.checkpoint.files import LocalFile
from colibri.checkpoint.forms import open_form
from colibri.checkpoint.forms.gguf_blocks import FORMATS
from colibri.checkpoint.forms.gguf_tensors import Blocks, Joined, stacked
from colibri.errors import BadInput
from colibri.golden import compare_with_golden

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
    whole = tensors_of(ORACLE / "mixtral.gguf")
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
        found = Checkpoint.open(rewrite(ORACLE / "mixtral.gguf", tmp_path / f"{number}.gguf", tensors))
        assert found.names() == wanted.names() and len(found.names()) == 1 + 2 * (7 + 3 * 5) + 2
        for name in found.names():
            shape = found.shape(name)
            assert np.array_equal(found.take(name, shape), Checkpoint.open(ORACLE / "mixtral.gguf").take(name, shape))


def test_latent_attention_as_older_files_have_it(tmp_path: Path) -> None:
    """Keys and values of all heads from one matrix, and no widths apart from those of the heads."""
    tensors = tensors_of(ORACLE / "deepseekv2-groups.gguf")
    for layer in ("blk.0", "blk.1"):
        (keys, kind), (values, _) = tensors.pop(f"{layer}.attn_k_b.weight"), tensors.pop(f"{layer}.attn_v_b.weight")
        whole = np.concatenate([keys.swapaxes(1, 2), values], axis=1)
        tensors[f"{layer}.attn_kv_b.weight"] = np.ascontiguousarray(whole.reshape(-1, whole.shape[-1])), kind
    changed = {
        "key_length": 10,
        "value_length": 5,
        "head_count_kv": 4,
        "key_length_mla": None,
        "value_length_mla": None,
    }
    keys_of = {f"deepseek2.attention.{key}": value for key, value in changed.items()}
    file = rewrite(ORACLE / "deepseekv2-groups.gguf", tmp_path / "old.gguf", tensors, keys_of)
    assert compare_with_golden(file, ORACLE / "deepseekv2-groups.npz").passed(2e-5)


def test_scores_of_deepseek_are_stated_or_seen(tmp_path: Path) -> None:
    key = "deepseek2.expert_gating_func"
    for source, number, family in (("deepseekv3", 2, "deepseek_v3"), ("deepseekv2-groups", 1, "deepseek_v2")):
        for value in (None, number):
            file = rewrite(ORACLE / f"{source}.gguf", tmp_path / f"{source}-{value}.gguf", keys={key: value})
            assert compare_with_golden(file, ORACLE / f"{source}.npz").passed(2e-5)
            assert Checkpoint.open(file).config.text("model_type") == family
    with pytest.raises(BadInput, match="expert_gating_func is 3, expected 1"):
        Checkpoint.open(rewrite(ORACLE / "deepseekv3.gguf", tmp_path / "x.gguf", keys={key: 3}))


def test_layers_that_predict_further_tokens_are_left_out(tmp_path: Path) -> None:
    source, tensors = ORACLE / "deepseekv3.gguf", tensors_of(ORACLE / "deepseekv3.gguf")
    further = {name.replace("blk.1.", "blk.2."): what for name, what in tensors.items() if name.startswith("blk.1.")}
    further["blk.2.nextn.eh_proj.weight"] = tensors["token_embd.weight"]
    keys: dict[str, int | None] = {"deepseek2.block_count": 3, "deepseek2.nextn_predict_layers": 1}
    file = rewrite(source, tmp_path / "x.gguf", tensors | further, keys)
    assert compare_with_golden(file, ORACLE / "deepseekv3.npz").passed(2e-5)
    dropped = import_graph(Checkpoint.open(file), ImportOptions()).dropped
    assert "predicts further tokens" in dropped[0] and len(dropped) == 1
