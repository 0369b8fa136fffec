"""The stack for people: what the reserve consists of, the deepest path, what runs have shown, two of them compared."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from colibri.footprint.stack import Observed, StackBound, StackFrame, StackUse
from colibri.footprint.stack_diff import StackDiff, StackFigure


def print_stack(stack: StackUse, console: Console, *, full: bool = False) -> None:
    """Print the bound, or why there is none, and the deepest path.

    Args:
        full: each public function on a row of its own.
    """
    program = stack.program
    if program.bytes is None:
        console.print(Text(f"stack: not bounded, {program.unknown}", "yellow"), soft_wrap=True)
        known = [entry for entry in stack.entries if entry.bytes is not None]
        lost = [entry.name for entry in stack.entries if entry.bytes is None]
        if lost:
            console.print(Text(f"stack of the model: not bounded for {', '.join(lost)}", "yellow"), soft_wrap=True)
        elif known:
            deepest = max(known, key=lambda entry: entry.bytes or 0)
            console.print(f"stack of the model: {deepest.name} takes {deepest.bytes:,} at most", soft_wrap=True)
            console.print(Text(f"deepest: {path_text(deepest)}", "dim"), soft_wrap=True)
    else:
        style = "bold red" if stack.overflows else "yellow" if stack.short else ""
        console.print(Text(f"stack: {bound_text(stack)}", style), soft_wrap=True)
        console.print(Text(f"deepest: {path_text(program)}", "dim"), soft_wrap=True)
    if full:
        for entry in stack.entries:
            size = "not bounded" if entry.bytes is None else f"{entry.bytes:,}"
            way = entry.unknown if entry.bytes is None else path_text(entry)
            console.print(Text(f"  {entry.name}: {size}  {way}", "dim"), soft_wrap=True)


def bound_text(stack: StackUse) -> str:
    """``188 at most + 108 exception frame + 256 margin = 576 of 4,096 reserved``; or why there is no bound."""
    if stack.program.bytes is None:
        return f"not bounded, {stack.program.unknown}"
    parts = f"{stack.program.bytes:,} at most"
    if stack.exception:
        parts += f" + {stack.exception:,} exception frame"
    reserve = f" of {stack.reserve:,} reserved" if stack.reserve else ""
    if stack.margin:
        parts += f" + {stack.margin:,} margin"
    return f"{parts} = {stack.needed or 0:,}{reserve}"


def path_text(bound: StackBound) -> str:
    """``main 120 → frame_begin 48``."""
    return frames_text(bound.path)


def frames_text(path: tuple[StackFrame, ...]) -> str:
    """The same for the frames alone."""
    return " → ".join(f"{frame.function} {frame.bytes:,}" for frame in path)


def print_stack_diff(stack: StackDiff, console: Console, *, full: bool = False) -> None:
    """Print bound, need and reserve of both, the newer path where it differs, and the functions that changed.

    Args:
        full: those too that did not.
    """
    console.print(_change("stack", stack.bound, " at most", "bold"), soft_wrap=True)
    for figure in (stack.needed, stack.reserve):
        if full or figure.old != figure.new:
            console.print(_change(f"  {figure.name}", figure), soft_wrap=True)
    if full or stack.old_path != stack.new_path:
        console.print(Text(f"  deepest: {frames_text(stack.new_path)}", "dim"), soft_wrap=True)
    for figure in stack.entries:
        if full or figure.old != figure.new:
            console.print(_change(f"  {figure.name}", figure), soft_wrap=True)


def _change(title: str, figure: StackFigure, what: str = "", style: str = "") -> Text:
    old, new = ("–" if size is None else f"{size:,}" for size in (figure.old, figure.new))
    unit = "byte" if figure.new == 1 else "bytes"
    line = Text.assemble((title, style), f"  {old} → {new} {unit}{what}")
    if figure.delta:
        line.append(f"  {figure.delta:+,}", "red" if figure.delta > 0 else "green")
    return line


def print_observed(observed: tuple[Observed, ...], console: Console) -> None:
    """Print bound and observed depth of the test program and of its public functions, and the pages touched."""
    for one in observed:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        table.add_column(f"stack on {one.emulator}", min_width=36, overflow="fold")
        for title in ("bound", "observed", "share"):
            table.add_column(title, justify="right", no_wrap=True, min_width=9)
        for entry in (one.program, *one.entries):
            table.add_row(
                f"  {entry.name}{' (test program)' if entry is one.program else ''}",
                "–" if entry.bound is None else f"{entry.bound:,}",
                "–" if entry.observed is None else f"{entry.observed:,}",
                "–" if entry.ratio is None else f"{100 * entry.ratio:.0f} %",
            )
        console.print(table)
        if pages := one.pages_text:
            console.print(f"pages of 4,096 bytes touched on {one.emulator}: {pages}", soft_wrap=True)
