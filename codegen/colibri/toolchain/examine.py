"""Everything that can be told of a board file: what the loader finds, and what the emulators here know by name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from colibri.boards.load import read_board
from colibri.boards.profile import Board, EmulatorKind
from colibri.errors import BadInput
from colibri.toolchain.probe import examine_emulator


@dataclass(frozen=True)
class Examined:
    """What was found.

    Attributes:
        board: its name.
        faults: all that is wrong, the first of them being what `load_board` would raise.
        notes: what is not wrong, but should be known.
    """

    board: str
    faults: tuple[BadInput, ...]
    notes: tuple[str, ...]

    def to_json(self) -> str:
        """The same as indented JSON, each fault as its line."""
        facts = {"board": self.board, "faults": [str(fault) for fault in self.faults], "notes": self.notes}
        return msgspec.json.format(msgspec.json.encode(facts), indent=1).decode() + "\n"


def examine_file(path: Path) -> Examined:
    """Check a board file, and ask for the machines and processors of its emulators.

    Raises:
        BadInput: no such file, not TOML, or what it inherits from is not there.
    """
    read = read_board(path)
    if read.board is None or read.faults:
        return Examined(path.stem, tuple(read.faults), ())
    faults, notes = [], _notes(read.board)
    for index, emulator in enumerate(read.board.emulators):
        found = examine_emulator(read.board, emulator)
        if not found.problem or emulator.kind is EmulatorKind.NATIVE:
            continue
        if found.version:
            where = read.at(("emulators", index, "args"))
            faults.append(BadInput(f"{emulator.program} {found.problem}", where=where, hint=f"asked: {found.version}"))
        else:
            notes.append(f"{emulator.program} is not here to be asked for what {emulator.name} needs")
    return Examined(path.stem, tuple(faults), tuple(notes))


def _notes(board: Board) -> list[str]:
    found = []
    if not board.sources:
        found.append("sources is empty: say where the numbers come from, or nobody can check them")
    if not board.emulators:
        found.append("no emulator: `colibri build` serves, `colibri test` and `colibri run` have nothing to run it in")
    if board.cpu.unlisted:
        found.append(f"{board.cpu.core} is in no list: no cycles are estimated, and nothing compares it with the flags")
    return found
