"""Which boards can be built for and run on this machine, and what to install for the others."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from colibri.boards.profile import Board, EmulatorKind
from colibri.errors import ToolMissing
from colibri.toolchain.find import Compiler, find_clang, search_toolchain
from colibri.toolchain.probe import examine_emulator, install_command, program_version


class CompilerTried(msgspec.Struct, frozen=True):
    """A compiler that was rejected, and the first line of why."""

    cc: str
    reason: str


class EmulatorState(msgspec.Struct, frozen=True):
    """One way to run a board's image.

    Attributes:
        name: as the board file has it.
        program: executable; empty for native.
        version: version line; empty when not installed.
        problem: why it does not serve; empty when it does.
        needed: whether the board is incomplete without it. Native runs are a bonus of hosts that are like the board.
    """

    name: str
    program: str
    version: str
    problem: str
    needed: bool


class Readiness(msgspec.Struct, frozen=True):
    """What a board needs and what of it is here.

    Attributes:
        board: its name.
        compiler: None when no candidate links for the board.
        clang: version line of a clang that compiles for it too; empty without one.
        rejected: compilers tried before.
        emulators: in the order of the board file.
        apt: Debian packages that are missing.
    """

    board: str
    compiler: Compiler | None
    clang: str
    rejected: tuple[CompilerTried, ...]
    emulators: tuple[EmulatorState, ...]
    apt: tuple[str, ...]

    @property
    def missing(self) -> tuple[str, ...]:
        """What must be there and is not: ``compiler``, and names of emulators."""
        emulators = tuple(state.name for state in self.emulators if state.needed and state.problem)
        return emulators if self.compiler else ("compiler", *emulators)


class Diagnosis(msgspec.Struct, frozen=True):
    """What `colibri doctor` says."""

    boards: tuple[Readiness, ...]
    install: str

    def to_json(self) -> str:
        """The diagnosis as indented JSON."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode() + "\n"

    def require(self, *, all_of_it: bool) -> None:
        """Raise if a compiler or emulator is missing.

        Args:
            all_of_it: every board must have everything; else one board that can be built is enough.

        Raises:
            ToolMissing: the hint is the install command.
        """
        buildable = [ready for ready in self.boards if ready.compiler is not None]
        incomplete = [ready for ready in self.boards if ready.missing]
        if all_of_it and incomplete:
            what = f"missing: {', '.join(incomplete[0].missing)}"
            raise ToolMissing(what, where=f"board {incomplete[0].board}", hint=self.install)
        if not buildable:
            raise ToolMissing("no board can be built for on this machine", hint=self.install)


def diagnose(boards: Sequence[Board]) -> Diagnosis:
    """Look for every compiler and emulator of the boards. Takes about a quarter of a second a board."""
    ready = tuple(map(examine_board, boards))
    packages = dict.fromkeys(package for board in ready for package in board.apt)
    return Diagnosis(ready, install_command(tuple(packages)))


def examine_board(board: Board) -> Readiness:
    """Look for the compilers and emulators of one board."""
    search = search_toolchain(board)
    clang = find_clang(board)
    states, packages = [], [] if search.found else [*board.toolchain.apt]
    for emulator in board.emulators:
        result = examine_emulator(board, emulator)
        needed = emulator.kind is not EmulatorKind.NATIVE
        states.append(EmulatorState(emulator.name, emulator.program, result.version, result.problem, needed))
        packages += emulator.apt if result.problem else ()
    return Readiness(
        board=board.id,
        compiler=search.found,
        clang=program_version(clang) if clang else "",
        rejected=tuple(CompilerTried(tried.cc, tried.reason) for tried in search.rejected),
        emulators=tuple(states),
        apt=tuple(dict.fromkeys(packages)),
    )
