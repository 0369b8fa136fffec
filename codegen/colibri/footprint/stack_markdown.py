"""The stack for a pull request: its bound and the deepest path, what runs have shown, two of them compared."""

from __future__ import annotations

from collections.abc import Iterator

from colibri.emit.markdown import head, line, plain, signed, size
from colibri.footprint.stack import Observed, StackUse
from colibri.footprint.stack_diff import StackDiff
from colibri.footprint.stack_table import bound_text, frames_text


def stack_lines(stack: StackUse, observed: tuple[Observed, ...], *, full: bool) -> Iterator[str]:
    """The stack of a report.

    Args:
        full: with the bound of each public function.
    """
    program = stack.program
    yield ""
    yield f"**Stack**: {plain(bound_text(stack))}"
    if program.path:
        yield ""
        what = "The deepest path" if program.bytes is not None else "The path to what is not known"
        yield f"<details><summary>{what}</summary>"
        yield ""
        yield from head("function", "its bytes", "depth")
        depth = 0
        for frame in program.path:
            depth += frame.bytes
            yield line(plain(frame.function), f"{frame.bytes:,}", f"{depth:,}")
        yield ""
        yield "</details>"
    if full and stack.entries:
        yield ""
        yield from head("public function", "bound")
        for entry in stack.entries:
            yield line(plain(entry.name), size(entry.bytes))
    for run in observed:
        yield ""
        yield f"<details><summary>Stack observed in {plain(run.emulator)}: {size(run.program.observed)}</summary>"
        yield ""
        yield from head("function", "bound", "observed")
        for one in (run.program, *run.entries):
            title = f"{plain(one.name)} (test program)" if one is run.program else plain(one.name)
            yield line(title, size(one.bound), size(one.observed))
        yield ""
        if pages := run.pages_text:
            yield f"Pages of 4,096 bytes touched: {plain(pages)}."
            yield ""
        yield "</details>"


def stack_diff_lines(stack: StackDiff, *, full: bool) -> Iterator[str]:
    """The stacks of a comparison.

    Args:
        full: with the figures that did not change.
    """
    shown = [one for one in stack.figures() if full or one is stack.bound or one.old != one.new]
    yield ""
    yield from head("stack", "old", "new", "change")
    for one in shown:
        yield line(plain(one.name), size(one.old), size(one.new), "–" if one.delta is None else signed(one.delta))
    if stack.old_path != stack.new_path:
        yield ""
        old, new = (plain(frames_text(path)) or "–" for path in (stack.old_path, stack.new_path))
        yield f"Deepest path, old: {old}; new: {new}"
