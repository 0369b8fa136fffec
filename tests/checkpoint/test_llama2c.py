"""Files of llama2.c, written here from the description of the format, against the same weights in safetensors."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from make_bad import Arrays, write_checkpoint
from small_models import load_graph

from colibri.checkpoint.checkpoint import Checkpoint
from colibri.checkpoint.forms import open_form
from colibri.checkpoint.source import Tensors
from colibri.checkpoint.tokenizer import Tokenizer
from colibri.graph.interpret import Reference

DIM, HIDDEN, LAYERS, HEADS, KV, VOCAB, POSITIONS = 24, 20, 2, 4, 2, 300, 32
NUMBERS = (DIM, HIDDEN, LAYERS, HEADS, KV, VOCAB, POSITIONS)
STORIES = Path(__file__).resolve().parents[2].parent / "shared/data/found/stories260K"
CONFIG = {
    "model_type": "llama",
    "hidden_size": DIM,
    "intermediate_size": HIDDEN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV,
    "vocab_size": VOCAB,
    "max_position_embeddings": POSITIONS,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
}


def weights(*, tied: bool) -> Arrays:
    """A Llama under transformers' names."""
    rng = np.random.default_rng(8)
    kv = DIM // HEADS * KV
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens": (VOCAB, DIM), "model.norm": (DIM,)}
    for layer in range(LAYERS):
        shapes |= {
            f"model.layers.{layer}.{name}": shape
            for name, shape in {
                "input_layernorm": (DIM,), "post_attention_layernorm": (DIM,),
                "self_attn.q_proj": (DIM, DIM), "self_attn.k_proj": (kv, DIM), "self_attn.v_proj": (kv, DIM),
                "self_attn.o_proj": (DIM, DIM), "mlp.gate_proj": (HIDDEN, DIM), "mlp.down_proj": (DIM, HIDDEN),
                "mlp.up_proj": (HIDDEN, DIM),
            }.items()
        }  # fmt: skip
    if not tied:
        shapes["lm_head"] = (VOCAB, DIM)
    return {f"{name}.weight": rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def side_by_side(values: np.ndarray, heads: int) -> np.ndarray:
    """Rows as llama2.c wants them: value i of a head's first half, then value i of its second."""
    out, width = np.empty_like(values), DIM // HEADS
    for head in range(heads):
        for i in range(width // 2):
            for part in range(2):
                out[head * width + 2 * i + part] = values[head * width + part * (width // 2) + i]
    return out


def in_groups(values: np.ndarray, group: int) -> tuple[bytes, np.ndarray]:
    """8 bits and scales, and what they mean."""
    flat = values.reshape(-1, group)
    scales = (np.abs(flat).max(axis=1) / 127).astype(np.float32)
    small = np.rint(flat / scales[:, None]).astype(np.int8)
    return small.tobytes() + scales.tobytes(), (small.astype(np.float32) * scales[:, None]).reshape(values.shape)


def write(file: Path, arrays: Arrays, version: int, group: int = 8) -> Arrays:
    """Write a file, and return what its values are."""
    tied = "lm_head.weight" not in arrays
    numbers = [*NUMBERS]
    means = dict(arrays)
    matrices = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
                "mlp.gate_proj", "mlp.down_proj", "mlp.up_proj")  # fmt: skip

    def encoded(name: str) -> bytes:
        key = f"{name}.weight"
        values, heads = arrays[key], {"q_proj": HEADS, "k_proj": KV}.get(name.rpartition(".")[2], 0)
        turned = side_by_side(values, heads) if heads else values
        if version < 2 or values.ndim == 1:
            return turned.tobytes()
        raw, exact = in_groups(turned, group)
        means[key] = np.stack([exact[np.flatnonzero((turned == row).all(axis=1))[0]] for row in values])
        return raw

    def each(name: str) -> bytes:
        return b"".join(encoded(f"model.layers.{layer}.{name}") for layer in range(LAYERS))

    head = b"" if tied else encoded("lm_head")
    if version == 0:
        numbers[5] = VOCAB if tied else -VOCAB
        body = encoded("model.embed_tokens") + each("input_layernorm")
        body += b"".join(map(each, matrices[:4])) + each("post_attention_layernorm") + b"".join(map(each, matrices[4:]))
        body += encoded("model.norm") + bytes(4 * POSITIONS * (DIM // HEADS)) + head
        file.write_bytes(struct.pack("<7i", *numbers) + body)
        return means
    start = struct.pack("<Ii7iB", 0x616B3432, version, *numbers, tied) + (struct.pack("<i", group) * (version == 2))
    body = each("input_layernorm") + each("post_attention_layernorm") + encoded("model.norm")
    body += encoded("model.embed_tokens") + b"".join(map(each, matrices)) + head
    file.write_bytes(start.ljust(256, b"\0") + body)
    return means


def write_tokenizer(file: Path, *, bytes_as_text: bool = True) -> list[str]:
    """A vocabulary of bytes and some words, as its exporter writes it; later words are worse."""
    words = [" ", "a", "b", "c", "ab", " a", "abc", " ab", "ca", "bca"]
    named = [f"<0x{byte:02X}>" if bytes_as_text else chr(byte) for byte in range(256)]
    pieces = ["<unk>", "\n<s>\n", "\n</s>\n", *named, *words]
    pieces += [f"w{number}" for number in range(VOCAB - len(pieces))]
    with file.open("wb") as out:
        out.write(struct.pack("<I", 7))
        for number, piece in enumerate(pieces):
            raw = piece.encode()
            out.write(struct.pack("<fI", -float(number), len(raw)) + raw)
    return pieces


def values_of(tensors: Tensors, name: str, rows: slice | None = None) -> np.ndarray:
    """A tensor, or entries of its outermost axis, as fp32."""
    return np.asarray(tensors.read_stored(name, rows), np.float32)


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_every_value_and_every_logit(version: int, tied: bool, tmp_path: Path) -> None:
    file = tmp_path / "tiny.bin"
    means = write(file, weights(tied=tied), version)
    tensors = open_form(file).tensors
    assert set(tensors.names()) == set(means)
    for name, values in means.items():
        assert values_of(tensors, name).tobytes() == values.tobytes(), name
        for rows in (slice(0, 1), slice(3, 11), slice(len(values) - 1, None), slice(4, 4)):
            assert values_of(tensors, name, rows).tobytes() == values[rows].tobytes(), (name, rows)
    write_checkpoint(tmp_path / "other", CONFIG | {"tie_word_embeddings": tied}, means)
    ids = np.arange(12) * 7 % VOCAB
    mine, other = (Reference(load_graph(path)).extend(ids, all_rows=True) for path in (file, tmp_path / "other"))
    assert np.array_equal(mine, other)


def test_groups_reach_over_rows(tmp_path: Path) -> None:
    means = write(tmp_path / "tiny.bin", weights(tied=True), 2, group=96)  # four rows of 24, but of 20 no whole number
    tensors = open_form(tmp_path / "tiny.bin").tensors
    assert tensors.dtype("model.layers.1.mlp.up_proj.weight") == "Q8_0"
    for name, values in means.items():
        for row in range(len(values)) if values.ndim > 1 else ():
            assert values_of(tensors, name, slice(row, row + 1)).tobytes() == values[row].tobytes()


def test_a_folder_with_one_such_file(tmp_path: Path) -> None:
    write(tmp_path / "tiny.bin", weights(tied=True), 0)
    write_tokenizer(tmp_path / "tokenizer.bin")
    checkpoint = Checkpoint.open(tmp_path)
    assert checkpoint.name == "tiny" and checkpoint.config.integer("vocab_size") == VOCAB
    notes = [note.name for note in checkpoint._dropped]
    assert notes == ["freq_cis_real", "freq_cis_imag"]


@pytest.mark.parametrize("bytes_as_text", [True, False])
def test_tokenizer_beside_it(bytes_as_text: bool, tmp_path: Path) -> None:
    import tokenizers

    write(tmp_path / "tiny.bin", weights(tied=True), 0)
    pieces = write_tokenizer(tmp_path / "tok300.bin", bytes_as_text=bytes_as_text)
    raw = Checkpoint.open(tmp_path / "tiny.bin").tokenizer()
    assert raw is not None
    words = Tokenizer(tokenizers.Tokenizer.from_str(raw.decode()), "x")
    place = {piece: number for number, piece in enumerate(pieces)}
    assert words.encode("abca") == [1, place[" "], place["abc"], place["a"]]  # "ab", then "abc": the better score
    assert words.encode("é") == [1, place[" "], 3 + 0xC3, 3 + 0xA9]
    for text in ("abc abc", "a\nbé ca", " a", ""):
        assert words.decode(words.encode(text)) == text
    (tmp_path / "tokenizer.json").write_bytes(b"{}")
    assert Checkpoint.open(tmp_path / "tiny.bin").tokenizer() == b"{}"


@pytest.mark.parametrize("form", ["stories260K.bin", "hf"])
def test_stories(form: str) -> None:
    """A trained model in its original form and in transformers': the same continuation as the original's."""
    if not STORIES.is_dir():
        pytest.skip("sample data found/stories260K is not here")
    with np.load(STORIES / "hf/golden.npz") as golden:
        ids, logits = golden["input_ids_0"], golden["logits_0"]
    found = Reference(load_graph(STORIES / form, context=128)).extend(ids, all_rows=True).reshape(logits.shape)
    assert np.array_equal(found[:-1].argmax(axis=1), ids[1:])  # so greedy continuation of the first is the rest
    assert np.abs(found - logits).max() < 1e-4
