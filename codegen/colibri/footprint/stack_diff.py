"""The stacks of two images: bounds side by side."""

from __future__ import annotations

import msgspec

from colibri.footprint.stack import StackFrame, StackUse


class StackFigure(msgspec.Struct, frozen=True):
    """A figure of both stacks, in bytes.

    Attributes:
        old: None when there is no bound, or no such function in the older image; ``new`` likewise.
        delta: ``new`` minus ``old``; None when one of them is not known.
    """

    name: str
    old: int | None
    new: int | None
    delta: int | None


class StackDiff(msgspec.Struct, frozen=True):
    """Two stacks.

    Attributes:
        bound: of the whole program, without exception frame and margin.
        needed: bound, exception frame and margin, rounded up.
        reserve: what the images have; 0 under Linux.
        entries: bounds of the public functions of either image, by name.
        old_path: the deepest path, or the one to what is not known; ``new_path`` likewise.
    """

    bound: StackFigure
    needed: StackFigure
    reserve: StackFigure
    entries: tuple[StackFigure, ...]
    old_path: tuple[StackFrame, ...]
    new_path: tuple[StackFrame, ...]

    def figures(self) -> tuple[StackFigure, ...]:
        """All of them, the program's first."""
        return (self.bound, self.needed, self.reserve, *self.entries)


def compare_stacks(old: StackUse | None, new: StackUse | None) -> StackDiff | None:
    """Compare; None when one side knows nothing of its stack, as a program without its package."""
    if old is None or new is None:
        return None
    before, after = ({entry.name: entry.bytes for entry in side.entries} for side in (old, new))
    return StackDiff(
        bound=_figure("bound", old.program.bytes, new.program.bytes),
        needed=_figure("needed", old.needed, new.needed),
        reserve=_figure("reserve", old.reserve, new.reserve),
        entries=tuple(_figure(name, before.get(name), after.get(name)) for name in sorted({*before, *after})),
        old_path=old.program.path,
        new_path=new.program.path,
    )


def _figure(name: str, old: int | None, new: int | None) -> StackFigure:
    return StackFigure(name, old, new, None if old is None or new is None else new - old)
