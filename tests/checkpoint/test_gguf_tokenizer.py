"""Words by the tokenizer inside a GGUF file, against the tokenizer that it was made from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from gguf_bytes import ARRAY, BOOL, F32, I32, STRING, U32, small_llama
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, processors, trainers

from colibri.checkpoint.checkpoint import Checkpoint
from colibri.checkpoint.tokenizer import load_tokenizer
from colibri.errors import BadInput

ROOT = Path(__file__).resolve().parents[2]
TEXTS = [
    "Hello, world! It's 12345 o'clock; WE'RE here.",
    "  two spaces\n\n\ttabs\r\nand  lines   \n",
    "naïve café 日本語のテキスト 한국어 123٤٥ e\u0301 🦙🚀",
    "def f(x):\n    return x_1+'s'  # don't DON'T iPhone McDonald",
    "<|start|>inside<|end|> and <tool>",
    "",
]
# As the models' own tokenizer.json have them.
QWEN2 = r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"""
QWEN2 += r"""| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
LLAMA3 = QWEN2.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
O200K = "|".join(
    [
        r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?""",
        r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?""",
        r"""\p{N}{1,3}""",
        r""" ?[^\s\p{L}\p{N}]+[\r\n/]*""",
        r"""\s*[\r\n]+""",
        r"""\s+(?!\S)""",
        r"""\s+""",
    ]
)
RULES = {"qwen2": QWEN2, "llama-bpe": LLAMA3, "gpt-4o": O200K, "gpt-2": None, "olmo": None, "refact": "digits"}


def trained(rule: str | None, *, composed: bool, whole: bool) -> tokenizers.Tokenizer:
    """A small tokenizer, of the words in README.md."""
    engine = tokenizers.Tokenizer(models.BPE(ignore_merges=whole))
    steps: list[Any] = [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=rule in (None, "digits"))]
    if rule == "digits":
        steps.insert(0, pre_tokenizers.Digits(individual_digits=True))
    elif rule is not None:
        steps.insert(0, pre_tokenizers.Split(Regex(rule), "isolated"))
    engine.pre_tokenizer = pre_tokenizers.Sequence(steps)
    engine.decoder = decoders.ByteLevel()
    if composed:
        engine.normalizer = normalizers.NFC()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<|start|>", "<|end|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=700, initial_alphabet=alphabet, special_tokens=special, show_progress=False
    )
    engine.train([str(ROOT / "README.md")], trainer)
    engine.add_tokens(["<tool>"])
    return engine


def keys_of(engine: tokenizers.Tokenizer, pre: str) -> dict[str, tuple[int, Any] | None]:
    """What llama.cpp's converter writes of a tokenizer, with two unused tokens behind."""
    table = json.loads(engine.to_str())
    added = {token["content"]: token["special"] for token in table["added_tokens"]}
    tokens = [engine.id_to_token(number) for number in range(engine.get_vocab_size())] + ["[PAD1]", "[PAD2]"]
    types = [{None: 1, True: 3, False: 4}[added.get(token)] for token in tokens[:-2]] + [5, 5]
    return {
        "tokenizer.ggml.model": (STRING, "gpt2"),
        "tokenizer.ggml.pre": (STRING, pre),
        "tokenizer.ggml.tokens": (ARRAY, (STRING, tokens)),
        "tokenizer.ggml.token_type": (ARRAY, (I32, types)),
        "tokenizer.ggml.merges": (ARRAY, (STRING, [" ".join(merge) for merge in table["model"]["merges"]])),
        "tokenizer.ggml.bos_token_id": (U32, tokens.index("<|start|>")),
        "tokenizer.ggml.eos_token_id": (U32, tokens.index("<|end|>")),
    }


def open_with(folder: Path, keys: dict[str, tuple[int, Any] | None]) -> Checkpoint:
    (folder / "model.gguf").write_bytes(small_llama(keys))
    return Checkpoint.open(folder)


@pytest.mark.parametrize("pre", RULES)
def test_the_same_ids_and_words(tmp_path: Path, pre: str) -> None:
    engine = trained(RULES[pre], composed=pre == "qwen2", whole=pre == "llama-bpe")
    keys = keys_of(engine, pre) | {"tokenizer.ggml.add_bos_token": (BOOL, 1), "tokenizer.ggml.add_eos_token": (BOOL, 1)}
    checkpoint = open_with(tmp_path, keys)
    assert not checkpoint.warnings
    raw = checkpoint.tokenizer()
    assert raw is not None
    (tmp_path / "tokenizer.json").write_bytes(raw)
    words = load_tokenizer(tmp_path)
    start, end = engine.token_to_id("<|start|>"), engine.token_to_id("<|end|>")
    engine.post_processor = processors.TemplateProcessing(
        "<|start|> $A <|end|>", special_tokens=[("<|start|>", start), ("<|end|>", end)]
    )
    for text in TEXTS:
        wanted = engine.encode(text).ids
        assert words.encode(text) == wanted and wanted[0] == start and wanted[-1] == end
        assert words.decode(wanted) == engine.decode(wanted)
        assert words.encode(text, special=False) == wanted[1:-1]


@pytest.mark.parametrize(("pre", "added"), [("llama-bpe", True), ("qwen2", False)])
def test_the_first_token_where_the_file_does_not_say_it(tmp_path: Path, pre: str, added: bool) -> None:
    keys = keys_of(trained(RULES[pre], composed=False, whole=True), pre)
    raw = open_with(tmp_path, keys).tokenizer()
    assert raw is not None
    assert (json.loads(raw)["post_processor"] is not None) == added


def test_pieces_with_scores(tmp_path: Path) -> None:
    letters = [chr(number) for number in range(97, 123)]
    tokens = [
        "<unk>",
        "<s>",
        "</s>",
        *(f"<0x{byte:02X}>" for byte in range(256)),
        "▁",
        *letters,
        "th",
        "▁the",
        "he",
        "▁t",
    ]
    tokens[-1], scores = "[INST]", [0.0 - number for number in range(len(tokens))]
    types = [2, 3, 3, *[6] * 256, *[1] * 30, 3]
    keys: dict[str, tuple[int, Any] | None] = {
        "tokenizer.ggml.model": (STRING, "llama"),
        "tokenizer.ggml.tokens": (ARRAY, (STRING, tokens)),
        "tokenizer.ggml.scores": (ARRAY, (F32, scores)),
        "tokenizer.ggml.token_type": (ARRAY, (I32, types)),
    }
    checkpoint = open_with(tmp_path, keys)
    raw = checkpoint.tokenizer()
    assert raw is not None and not checkpoint.warnings
    (tmp_path / "tokenizer.json").write_bytes(raw)
    words = load_tokenizer(tmp_path)
    ids = words.encode("the bé[INST]")
    assert ids[0] == 1 and [tokens[token] for token in ids[1:]] == [
        "▁", "th", "e", "▁", "b", "<0xC3>", "<0xA9>", "[INST]"
    ]  # fmt: skip
    assert words.decode(ids) == "the bé"
    raw = open_with(tmp_path, keys | {"tokenizer.ggml.add_bos_token": (BOOL, 0)}).tokenizer()
    assert raw is not None and json.loads(raw)["post_processor"] is None
    checkpoint = open_with(tmp_path, keys | {"tokenizer.ggml.add_space_prefix": (BOOL, 0)})
    assert "'llama' with a text as it stands" in checkpoint.warnings[0]


def test_a_tokenizer_that_is_not_read_is_named(tmp_path: Path) -> None:
    keys: dict[str, tuple[int, Any] | None]
    for keys, named in (
        ({"tokenizer.ggml.model": (STRING, "bert")}, "'bert'"),
        ({"tokenizer.ggml.model": (STRING, "gpt2"), "tokenizer.ggml.pre": (STRING, "falcon\n")}, r"'falcon\n'"),
        ({"tokenizer.ggml.model": (STRING, "gpt2")}, "'None'"),
    ):
        checkpoint = open_with(tmp_path, keys)
        assert checkpoint.tokenizer() is None
        assert named in checkpoint.warnings[0] and "--tokenizer FOLDER" in checkpoint.warnings[0]
    assert open_with(tmp_path, {"tokenizer.ggml.model": (STRING, "none")}).warnings == ()
    (tmp_path / "tokenizer.json").write_text("{}")
    assert open_with(tmp_path, {}).tokenizer() == b"{}"


def test_damaged_tokenizers(tmp_path: Path) -> None:
    good = keys_of(trained(None, composed=False, whole=False), "gpt-2")
    count = len(good["tokenizer.ggml.tokens"][1][1])  # type: ignore[index]
    bad: dict[str, tuple[dict[str, tuple[int, Any] | None], str]] = {
        "types": ({"tokenizer.ggml.token_type": (ARRAY, (I32, [1]))}, f"has 1 types for {count} tokens"),
        "types in words": ({"tokenizer.ggml.token_type": (ARRAY, (STRING, ["x"]))}, "token_type has 'x', expected a"),
        "types that are no numbers": (
            {"tokenizer.ggml.token_type": (ARRAY, (F32, [float("nan")]))},
            "token_type has 'nan', expected a number",
        ),
        "scores in words": (
            {"tokenizer.ggml.model": (STRING, "llama"), "tokenizer.ggml.scores": (ARRAY, (STRING, ["y"]))},
            "scores has 'y', expected a number",
        ),
        "tokens": ({"tokenizer.ggml.tokens": (ARRAY, (STRING, ["a"] * count))}, "tokens 0 and 1 are both 'a'"),
        "no tokens": ({"tokenizer.ggml.tokens": None}, f"has {count} types for 0 tokens"),
        "merges": ({"tokenizer.ggml.merges": (ARRAY, (STRING, ["ab"]))}, "a merge 'ab' of no two tokens"),
        "empty merge": ({"tokenizer.ggml.merges": (ARRAY, (STRING, [""]))}, "a merge '' of no two tokens"),
        "strange merge": ({"tokenizer.ggml.merges": (ARRAY, (STRING, ["\x01 \x02"]))}, r"a merge '\x01 \x02'"),
        "start": (
            {"tokenizer.ggml.add_bos_token": (BOOL, 1), "tokenizer.ggml.bos_token_id": (U32, count)},
            f"adds token {count} to a text",
        ),
        "start in words": (
            {"tokenizer.ggml.add_bos_token": (BOOL, 1), "tokenizer.ggml.bos_token_id": (STRING, "a")},
            "bos_token_id is 'a'",
        ),
        "scores": ({"tokenizer.ggml.model": (STRING, "llama")}, f"has 0 scores for {count} tokens"),
    }
    for name, (keys, expected) in bad.items():
        checkpoint = open_with(tmp_path, good | keys)
        with pytest.raises(BadInput) as caught:
            checkpoint.tokenizer()
        assert expected in str(caught.value), name
