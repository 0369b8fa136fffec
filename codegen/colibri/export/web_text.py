"""The checkpoint's tokenizer for JavaScript, when it is of the one kind that the templates know."""

from __future__ import annotations

from typing import Any

import msgspec

_MOST_TOKENS = 1 << 20


class _Added(msgspec.Struct, frozen=True):
    id: int
    special: bool = False


class _Bpe(msgspec.Struct, frozen=True):
    type: str
    vocab: dict[str, int]
    merges: list[tuple[str, str] | str]
    dropout: float | None = None
    unk_token: str | None = None
    continuing_subword_prefix: str | None = None
    end_of_word_suffix: str | None = None
    byte_fallback: bool = False
    ignore_merges: bool = False


class _Step(msgspec.Struct, frozen=True):
    type: str
    add_prefix_space: bool = False
    use_regex: bool = True


class _Around(msgspec.Struct, frozen=True):
    """What is put around a text: nothing, when all parts of a template are the text itself."""

    type: str
    single: list[dict[str, Any]] = []


class _File(msgspec.Struct, frozen=True):
    model: _Bpe
    pre_tokenizer: _Step
    decoder: _Step
    normalizer: dict[str, Any] | None = None
    post_processor: _Around | None = None
    added_tokens: list[_Added] = []


class Words(msgspec.Struct, frozen=True):
    """What encode and decode need.

    Attributes:
        tokens: text of each id, in the letters of byte-level BPE; ``null`` in a gap.
        merges: pairs, the first to be joined first.
        special: ids without text.
    """

    tokens: list[str | None]
    merges: list[tuple[str, str]]
    special: list[int]


def words_of(tokenizer: bytes | None, vocabulary: int) -> Words | None:
    """Read a `tokenizer.json`; None when there is none, or it is not plain byte-level BPE as GPT-2 had it.

    Args:
        vocabulary: scores of the model; tokens beyond it do not occur.
    """
    if tokenizer is None:
        return None
    try:
        file = msgspec.json.decode(tokenizer, type=_File)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None  # of another kind
    if not _is_plain(file):
        return None
    tokens: list[str | None] = [None] * min(vocabulary, _MOST_TOKENS)
    for text, id_ in file.model.vocab.items():
        if not 0 <= id_ < len(tokens):
            return None
        tokens[id_] = text
    merges = [pair if isinstance(pair, tuple) else _pair(pair) for pair in file.model.merges]
    return Words(tokens, merges, sorted(one.id for one in file.added_tokens))


def _is_plain(file: _File) -> bool:
    model, before, after = file.model, file.pre_tokenizer, file.post_processor
    unchanged = file.normalizer is None and not (model.dropout or model.byte_fallback or model.ignore_merges)
    whole = not (model.continuing_subword_prefix or model.end_of_word_suffix)
    split = before.type == "ByteLevel" and before.use_regex and not before.add_prefix_space
    added = all(one.special for one in file.added_tokens)
    alone = (
        after is None
        or after.type == "ByteLevel"
        or (after.type == "TemplateProcessing" and all(set(part) == {"Sequence"} for part in after.single))
    )
    bytewise = model.type == "BPE" and file.decoder.type == "ByteLevel"
    return bytewise and unchanged and whole and split and added and alone


def _pair(text: str) -> tuple[str, str]:
    left, _, right = text.partition(" ")
    return left, right
