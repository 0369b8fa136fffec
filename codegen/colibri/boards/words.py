"""The right word for a misspelt one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_LONGEST = 100  # characters of a word that are compared


def nearest(word: str, known: Iterable[str]) -> str:
    """Return a hint: ``did you mean 'X'?``, or the list of known words when none is near."""
    words = sorted(known)
    word = word[:_LONGEST]
    near = difflib.get_close_matches(word.lower(), words, n=1)
    if not near:
        near = [name for name in words if word and word.lower() in name][:1]
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(words)}"
