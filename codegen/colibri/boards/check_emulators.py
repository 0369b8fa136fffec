"""What must hold in the emulators of a board."""

from __future__ import annotations

import re
from collections.abc import Iterator

from colibri.boards.check_memory import vector_faults
from colibri.boards.places import At, first_repeated
from colibri.boards.profile import Board, BoardKind, Emulator, EmulatorKind, Proves
from colibri.boards.words import nearest
from colibri.errors import BadInput, shown

# The traps of each architecture that runs on bare metal, the product's first.
TRAPS = {"arm": ("bkpt", "svc"), "riscv32": ("ebreak",), "riscv64": ("ebreak",)}

# How the images of each kind are run.
RUNNERS = {
    BoardKind.BARE: (EmulatorKind.QEMU_SYSTEM, EmulatorKind.QEMU_USER),
    BoardKind.LINUX: (EmulatorKind.NATIVE, EmulatorKind.QEMU_USER),
    BoardKind.WINDOWS: (EmulatorKind.WINE,),
    BoardKind.WASM: (EmulatorKind.WASMTIME, EmulatorKind.NODE),
}
_NO_PROGRAM = {EmulatorKind.NATIVE: "it starts by itself", EmulatorKind.WASMTIME: "it is a Python package"}


def emulator_faults(board: Board, at: At) -> Iterator[BadInput]:
    """Of each emulator, and of their names."""
    names = [emulator.name for emulator in board.emulators]
    if repeated := first_repeated(names):
        second = [index for index, name in enumerate(names) if name == repeated][1]
        yield BadInput(f"two emulators are called '{shown(repeated)}'", where=at(("emulators", second, "name")))
    regions = [region.name for region in board.memory]
    for index, emulator in enumerate(board.emulators):
        yield from _program_faults(emulator, at, index)
        yield from _trap_faults(board, emulator, at, index)
        for moved in sorted(set(emulator.origins) - set(regions)):
            what = f"moves a region '{shown(moved)}' that the board has not"
            yield BadInput(what, where=at(("emulators", index, "origins", moved)), hint=nearest(moved, regions))
        if board.kind is BoardKind.BARE and emulator.kind is EmulatorKind.QEMU_SYSTEM and emulator.origins:
            yield from vector_faults(board, emulator.origins, at, ("emulators", index, "origins"))


def _program_faults(emulator: Emulator, at: At, index: int) -> Iterator[BadInput]:
    if not re.fullmatch(r"[a-z0-9][a-z0-9_.-]*", emulator.name) or emulator.name == "board":
        what = f"'{shown(emulator.name)}' becomes part of file names"
        hint = "use small letters, digits, - and _; not board"
        yield BadInput(what, where=at(("emulators", index, "name")), hint=hint)
    if (emulator.kind in _NO_PROGRAM) == bool(emulator.program):
        hint = _NO_PROGRAM.get(emulator.kind, "name the executable")
        what = f"program '{shown(emulator.program)}' for kind {emulator.kind}"
        yield BadInput(what, where=at(("emulators", index, "program")), hint=hint)
    if (emulator.kind is EmulatorKind.NATIVE) != (emulator.proves is Proves.MACHINE):
        what = f"kind {emulator.kind} proves {emulator.proves}"
        hint = "a native run proves the machine, and no other does"
        yield BadInput(what, where=at(("emulators", index, "proves")), hint=hint)


def _trap_faults(board: Board, emulator: Emulator, at: At, index: int) -> Iterator[BadInput]:
    allowed = TRAPS.get(board.cpu.arch, ()) if board.kind is BoardKind.BARE else ("",)
    runners = RUNNERS[board.kind]
    if emulator.kind not in runners:
        what = f"kind {emulator.kind} does not run an image of kind {board.kind}"
        yield BadInput(what, where=at(("emulators", index, "kind")), hint=f"use {' or '.join(runners)}")
    elif allowed and emulator.trap not in allowed:
        wanted = " or ".join(allowed) or "none: the program has a system under it"
        what = f"trap '{shown(emulator.trap)}'"
        yield BadInput(what, where=at(("emulators", index, "trap")), hint=f"for this board it is {wanted}")
    elif board.kind is not BoardKind.BARE:
        if emulator.origins:
            what = "only a bare-metal image has a memory map of its own"
            yield BadInput(what, where=at(("emulators", index, "origins")), hint="leave origins out")
    elif allowed and (emulator.kind is EmulatorKind.QEMU_USER) != (emulator.trap == "svc"):
        what = f"trap '{shown(emulator.trap)}' with kind {emulator.kind}"
        hint = "svc belongs to qemu-user, and only there"
        yield BadInput(what, where=at(("emulators", index, "trap")), hint=hint)
