"""When nothing fits: what the smallest recipe lacks, and what would do."""

from __future__ import annotations

from collections.abc import Callable

from colibri.boards.profile import Board, Holds
from colibri.errors import DoesNotFit, in_bytes
from colibri.fit.sizes import Sizes
from colibri.fit.space import Kind, Point, Space


def does_not_fit(
    space: Space, sizes: Callable[[Point], Sizes | None], board: Board, contexts: Callable[[], int]
) -> DoesNotFit:
    """Return (not raise) the error.

    Args:
        contexts: the most positions that have room in RAM; 0 for none.
    """
    smallest = tuple(len(axis.values) - 1 for axis in space.axes)
    found = sizes(smallest)
    if found is None or found.fits:
        what = "no recipe that was tried fits"
        return DoesNotFit(what, where=board.id, hint="give more --budget, or allow more with --only")
    lacks, hints = [], []
    if found.flash_over:
        lacks.append(f"{in_bytes(found.flash_over)} of flash")
        hints += _reserve("--reserve-flash", board, found.flash_over)
    if found.ram_over:
        lacks.append(f"{in_bytes(found.ram_over)} of RAM")
        if most := contexts():
            hints.append(f"--context-at-least {most} has room")
        hints += _reserve("--reserve-ram", board, found.ram_over) if board.reserve >= found.ram_over else []
    said = ", ".join(f"{axis.name} {axis.values[-1]}" for axis in space.axes if axis.kind is not Kind.ACTIVATIONS)
    what = f"even the smallest recipe lacks {' and '.join(lacks)} ({said})"
    return DoesNotFit(what, where=board.id, hint="; or ".join([*hints, "a larger board"]))


def _reserve(option: str, board: Board, over: int) -> list[str]:
    """A smaller reserve that would do, where there is one."""
    if option == "--reserve-ram":
        return [f"{option} {board.reserve - over}"]
    code = board.region_for(Holds.CODE)
    kept = code.length - code.limit
    return [f"{option} {kept - over}"] if kept >= over else []
