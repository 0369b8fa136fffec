"""What must hold in the sets of instructions that a program chooses from."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from colibri.boards.places import At, first_repeated
from colibri.boards.profile import Board, BoardKind
from colibri.boards.words import nearest
from colibri.errors import BadInput, shown
from colibri.paths import data_folder

_QUESTION = re.compile(r"^static inline bool colibri_has_(\w+)\(void\)$", re.MULTILINE)


def level_faults(board: Board, at: At) -> Iterator[BadInput]:
    """Names and targets go into C, names into files; the processor must be able to answer."""
    if board.levels and board.kind is not BoardKind.LINUX:
        yield BadInput(
            f"sets of instructions of a {board.kind} board", where=at(("levels",)), hint="kind linux has them"
        )
        return
    if repeated := first_repeated(level.name for level in board.levels):
        yield BadInput(f"two are called '{shown(repeated)}'", where=at(("levels",)))
    known = questions(board.cpu.arch)
    if board.levels and not known:
        what = f"nothing asks a processor of {board.cpu.arch} for sets of instructions"
        yield BadInput(what, where=at(("levels",)), hint="leave it out")
        return
    for index, level in enumerate(board.levels):
        if level.name not in known:
            what = f"nothing asks the processor for '{shown(level.name)}'"
            yield BadInput(what, where=at(("levels", index, "name")), hint=nearest(level.name, known))
        if not re.fullmatch(r"[a-z0-9][a-z0-9=,._-]*", level.target):
            what = f"'{shown(level.target)}' is no target of an attribute"
            yield BadInput(what, where=at(("levels", index, "target")), hint="for example arch=x86-64-v3")


def questions(arch: str) -> list[str]:
    """Sets of instructions that a processor can be asked for: those of ``processors/ARCH.h``."""
    header = question_header(arch)
    return sorted(_QUESTION.findall(header.read_text(encoding="utf-8"))) if header.is_file() else []


def question_header(arch: str) -> Path:
    """The runtime's header that asks."""
    return data_folder("runtime_c") / "processors" / f"{arch}.h"
