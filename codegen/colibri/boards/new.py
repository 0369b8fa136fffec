"""Write the file of a new board: short, from another board, with the numbers to change filled in."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from colibri.boards.load import board_names, load_board
from colibri.boards.profile import Board, BoardKind
from colibri.boards.schema import FILE_NAME, schema_json
from colibri.boards.toml_text import assignment, quoted, table_lines
from colibri.errors import UsageError, no_room, printable, shown

_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_NAME_CHARS = 64

_TOP = """\
#:schema ./{schema}
# {name}, made from {parent}: what is not said here is as there, lists as a whole. What a key means stands in
# docs/boards.md of Colibri; an editor with TOML schemas (Even Better TOML, Taplo) shows it too.
#
#     colibri boards check {file}
#     colibri doctor --board {file}
#     colibri build CHECKPOINT --board {file}

inherits = {inherits}
title = {title} # one line for people
sources = [
    # Where each number comes from: manual, chapter, what it says. Of {parent}:
{sources}
]
"""

_PROVES_BARE = """
# `proves = "map"` is true only of a machine with the addresses above, "core" of one with this core. None
# at all is fine, too: emulators = [] above the first table, and these go.
"""
_PROVES = """
# `proves = "core"` is true only of an emulator of this core, "isa" of one with its instructions. None at
# all is fine, too: emulators = [] above the first table, and these go.
"""


def new_board(name: str, parent: str, output: Path | None = None) -> Path:
    """Write ``NAME.toml`` and, where it is not yet, the schema beside it for editors.

    Args:
        name: of the new board.
        parent: the board that is like it, a name or a path, as `load_board` takes it.
        output: another file than ``NAME.toml`` in the current folder; its name must be the same.

    Returns:
        the file.

    Raises:
        UsageError: a name that is none or is taken, a file that is there, or nothing can be written.
        BadInput: no such parent, or it is wrong.
    """
    if not re.fullmatch(_NAME, name) or len(name) > _NAME_CHARS or name.endswith(".toml"):
        hint = f"use letters, digits and ._-, at most {_NAME_CHARS}, without .toml"
        raise UsageError(f"'{shown(name)}' is no name of a board", where="boards new", hint=hint)
    if name in board_names():
        raise UsageError(f"there is a board {name!r} already", where="boards new", hint="choose another name")
    path = output or Path(f"{name}.toml")
    if path.name != f"{name}.toml":
        hint = f"end it with {name}.toml"
        raise UsageError("the file's name is the board's", where=f"-o {shown(str(path))}", hint=hint)
    text = board_text(name, load_board(parent), _inherits(parent, path), path)
    schema, about_keys = path.with_name(FILE_NAME), schema_json()
    _create(path, text)
    if not schema.exists():
        _create(schema, about_keys)
    return path


def board_text(name: str, board: Board, inherits: str, path: Path) -> str:
    """The file's text.

    Args:
        board: the parent.
        inherits: how the new file names it.
    """
    sources = "\n".join(f"    # {quoted(source)}," for source in board.sources)
    file = printable(str(path))
    facts = {"schema": FILE_NAME, "name": name, "parent": board.id, "file": file, "sources": sources}
    parts = [_TOP.format(**facts, inherits=quoted(inherits), title=quoted(name))]
    if board.kind is BoardKind.BARE:
        parts.append(f"stack = {board.stack} # bytes; `colibri build` replaces it by what is needed\n")
        parts.append(f"reserve = {board.reserve} # bytes of RAM for the application\n")
    parts.append(_commented(assignment("kernels", board.kernels)))
    parts.append("\n[cpu]\n" + "".join(f"{line}\n" for line in table_lines(board.cpu)))
    parts.append(_toolchain(board))
    parts += _memory(board)
    parts += _emulators(board)
    if flash := "".join(f"{line}\n" for line in table_lines(board.flash)):
        parts.append(f"\n# What each tool that writes a program calls the chip, for `colibri flash`.\n[flash]\n{flash}")
    return "".join(parts)


def _toolchain(board: Board) -> str:
    tools = board.toolchain
    prefix = _commented(assignment("prefix", tools.prefix))
    target, flags = assignment("clang_target", tools.clang_target), assignment("flags", tools.flags)
    return f"\n[toolchain]\n{prefix}{target}\n{flags}\n"


def _memory(board: Board) -> list[str]:
    if board.kind is not BoardKind.BARE:  # the loader of Linux places a program where it likes
        return []
    parts = ["\n# From the memory map of the chip, in bytes. `budget` would keep a part of a region for others.\n"]
    for index, region in enumerate(board.memory):
        lines = "".join(f"{line}\n" for line in table_lines(region))
        parts.append(f"{'' if index == 0 else chr(10)}[[memory]]\n{lines}")
    return parts


def _emulators(board: Board) -> list[str]:
    if not board.emulators:
        return []
    parts = [_PROVES_BARE if board.kind is BoardKind.BARE else _PROVES]
    for index, emulator in enumerate(board.emulators):
        lines = "".join(f"{line}\n" for line in table_lines(emulator))
        parts.append(f"{'' if index == 0 else chr(10)}[[emulators]]\n{lines}")
    return parts


def _commented(lines: str) -> str:
    return "".join(f"# {line}\n" for line in lines.splitlines())


def _inherits(parent: str, path: Path) -> str:
    """How a file at ``path`` names its parent."""
    if not parent.endswith(".toml"):
        return parent
    if Path(parent).resolve().parent != path.resolve().parent:
        hint = "a board inherits from one in its own folder, or from one of Colibri"
        raise UsageError(f"'{shown(parent)}' lies in another folder than the new file", where="--from", hint=hint)
    return Path(parent).stem


def _create(path: Path, text: str) -> None:
    """Write a file that must not be there: made beside it and linked, so that it is whole or not at all."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text(text, encoding="utf-8", newline="\n")
        os.link(beside, path)
    except FileExistsError:
        hint = "choose another name, or remove it"
        raise UsageError("is there already", where=shown(str(path), 300), hint=hint) from None
    except OSError as error:
        raise no_room(shown(str(path), 300), error, "choose another -o") from None
    finally:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
