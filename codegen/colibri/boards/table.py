"""The boards as a table: a line each for the terminal, and Markdown for docs/boards.md."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from colibri.boards.profile import Board, BoardKind, MemoryKind, Proves

if TYPE_CHECKING:
    from rich.table import Table

_WIDE = 120  # columns, from which on the titles have room
_NOTHING = "–"


def board_table(boards: Sequence[Board], width: int) -> Table:
    """A line for each board, in 80 columns; `colibri boards show` says the rest.

    Args:
        width: of the terminal in columns.
    """
    from rich.table import Table
    from rich.text import Text

    wide = width >= _WIDE
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("board", "core", "flash", "RAM", "emulated", *(["title"] if wide else [])):
        table.add_column(column, no_wrap=True, justify="right" if column in ("flash", "RAM") else "left")
    for board in boards:
        title = [Text(board.title, "dim")] if wide else []
        table.add_row(Text(board.id, "bold"), board.cpu.core, *memory_texts(board), proven(board), *title)
    return table


def board_list(boards: Sequence[Board]) -> str:
    """A Markdown table with a row for each board."""
    lines = ["| board | | core | flash | RAM | run by (which proves) |", "|---|---|---|--:|--:|---|"]
    for board in boards:
        flash, ram = memory_texts(board)
        runs = ", ".join(f"{emulator.name} ({emulator.proves})" for emulator in board.emulators) or _NOTHING
        lines.append(f"| `{board.id}` | {board.title} | {board.cpu.core} | {flash} | {ram} | {runs} |")
    return "\n".join([*lines, ""])


def memory_texts(board: Board) -> tuple[str, str]:
    """Flash and RAM that the linker may fill; regions that hold nothing are the application's."""
    if board.kind is not BoardKind.BARE:
        return _NOTHING, _NOTHING
    used = [region for region in board.memory if region.holds]
    flash, ram = (sum(one.limit for one in used if one.kind is kind) for kind in (MemoryKind.FLASH, MemoryKind.RAM))
    return size_text(flash), size_text(ram)


def proven(board: Board) -> str:
    """What the emulators prove between them, the most first."""
    found = {emulator.proves for emulator in board.emulators}
    return ", ".join(one for one in Proves if one in found) or _NOTHING


def size_text(size: int) -> str:
    """Bytes in KB or MB, with at most one decimal.

    >>> size_text(131072), size_text((128 << 20) + (128 << 10)), size_text(0x4_2000)
    ('128 KB', '128.1 MB', '264 KB')
    """
    unit, name = (1 << 20, "MB") if size >= 1 << 20 else (1 << 10, "KB")
    return f"{size / unit:.1f}".removesuffix(".0") + f" {name}"
