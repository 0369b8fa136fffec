"""The tokenizer inside a GGUF file, as what ``tokenizer.json`` would hold.

Source: `gguf-py/gguf/constants.py` and `src/llama-vocab.cpp` of llama.cpp for the keys; how a text is cut before its
pieces are merged is named in the file, and is here what the named models' own tokenizer.json says.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from colibri.checkpoint.forms.gguf_header import Header
from colibri.checkpoint.forms.pieces import tokenizer_of_pieces
from colibri.errors import BadInput, shown

_KEY = "tokenizer.ggml."
_NORMAL, _UNKNOWN, _CONTROL, _USER, _UNUSED, _BYTE = range(1, 7)  # token types
_HINT = "give --tokenizer FOLDER to `colibri run`"

_ENDINGS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_LETTERS = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_SIGNS = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_LEAD = r"[^\r\n\p{L}\p{N}]?"
_WORD, _NAME = rf"{_LEAD}{_UPPER}*{_LOWER}+", rf"{_LEAD}{_UPPER}+{_LOWER}*"


@dataclass(frozen=True)
class _Cut:
    """How a text is cut.

    Attributes:
        patterns: each cuts what those before left; empty for GPT-2's own rule.
        digits: whether each digit stands alone first.
        whole: whether a piece that is a token is not merged from its parts.
        begin: whether a text begins with a token of its own, where the file does not say it.
        composed: whether characters are composed (NFC) first.
    """

    patterns: tuple[str, ...] = ()
    digits: bool = False
    whole: bool = False
    begin: bool = False
    composed: bool = False


_LLAMA3 = _Cut((rf"{_ENDINGS}|{_LETTERS}|\p{{N}}{{1,3}}|{_SIGNS}|{_SPACES}",), whole=True, begin=True)
_GPT2 = _Cut()
_SLASHED = rf" ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_SPACES}"
_O200K = _Cut((rf"{_WORD}{_ENDINGS}?|{_NAME}{_ENDINGS}?|\p{{N}}{{1,3}}|{_SLASHED}",))
_CUTS = {
    "dbrx": _Cut(_LLAMA3.patterns),
    "deepseek-v3": _Cut(
        (
            r"\p{N}{1,3}",
            "[一-龥\u3040-ゟ゠-ヿ]+",
            r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
            rf"| ?[\p{{P}}\p{{S}}]+[\r\n]*|{_SPACES}",
        )
    ),
    "gpt-2": _GPT2,
    "gpt-4o": _O200K,
    "llama-bpe": _LLAMA3,
    "llama4": _O200K,
    "olmo": _GPT2,
    "qwen2": _Cut((rf"{_ENDINGS}|{_LETTERS}|\p{{N}}|{_SIGNS}|{_SPACES}",), composed=True),
    "refact": _Cut(digits=True),
    "smaug-bpe": _Cut(_LLAMA3.patterns),
    "smollm": _Cut(digits=True),
    "starcoder": _Cut(digits=True),
    "tekken": _Cut((rf"{_WORD}|{_NAME}|\p{{N}}|{_SLASHED}",), whole=True, begin=True),
}
"""By ``tokenizer.ggml.pre``."""


def find_tokenizer(header: Header) -> tuple[Callable[[], bytes | None], tuple[str, ...]]:
    """Return what makes the JSON text (None where there is no tokenizer), and why one that is there is not read."""
    kind, cut = header.values.get(f"{_KEY}model"), header.values.get(f"{_KEY}pre")
    if kind in (None, "none", "no_vocab"):
        return lambda: None, ()
    bare = (
        header.values.get(f"{_KEY}add_space_prefix", True) is False or header.values.get(f"{_KEY}add_eos_token") is True
    )
    if kind == "llama" and not bare:
        return partial(_of_pieces, header), ()
    if kind == "gpt2" and isinstance(cut, str) and cut in _CUTS:
        return partial(_of_merges, header, _CUTS[cut]), ()
    named = f"'{shown(str(kind))}'" + (f" with the rule '{shown(str(cut))}'" if kind == "gpt2" else "")
    named += " with a text as it stands, or with an end" if kind == "llama" else ""
    return lambda: None, (f"the file's tokenizer is {named}, which is not read; {_HINT}",)


def _of_pieces(header: Header) -> bytes:
    """SentencePiece's BPE, with a score for each piece."""
    tokens, types = _tokens(header)
    where, begin = header.file.where, _number(header, "bos_token_id", 1)
    scores = _numbers(header, "scores")
    if len(scores) != len(tokens):
        raise BadInput(f"has {len(scores)} scores for {len(tokens)} tokens", where=where)
    if begin + 1 >= len(tokens):
        raise BadInput(f"begins a text with token {begin} of {len(tokens)}", where=where)
    further = [number for number, kind in enumerate(types) if kind == _CONTROL]
    unknown = types.index(_UNKNOWN) if _UNKNOWN in types else _number(header, "unknown_token_id", 0)
    framed = header.values.get(f"{_KEY}add_bos_token", True) is True
    return tokenizer_of_pieces(tokens, scores, where, unknown=unknown, begin=begin, further=further, framed=framed)


def _of_merges(header: Header, cut: _Cut) -> bytes:
    """BPE over bytes, as GPT-2 has it."""
    tokens, types = _tokens(header)
    added = {_CONTROL: True, _USER: False, _UNKNOWN: True}
    ids: dict[str, int] = {}
    for number, token in enumerate(tokens):
        if types[number] != _UNUSED and ids.setdefault(token, number) != number:
            raise BadInput(f"tokens {ids[token]} and {number} are both '{shown(token)}'", where=header.file.where)
    merges = []
    for merge in map(str, header.items(f"{_KEY}merges")):
        space = merge.find(" ", 1)  # the first piece may be a space
        left, right = merge[:space], merge[space + 1 :]
        if space < 0 or not {left, right, left + right} <= ids.keys():
            raise BadInput(f"has a merge '{shown(merge)}' of no two tokens", where=header.file.where)
        merges.append([left, right])
    table = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": number, "content": tokens[number], **_ALONE, "special": added[kind]}
            for number, kind in enumerate(types)
            if kind in added
        ],
        "normalizer": {"type": "NFC"} if cut.composed else None,
        "pre_tokenizer": _pre_tokenizer(cut),
        "post_processor": _frame(header, tokens, cut),
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": cut.whole,
            "vocab": ids,
            "merges": merges,
        },
    }
    return json.dumps(table, ensure_ascii=False).encode("utf-8")


_ALONE = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}


def _pre_tokenizer(cut: _Cut) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [
        {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
        for pattern in cut.patterns
    ]
    if cut.digits:
        steps.append({"type": "Digits", "individual_digits": True})
    as_gpt2 = not cut.patterns
    steps.append({"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": as_gpt2})
    return {"type": "Sequence", "pretokenizers": steps}


def _frame(header: Header, tokens: list[str], cut: _Cut) -> dict[str, Any] | None:
    """Tokens before and behind a text."""
    places = {"bos": cut.begin, "eos": False}
    around: dict[str, dict[str, Any]] = {}
    for place, default in places.items():
        if header.values.get(f"{_KEY}add_{place}_token", default) is True:
            number = _number(header, f"{place}_token_id", -1)
            if not 0 <= number < len(tokens):
                raise BadInput(f"adds token {number} to a text, of {len(tokens)} tokens", where=header.file.where)
            around[place] = {"id": tokens[number], "ids": [number], "tokens": [tokens[number]]}
    if not around:
        return None

    def sequence(name: str, kind: int) -> list[dict[str, Any]]:
        parts: list[dict[str, Any]] = [{"Sequence": {"id": name, "type_id": kind}}]
        if "bos" in around:
            parts.insert(0, {"SpecialToken": {"id": around["bos"]["id"], "type_id": kind}})
        if "eos" in around:
            parts.append({"SpecialToken": {"id": around["eos"]["id"], "type_id": kind}})
        return parts

    return {
        "type": "TemplateProcessing",
        "single": sequence("A", 0),
        "pair": [*sequence("A", 0), *sequence("B", 1)],
        "special_tokens": {token["id"]: token for token in around.values()},
    }


def _tokens(header: Header) -> tuple[list[str], list[int]]:
    """The tokens by id, and their types."""
    tokens = [str(token) for token in header.items(f"{_KEY}tokens")]
    types = [int(kind) for kind in _numbers(header, "token_type")] or [_NORMAL] * len(tokens)
    if not tokens or len(types) != len(tokens):
        raise BadInput(f"has {len(types)} types for {len(tokens)} tokens", where=header.file.where)
    return tokens, types


def _numbers(header: Header, key: str) -> list[float]:
    numbers: list[float] = []
    for item in header.items(f"{_KEY}{key}"):
        if isinstance(item, str) or not math.isfinite(item):
            raise BadInput(f"{_KEY}{key} has {shown(str(item))!r}, expected a number", where=header.file.where)
        numbers.append(item)
    return numbers


def _number(header: Header, key: str, default: int) -> int:
    found = header.values.get(f"{_KEY}{key}", default)
    if not isinstance(found, int) or isinstance(found, bool):
        raise BadInput(f"{_KEY}{key} is {shown(str(found))!r}, expected an integer", where=header.file.where)
    return found
