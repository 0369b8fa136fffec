"""An explanation on the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from colibri.explain.model import Explanation
from colibri.fit.sizes import in_words


def print_explanation(found: Explanation, console: Console) -> None:
    """What is lacking, the ways, and what a dense model would need."""
    for line in verdict(found):
        console.print(line, soft_wrap=True)
    if found.ways:
        console.print()
        console.print(_ways(found))
        flattered = "; experts that go were chosen on it too, which flatters them" if found.flattered else ""
        console.print(f"loss: {found.basis}{flattered}", soft_wrap=True)
        for number, way in enumerate(found.ways, 1):
            console.print(f"{number}: --recipe {way.recipe}", soft_wrap=True)
    for line in dense_lines(found):
        console.print(f"\n{line}", soft_wrap=True)


def verdict(found: Explanation) -> list[str]:
    """Whether it fits, and its loss."""
    taken = f"{found.flash:,} bytes of flash as predicted and {found.memory:,} bytes of memory"
    board = found.board
    if found.flash_kept or found.ram_kept:
        board += f" less {in_words(found.flash_kept, found.ram_kept)} for the application"
    if found.fits:
        lines = [f"{found.recipe} fits {board}: {taken}"]
    else:
        lacking = in_words(found.flash_over, found.ram_over)
        lines = [f"{found.recipe} does not fit {board}: it takes {taken}, and lacks {lacking}"]
    if found.loss is not None:
        lines.append(f"it has {found.loss:.4f} {found.loss_is}, {found.basis}")
    return lines


def _ways(found: Explanation) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    table.add_column("")
    table.add_column("to make it fit")
    for name in ("flash,\nbytes", "memory,\nbytes", f"loss,\n{found.loss_is}"):
        table.add_column(name, justify="right", no_wrap=True)
    for number, way in enumerate(found.ways, 1):
        text = ", ".join(way.changes) + (f" ({way.note})" if way.note else "")
        lost = "unknown" if way.lost is None else f"{round(way.lost, 4) + 0.0:+.4f}"
        table.add_row(str(number), text, f"{way.flash:,}", f"{way.memory:,}", lost)
    return table


def dense_lines(found: Explanation) -> list[str]:
    """What the experts cost; nothing of a model that has none."""
    dense = found.dense
    if dense is None:
        return []
    lacks = [name for name, fits in (("flash", dense.flash_fits), ("RAM", dense.ram_fits)) if not fits]
    room = f"would not fit, for lack of {' and '.join(lacks)}" if lacks else "would fit"
    return [
        f"a dense model of the same active size in {found.recipe.partition(':')[0]} {room}: "
        f"{dense.weights:,} bytes of weights instead of {dense.experts_weights:,}, "
        f"{dense.macs:,} multiply-adds instead of {dense.experts_macs:,}, the same memory; "
        "what it would know nobody measured",
    ]
