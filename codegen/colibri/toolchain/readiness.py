"""Which boards can be built for and run on this machine, and what to install for the others."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from colibri.boards.profile import Board, CompilerFamily, EmulatorKind
from colibri.errors import BadInput, ToolMissing
from colibri.toolchain.find import Tried, fpu_mismatch, try_clang, try_own
from colibri.toolchain.probe import examine_emulator, install_command


class CompilerState(msgspec.Struct, frozen=True):
    """A compiler that was tried.

    Attributes:
        program: the executable.
        version: version line; empty when not installed.
        problem: why it does not serve; empty when it does.
        needed: whether the board is incomplete without it. clang is a second opinion.
    """

    program: str
    version: str
    problem: str
    needed: bool


class EmulatorState(msgspec.Struct, frozen=True):
    """One way to run a board's image.

    Attributes:
        name: as the board file has it.
        program: executable; empty for native.
        version: version line; empty when not installed.
        problem: why it does not serve; empty when it does.
        needed: whether the board is incomplete without it. A native run is a gift of hosts that are like the board.
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
        compilers: the one that ``build.ninja`` names, then clang if it is another.
        emulators: in the order of the board file.
        apt: Debian packages that are missing.
        wrong: what the board file says and its compiler does not do; empty when they agree.
    """

    board: str
    compilers: tuple[CompilerState, ...]
    emulators: tuple[EmulatorState, ...]
    apt: tuple[str, ...]
    wrong: str = ""

    @property
    def missing(self) -> tuple[str, ...]:
        """What must be there and is not: names of compilers, then of emulators."""
        compilers = tuple(state.program for state in self.compilers if state.needed and state.problem)
        return compilers + tuple(state.name for state in self.emulators if state.needed and state.problem)

    @property
    def buildable(self) -> bool:
        """Whether the board's compiler is here."""
        return not any(state.needed and state.problem for state in self.compilers)


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
            BadInput: of the one board, when its file and its compiler do not agree.
            ToolMissing: the hint is the install command.
        """
        if all_of_it and (wrong := next((ready.wrong for ready in self.boards if ready.wrong), "")):
            raise BadInput(wrong)
        incomplete = [ready for ready in self.boards if ready.missing]
        if all_of_it and incomplete:
            what = f"missing: {', '.join(incomplete[0].missing)}"
            raise ToolMissing(what, where=f"board {incomplete[0].board}", hint=self.install)
        if not any(ready.buildable for ready in self.boards):
            raise ToolMissing("no board can be built for on this machine", hint=self.install)


def diagnose(boards: Sequence[Board]) -> Diagnosis:
    """Look for every compiler and emulator of the boards. Takes less than a second a board."""
    ready = tuple(map(examine_board, boards))
    packages = dict.fromkeys(package for board in ready for package in board.apt)
    return Diagnosis(ready, install_command(tuple(packages)))


def examine_board(board: Board) -> Readiness:
    """Look for the compilers and emulators of one board."""
    own = try_own(board)
    wrong = None if own.reason else fpu_mismatch(own.compiler, board)
    compilers = [_state(own, needed=True)]
    if own.compiler.family is not CompilerFamily.CLANG:
        compilers.append(_state(try_clang(board), needed=False))
    states, packages = [], [] if not own.reason else [*board.toolchain.apt]
    for emulator in board.emulators:
        result = examine_emulator(board, emulator, () if own.reason else own.compiler.command)
        needed = emulator.kind is not EmulatorKind.NATIVE
        states.append(EmulatorState(emulator.name, emulator.program, result.version, result.problem, needed))
        packages += emulator.apt if result.problem else ()
    return Readiness(
        board=board.id,
        compilers=tuple(compilers),
        emulators=tuple(states),
        apt=tuple(dict.fromkeys(packages)),
        wrong=str(wrong or ""),
    )


def _state(tried: Tried, *, needed: bool) -> CompilerState:
    return CompilerState(tried.compiler.cc, tried.compiler.version, tried.reason, needed)
