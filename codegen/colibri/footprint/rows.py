"""Tables of names and numbers; very long ones are laid out here, for which a general layout needs many seconds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.table import Table
from rich.text import Text

_LONG = 1000  # rows
_NAME, _NUMBER, _GAP = 36, 9, 2  # columns of the terminal, at least


class Rows:
    """A column of names, which fold where the terminal is too narrow, and columns that never do."""

    def __init__(self, *titles: str, words: bool = False) -> None:
        """Start a table.

        Args:
            titles: of the columns of numbers.
            words: whether a column without a title comes last.
        """
        self._titles, self._words = titles, words
        self._rows: list[tuple[str | Text, ...]] = []

    def add(self, name: str | Text, *cells: str | Text) -> None:
        """Add a row; columns that it does not fill are empty."""
        self._rows.append((name, *cells))

    def print(self, console: Console) -> None:
        """Print the table; a very long one without colours."""
        if len(self._rows) <= _LONG:
            console.print(self._table())
        else:
            console.out("\n".join(self._lines(console.width)), highlight=False)

    def _table(self) -> Table:
        table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), show_header=True, header_style="dim")
        table.add_column("", min_width=_NAME, overflow="fold")
        for title in self._titles:
            table.add_column(title, justify="right", no_wrap=True, min_width=_NUMBER)
        if self._words:
            table.add_column("", no_wrap=True)
        for row in self._rows:
            table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
        return table

    def _lines(self, width: int) -> Iterator[str]:
        """The same without styles; only that a name folds at any letter."""
        count = 1 + len(self._titles) + self._words
        empty = [""] * count
        rows = [["", *self._titles, *empty][:count]]
        rows += [[*(str(cell) for cell in row), *empty][:count] for row in self._rows]
        least = [_NAME, *(_NUMBER for _ in self._titles), *([0] if self._words else [])]
        widths = [
            max(at_least, *map(cell_len, column))
            for at_least, column in zip(least, zip(*rows, strict=True), strict=True)
        ]
        widths[0] = max(_NAME, min(widths[0], width - sum(widths[1:]) - _GAP * (count - 1)))
        for row in rows:
            yield from _folded(row, widths, self._words)


def _folded(row: Sequence[str], widths: Sequence[int], words: bool) -> Iterator[str]:
    name, *cells = row
    first, *rest = [name] if cell_len(name) <= widths[0] else chop_cells(name, widths[0])
    gap = " " * _GAP
    numbers = [f"{cell:>{width}}" for cell, width in zip(cells, widths[1:], strict=True)]
    if words:
        numbers[-1] = f"{cells[-1]:<{widths[-1]}}"
    yield gap.join((_padded(first, widths[0]), *numbers))
    for part in rest:
        yield gap.join((_padded(part, widths[0]), *(" " * width for width in widths[1:])))


def _padded(name: str, width: int) -> str:
    return name + " " * (width - cell_len(name))
