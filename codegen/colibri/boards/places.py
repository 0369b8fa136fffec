"""Where a fault is, in words; and repeated names, which every check looks for."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from colibri.boards.locate import KeyPath

# Where a key stands, for a message: of a board file its file, line and dotted path.
At = Callable[[KeyPath], str]


def first_repeated(names: Iterable[str]) -> str | None:
    """The first name that was there before."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
