"""A tokenizer of pieces with scores, as SentencePiece trains it (BPE), into what ``tokenizer.json`` holds."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

from colibri.errors import BadInput, shown

SPACE = "▁"
_LONGEST_PIECE = 512  # characters; every place at which one can be cut is looked at


def tokenizer_of_pieces(
    pieces: Sequence[str],
    scores: Sequence[float],
    where: str,
    *,
    unknown: int,
    begin: int,
    further: Collection[int] = (),
    framed: bool = True,
) -> bytes:
    """Return the JSON text: byte fallback, a space before the text, and the token of the beginning before all.

    Of two neighbours the pair is merged whose piece has the best score; so the merges are all cuts of all pieces into
    two pieces, by score.

    Args:
        pieces: by id, with `SPACE` for a space and ``<0x0A>`` for a byte.
        scores: by id.
        where: file that errors name.
        unknown: id of the token for what has none.
        begin: id of the token before a text; that behind it ends one.
        further: ids of more tokens that stand for no text.
        framed: whether a text begins with that token.

    Raises:
        BadInput: a piece stands twice or is too long.
    """
    ids: dict[str, int] = {}
    for number, piece in enumerate(pieces):
        if ids.setdefault(piece, number) != number:
            raise BadInput(f"tokens {ids[piece]} and {number} are both '{shown(piece)}'", where=where)
        if len(piece) > _LONGEST_PIECE:
            raise BadInput(f"token {number} has {len(piece)} characters, more than {_LONGEST_PIECE}", where=where)
    merges = [
        (-scores[number], ids[left], ids[right], left, right)
        for piece, number in ids.items()
        for cut in range(1, len(piece))
        if (left := piece[:cut]) in ids and (right := piece[cut:]) in ids
    ]
    special = [
        {"id": number, "content": pieces[number], **_SPECIAL}
        for number in sorted({unknown, begin, begin + 1, *further})
    ]
    first = pieces[begin]
    frame = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": first, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {first: {"id": first, "ids": [begin], "tokens": [first]}},
    }
    table = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": special,
        "normalizer": {
            "type": "Sequence",
            "normalizers": [
                {"type": "Prepend", "prepend": SPACE},
                {"type": "Replace", "pattern": {"String": " "}, "content": SPACE},
            ],
        },
        "pre_tokenizer": None,
        "post_processor": frame if framed else None,
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0},
            ],
        },
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": pieces[unknown],
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": True,
            "byte_fallback": True,
            "vocab": ids,
            "merges": [[left, right] for *_, left, right in sorted(merges)],
        },
    }
    return json.dumps(table, ensure_ascii=False).encode("utf-8")


_SPECIAL = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
