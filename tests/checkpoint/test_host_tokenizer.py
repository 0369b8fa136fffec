"""Words to ids and back, whole and token by token."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import tokenizers
from tokenizers import decoders, models, pre_tokenizers, processors

from colibri.checkpoint.tokenizer import Tokenizer, load_tokenizer
from colibri.errors import BadInput, ToolMissing

TEXT = "Wherefore art thou?\n naïve — 日本語 🙂🙃 end"


def byte_level(folder: Path) -> Tokenizer:
    """A byte-level BPE: 256 bytes, one merge, a special start token."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {"<s>": 0} | {symbol: index + 1 for index, symbol in enumerate(alphabet)} | {"th": 257}
    engine = tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=[("t", "h")]))
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    engine.decoder = decoders.ByteLevel()
    engine.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    engine.add_special_tokens(["<s>"])
    engine.save(str(folder / "tokenizer.json"))
    return load_tokenizer(folder)


def byte_fallback(folder: Path) -> Tokenizer:
    """Pieces with a leading space mark; characters without a piece become their bytes."""
    pieces = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), *"▁abcdefghijklmnopqrstuvwxyz"]
    engine = tokenizers.Tokenizer(
        models.BPE(
            vocab={piece: index for index, piece in enumerate(pieces)}, merges=[], unk_token="<unk>", byte_fallback=True
        )
    )
    engine.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    engine.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    engine.save(str(folder / "tokenizer.json"))
    return load_tokenizer(folder)


def streamed(tokenizer: Tokenizer, ids: list[int]) -> list[str]:
    stream = tokenizer.stream()
    return [*(stream.push(token) for token in ids), stream.finish()]


@pytest.mark.parametrize("make", [byte_level, byte_fallback])
def test_round_trip(make: Callable[[Path], Tokenizer], tmp_path: Path) -> None:
    tokenizer = make(tmp_path)
    ids = tokenizer.encode(TEXT)
    assert tokenizer.decode(ids) == TEXT
    assert "".join(streamed(tokenizer, ids)) == TEXT
    assert "".join(streamed(tokenizer, ids * 20)) == tokenizer.decode(ids * 20)
    assert tokenizer.decode([]) == "" and streamed(tokenizer, []) == [""]


def test_special_tokens(tmp_path: Path) -> None:
    tokenizer = byte_level(tmp_path)
    assert tokenizer.size == 258
    assert tokenizer.encode("th") == [0, 257] and tokenizer.encode("th", special=False) == [257]
    assert tokenizer.decode([0, 257]) == "th"


def test_a_half_character_waits(tmp_path: Path) -> None:
    tokenizer = byte_level(tmp_path)
    ids = tokenizer.encode("a🙂b", special=False)
    assert streamed(tokenizer, ids) == ["a", "", "", "", "🙂", "b", ""]
    assert streamed(tokenizer, ids[:3]) == ["a", "", "", "\ufffd"]


def test_bytes_that_never_become_a_character(tmp_path: Path) -> None:
    tokenizer = byte_level(tmp_path)
    euro = tokenizer.encode("€", special=False)
    stray = [euro[1]] * 6
    assert "".join(streamed(tokenizer, stray + euro)) == tokenizer.decode(stray + euro) == "\ufffd" * 6 + "€"
    rng = random.Random(5)
    for _ in range(30):
        ids = [rng.randrange(258) for _ in range(200)]
        assert "".join(streamed(tokenizer, ids)) == tokenizer.decode(ids)


def test_byte_fallback_does_not_stall(tmp_path: Path) -> None:
    tokenizer = byte_fallback(tmp_path)
    euro = [1 + byte for byte in "€".encode()]
    word = tokenizer.encode("verse")
    pieces = streamed(tokenizer, [*euro, 1 + 0xFF, *word, *euro, *word])
    assert pieces[2] == "€" and "".join(pieces).endswith("verse€ verse")


def test_ids_without_text(tmp_path: Path) -> None:
    tokenizer = byte_level(tmp_path)
    assert tokenizer.decode([257, 9999]) == "th"
    for token in (-1, 2**32):
        with pytest.raises(BadInput, match=f"{token} is not a token id"):
            tokenizer.decode([token])


def test_text_that_is_not_unicode(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="not UTF-8 at character 3"):
        byte_level(tmp_path).encode("ab\udcff")


def test_missing_and_damaged_files(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"no tokenizer\.json; give token ids instead"):
        load_tokenizer(tmp_path)
    file = tmp_path / "tokenizer.json"
    for raw in (b"", b"{", b"{}", b"\xff", b"[" * 100_000, json.dumps({"version": "9", "model": {}}).encode()):
        file.write_bytes(raw)
        with pytest.raises(BadInput) as caught:
            load_tokenizer(tmp_path)
        assert str(caught.value).isprintable() and str(file) in str(caught.value)


def test_a_panic_inside_the_package_is_bad_input(tmp_path: Path) -> None:
    byte_level(tmp_path)
    file = tmp_path / "tokenizer.json"
    table = json.loads(file.read_text())
    table["model"]["continuing_subword_prefix"] = "a prefix longer than any token"
    file.write_text(json.dumps(table))
    with pytest.raises(BadInput, match="is not a usable tokenizer"):
        load_tokenizer(tmp_path)


def test_package_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    byte_level(tmp_path)
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ToolMissing) as caught:
        load_tokenizer(tmp_path)
    assert caught.value.exit_code == 4 and "pip install 'colibri-firmware[text]'" in str(caught.value)
