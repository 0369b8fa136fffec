"""Long work says how far it is: to nobody, unless a command shows it."""

from __future__ import annotations

from collections.abc import Callable

Advance = Callable[[int], None]
"""Is told how many bytes, or whatever is counted, more are done."""

Progress = Callable[[str, int], Advance]
"""Is told what begins and how many bytes, or things of that name, it takes; 0 where nobody knows."""


def unseen(what: str, total: int) -> Advance:
    """The progress that nobody looks at."""
    return lambda done: None
