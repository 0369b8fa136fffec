"""A matrix for people: on the terminal, and as Markdown for a pull request or a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from colibri.emit.markdown import head, line, plain
from colibri.errors import printable, shown
from colibri.matrix.model import Matrix, Result, Run, State, same_digest

COLUMNS = (
    "board",
    "toolchain",
    "builds",
    "fits",
    "runs in (it proves)",
    "same digest",
    "flash",
    "RAM",
    "stack",
    "instructions",
)
_WORDS = COLUMNS.index("flash")  # columns before those of numbers
_NARROW = ("board", "toolchain", "fits", "runs in", "bits", "flash", "RAM", "stack", "instructions")  # on a terminal
_BITS = {"yes": "same", "NO": "DIFFER"}
_STYLES = {"yes": "green", "same": "green", "not built": "red", "DIFFER": "bold red"}
_WHY, _WIDE_WHY = 160, 400  # characters


@dataclass(frozen=True)
class Row:
    """The texts of a row."""

    cells: tuple[str, ...]
    why: str


def rows(results: Sequence[Result], common: str) -> list[Row]:
    """A row for each result of one model.

    Args:
        common: the digest that the model's runs are to have.
    """
    return [_row(result, common) for result in results]


def print_matrix(matrix: Matrix, console: Console) -> None:
    """A table for each model, below it what went wrong."""
    for digest, results in matrix.models():
        title = f"{printable(results[0].checkpoint)}, {results[0].recipe}" + (f": {digest[:16]}" if digest else "")
        console.print(Text(title, "bold"), soft_wrap=True)
        console.print(_table(rows(results, digest)))
        for result in results:
            if result.error:
                by = f", {printable(result.toolchain)}" if result.toolchain else ""
                said = Text.assemble((printable(result.board), "bold"), f"{by}: {shown(result.error, _WIDE_WHY)}")
                console.print(said, soft_wrap=True)
        console.print()
    console.print(matrix.totals())


def _table(found: Sequence[Row]) -> Table:
    """Numbers stay whole on a narrow terminal, names are folded."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    several = len({row.cells[1] for row in found}) > 1
    shown = [index for index, name in enumerate(_NARROW) if several or name != "toolchain"]
    for name in (_NARROW[index] for index in shown):
        folds = name in ("board", "runs in")
        number = _NARROW.index(name) > _NARROW.index("bits")
        justify: JustifyMethod = "right" if number else "left"
        table.add_column(name, justify=justify, no_wrap=not folds, overflow="fold", min_width=10 if folds else None)
    for row in found:
        board, toolchain, builds, fits, runs, same, *numbers = row.cells
        texts = (board, toolchain, fits if builds == "yes" else "not built", runs, _BITS.get(same, same), *numbers)
        table.add_row(*(Text(printable_lines(texts[at]), _STYLES.get(texts[at], "")) for at in shown))
    return table


def printable_lines(text: str) -> str:
    """Printable, its lines kept."""
    return "\n".join(map(printable, text.split("\n")))


def matrix_markdown(matrix: Matrix, level: int = 3) -> str:
    """A heading and a table for each model.

    Args:
        level: of the headings.
    """
    parts = []
    for digest, results in matrix.models():
        parts += [f"{'#' * level} {plain(results[0].checkpoint)}, `{results[0].recipe}`", ""]
        if digest:
            parts += [f"All that is the same has the digest `{digest[:16]}`.", ""]
        parts += head(*COLUMNS, words=_WORDS)
        found = rows(results, digest)
        parts += [line(*(plain(", ".join(cell.split("\n"))) for cell in row.cells)) for row in found]
        wrong = [
            f"- **{plain(result.board)}**{f', {plain(result.toolchain)}' if result.toolchain else ''}: {plain(row.why)}"
            for result, row in zip(results, found, strict=True)
            if row.why
        ]
        parts += ["", *wrong, *([""] if wrong else [])]
    return "\n".join([*parts, f"{matrix.totals()}.", ""])


def _row(result: Result, common: str) -> Row:
    same = same_digest(result.runs, common)
    shown_runs = [run for run in result.runs if run.state is not State.MISSING or run.proves != "machine"]
    cells = (
        result.board,
        result.toolchain or "–",
        "no" if result.fits is None else "yes",
        _fits(result),
        "\n".join(map(_run, shown_runs)) or "–",
        "–" if same is None else "yes" if same else "NO",
        _number(result.flash),
        _number(result.ram),
        _number(result.stack),
        _instructions(result.runs),
    )
    return Row(cells, shown(result.error, _WHY) if result.code not in (0, 3) else "")


def _fits(result: Result) -> str:
    if result.fits is None:
        return "–"
    over = "\n".join(f"{region} +{size:,}" for region, size in result.over.items())
    return over or ("yes" if result.fits else "no")


def _run(run: Run) -> str:
    text = f"{run.emulator} ({run.proves})"
    return text if run.state is State.EQUAL else f"{text}: {run.state}"


def _number(number: int | None) -> str:
    return "–" if number is None else f"{number:,}"


def _instructions(runs: Sequence[Run]) -> str:
    """Those of the run that proves most, which comes first among those that were counted."""
    counted = [run for run in runs if run.instructions is not None]
    order = ("map", "core", "isa")
    best = min(counted, key=lambda run: order.index(run.proves) if run.proves in order else len(order), default=None)
    return "–" if best is None else f"{best.instructions:,}"
