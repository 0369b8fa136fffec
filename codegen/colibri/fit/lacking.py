"""When nothing fits: what the smallest recipe lacks, and what would do."""

from __future__ import annotations

from collections.abc import Callable

from colibri.boards.profile import Board, Holds
from colibri.errors import DoesNotFit
from colibri.fit.sizes import Sizes, in_words
from colibri.fit.space import Kind, Point, Space


def does_not_fit(
    space: Space, sizes: Callable[[Point], Sizes | None], board: Board, contexts: Callable[[], int]
) -> DoesNotFit:
    """Return (not raise) the error.

    Args:
        contexts: the most positions that have room in RAM; 0 for none.
    """
    found = sizes(space.smallest)
    if found is None or found.fits:
        what = "no recipe that was tried fits"
        return DoesNotFit(what, where=board.id, hint="give more --budget, or allow more with --only")
    hints = []
    if found.flash_over:
        hints += _reserve("--reserve-flash", board, found.flash_over)
    if found.ram_over:
        if most := contexts():
            hints.append(f"--context-at-least {most} has room")
        hints += _reserve("--reserve-ram", board, found.ram_over) if board.reserve >= found.ram_over else []
    said = ", ".join(f"{axis.name} {axis.values[-1]}" for axis in space.axes if axis.kind is not Kind.ACTIVATIONS)
    what = f"even the smallest recipe lacks {in_words(found.flash_over, found.ram_over)} ({said})"
    return DoesNotFit(what, where=board.id, hint="; or ".join([*hints, "a larger board: see `colibri explain`"]))


def _reserve(option: str, board: Board, over: int) -> list[str]:
    """A smaller reserve that would do, where there is one."""
    if option == "--reserve-ram":
        return [f"{option} {board.reserve - over}"]
    code = board.region_for(Holds.CODE)
    kept = code.length - code.limit
    return [f"{option} {kept - over}"] if kept >= over else []
