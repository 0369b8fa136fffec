"""The reader on checkpoints written by others, where the sample data lies beside the repository."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

from colibri.checkpoint.checkpoint import Checkpoint
from colibri.checkpoint.config import read_rope
from colibri.checkpoint.tokenizer import load_tokenizer
from colibri.cli import main

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"
SOUND = (*(f"oracle/{name}" for name in ("mixtral-base", "mixtral-fused-disk", "mixtral-sharded-swa", "switch-base")),
         "load-moe/top1-e4", "shakespeare-moe")  # fmt: skip
EXPECTED = {
    "config-more-experts": "gate.weight: shape 8×32, expected 10×32",
    "config-not-json": "is not JSON: line 36",
    "duplicate-key": "the name 'model.norm.weight' stands twice",
    "header-length-huge": "header longer than the file",
    "index-path-escape": "leaves the checkpoint folder",
    "lm-head-missing-untied": "lm_head.weight is missing and tie_word_embeddings is false",
    "lm-head-present-tied": "a different lm_head.weight is stored",
    "nan-weight": "model.layers.0.block_sparse_moe.experts.3.w2.weight: 1 of 1536 values are not finite",
    "native-mistral-names": "unknown tensor layers.0.attention.k_proj.weight",
    "one-expert-missing": "no tensor 'model.layers.0.block_sparse_moe.experts.3.w2.weight'",
    "one-extra-expert": "is for expert 8, but config.json says 8 experts",
    "output-router-logits-true": "",
    "pickle-only": "convert it where you trust it",
    "quantized-config-gptq": "quantization_config gptq is not readable as plain weights",
    "shape-vs-offsets": "experts.3.w2.weight' has 6144 bytes, but its shape 1000×1000",
    "shard-missing": "absent, first 'model-00002-of-00002.safetensors'",
    "topk-greater-than-experts": "num_experts_per_tok is 9, but there are 8 experts",
    "truncated": "truncated: the data has",
    "unknown-model-type": "supported model types: deepseek_v2",
}


def folder_of(name: str) -> Path:
    folder = DATA / name
    if not folder.is_dir():
        pytest.skip(f"sample data {name} is not here")
    return folder


@pytest.mark.parametrize("name", SOUND)
def test_sound(name: str) -> None:
    folder = folder_of(name)
    checkpoint = Checkpoint.open(folder)
    read_rope(checkpoint.config)
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, framework="numpy") as library:
            for tensor in library.keys():  # noqa: SIM118 (the handle is no mapping)
                expected = library.get_tensor(tensor)
                assert checkpoint.take(tensor, expected.shape).tobytes() == expected.tobytes()
    assert checkpoint.finish() == []


@pytest.mark.parametrize(("name", "words"), EXPECTED.items())
def test_as_expected(name: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, out = folder_of(f"bad/{name}"), tmp_path / "out"
    said = json.loads((folder / "EXPECT.json").read_text())["expect"]
    code = main(["generate", str(folder), "--board", "x86-64-v3", "--context", "8", "-o", str(out)])
    assert code == (5 if words else 0) and out.exists() == (not words)
    assert "refuse" in said if words else said.startswith("accept")
    assert words in capsys.readouterr().err


def test_verse() -> None:
    folder = folder_of("shakespeare-moe")
    tokenizer = load_tokenizer(folder)
    text = (folder / "val_text.txt").read_text()
    ids = np.load(folder / "val_tokens.npy").tolist()
    assert tokenizer.encode(text) == ids and tokenizer.decode(ids) == text
    stream = tokenizer.stream()
    assert "".join([*(stream.push(token) for token in ids), stream.finish()]) == text
