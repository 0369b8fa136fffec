"""The stack for people: what the reserve consists of, the deepest path, what runs have shown."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from colibri.footprint.stack import Observed, StackBound, StackUse


def print_stack(stack: StackUse, console: Console, *, full: bool = False) -> None:
    """Print the bound, or why there is none, and the deepest path.

    Args:
        full: each public function on a row of its own.
    """
    program = stack.program
    if program.bytes is None:
        console.print(Text(f"stack: not bounded, {program.unknown}", "yellow"), soft_wrap=True)
        known = [entry for entry in stack.entries if entry.bytes is not None]
        if known:
            deepest = max(known, key=lambda entry: entry.bytes or 0)
            console.print(f"stack of the model: {deepest.name} takes {deepest.bytes:,} at most", soft_wrap=True)
            console.print(Text(f"deepest: {path_text(deepest)}", "dim"), soft_wrap=True)
    else:
        parts = f"{program.bytes:,} at most"
        if stack.exception:
            parts += f" + {stack.exception:,} exception frame"
        parts += f" + {stack.margin:,} margin"
        reserve = f" of {stack.reserve:,} reserved" if stack.reserve else ""
        style = "bold red" if stack.overflows else "yellow" if stack.short else ""
        console.print(Text(f"stack: {parts} = {stack.needed or 0:,}{reserve}", style), soft_wrap=True)
        console.print(Text(f"deepest: {path_text(program)}", "dim"), soft_wrap=True)
    if full:
        for entry in stack.entries:
            size = "not bounded" if entry.bytes is None else f"{entry.bytes:,}"
            way = entry.unknown if entry.bytes is None else path_text(entry)
            console.print(Text(f"  {entry.name}: {size}  {way}", "dim"), soft_wrap=True)


def path_text(bound: StackBound) -> str:
    """``main 120 → frame_begin 48``."""
    return " → ".join(f"{frame.function} {frame.bytes:,}" for frame in bound.path)


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
        if pages := _pages_text(one):
            console.print(f"pages of 4,096 bytes touched on {one.emulator}: {pages}", soft_wrap=True)


def _pages_text(observed: Observed) -> str:
    """``weights 309 of 321, memory in dtcm 8 of 8``."""
    parts = [("weights", observed.weights.pages, observed.weights.of_pages)] if observed.weights else []
    parts += [(f"memory in {block.region}", block.pages, block.of_pages) for block in observed.memory]
    return ", ".join(f"{name} {pages:,} of {of_pages:,}" for name, pages, of_pages in parts)
