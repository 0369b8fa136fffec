"""The right word for a misspelt one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_LONGEST = 100  # characters of a word that are compared


def nearest(word: str, known: Iterable[str]) -> str:
    """Return a hint: ``did you mean 'X'?``, or the list of known words when none is near."""
    words = sorted(known)
    return meant(word, words) or f"known: {', '.join(words)}"


def meant(word: str, known: Iterable[str]) -> str:
    """Return ``did you mean 'X'?``, or nothing when no word is near: for lists too long to be shown."""
    lower = {name.lower(): name for name in sorted(known, reverse=True)}
    word = word[:_LONGEST].lower()
    near = difflib.get_close_matches(word, lower, n=1) or [name for name in sorted(lower) if word and word in name]
    return f"did you mean {lower[near[0]]!r}?" if near else ""


def sentence(hint: str) -> str:
    """Return the hint with a full stop behind it, unless it asks: more may follow."""
    return hint if hint.endswith("?") else f"{hint}."
