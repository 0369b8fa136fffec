"""The boards as a table for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from colibri.boards.profile import Board, BoardKind, Emulator, MemoryKind


def board_table(boards: Sequence[Board]) -> Table:
    """A row for each board; memory is what the linker fills, without regions that hold nothing by default."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("board", "", "flash", "RAM", "emulator (it proves)"):
        table.add_column(column, no_wrap=bool(column), overflow="fold")
    for board in boards:
        table.add_row(
            Text(board.id, "bold"),
            Text(f"{board.title}\n{board.cpu.core}", "dim"),
            _memory(board, MemoryKind.FLASH),
            _memory(board, MemoryKind.RAM),
            "\n".join(map(_emulator, board.emulators)),
        )
    return table


def _memory(board: Board, kind: MemoryKind) -> str:
    if board.kind is not BoardKind.BARE:
        return "–"
    used = [region for region in board.memory if region.kind is kind and region.holds]
    names = kind is MemoryKind.RAM or len(used) > 1
    return "\n".join(f"{size_text(region.limit)}{f' {region.name}' if names else ''}" for region in used)


def _emulator(emulator: Emulator) -> str:
    return f"{emulator.name} ({emulator.proves})"


def size_text(size: int) -> str:
    """Bytes in the largest unit that divides them.

    >>> size_text(131072), size_text(1 << 21), size_text(1000)
    ('128 KB', '2 MB', '1000 B')
    """
    for unit, name in ((1 << 20, "MB"), (1 << 10, "KB")):
        if size and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"
