"""The reader on checkpoints written by others, where the sample data lies beside the repository."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

from colibri.checkpoint.checkpoint import Checkpoint
from colibri.checkpoint.config import read_rope
from colibri.checkpoint.tokenizer import load_tokenizer
from colibri.errors import BadInput

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"
SOUND = (*(f"oracle/{name}" for name in ("mixtral-base", "mixtral-fused-disk", "mixtral-sharded-swa", "switch-base")),
         "load-moe/top1-e4", "shakespeare-moe")  # fmt: skip
REFUSED = {
    "config-not-json": "line 36",
    "duplicate-key": "stands twice",
    "header-length-huge": "header longer than the file",
    "index-path-escape": "leaves the checkpoint folder",
    "nan-weight": "model.layers.0.block_sparse_moe.experts.3.w2.weight: 1 of 1536",
    "pickle-only": "only a pickle",
    "quantized-config-gptq": "quantization_config gptq",
    "shape-vs-offsets": "model.layers.0.block_sparse_moe.experts.3.w2.weight",
    "shard-missing": "model-00002-of-00002.safetensors",
    "truncated": "truncated",
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


@pytest.mark.parametrize(("name", "words"), REFUSED.items())
def test_refused(name: str, words: str) -> None:
    folder = folder_of(f"bad/{name}")
    with pytest.raises(BadInput) as caught:
        checkpoint = Checkpoint.open(folder)
        for tensor in checkpoint.names():
            checkpoint.take(tensor, checkpoint.shape(tensor))
    assert words in str(caught.value)


def test_verse() -> None:
    folder = folder_of("shakespeare-moe")
    tokenizer = load_tokenizer(folder)
    text = (folder / "val_text.txt").read_text()
    ids = np.load(folder / "val_tokens.npy").tolist()
    assert tokenizer.encode(text) == ids and tokenizer.decode(ids) == text
    stream = tokenizer.stream()
    assert "".join([*(stream.push(token) for token in ids), stream.finish()]) == text
