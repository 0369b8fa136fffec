"""Which boards can be built for and run on this machine, and what to install for the others."""

from __future__ import annotations

import os
from collections.abc import Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import msgspec

from colibri.boards.profile import Board, CompilerFamily, EmulatorKind
from colibri.errors import BadInput, ToolMissing
from colibri.toolchain.compiler import Installed
from colibri.toolchain.find import Tried, fpu_mismatch, try_family, try_toolchain
from colibri.toolchain.probe import examine_emulator, install_command

_QUICK = (CompilerFamily.GCC, CompilerFamily.CLANG)  # to link


class CompilerState(msgspec.Struct, frozen=True):
    """A compiler that was tried.

    Attributes:
        family: ``gcc``, ``clang`` or ``zig``.
        program: the executable, with its folder where the ``PATH`` does not have it.
        version: version line; empty when not installed.
        problem: why it does not serve; empty when it does.
        needed: whether the board is incomplete without its family. The others are a second opinion.
        linked: whether it was also asked to link. Zig builds its libraries when it first links for a processor.
    """

    family: CompilerFamily
    program: str
    version: str
    problem: str
    needed: bool
    linked: bool


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
        compilers: the board's family first; of each family those that were tried, up to the first that serves.
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
        compilers = () if self.buildable else tuple(state.program for state in self.compilers if state.needed)
        return compilers + tuple(state.name for state in self.emulators if state.needed and state.problem)

    @property
    def buildable(self) -> bool:
        """Whether a compiler of the board's family, or the one that was asked for, serves."""
        return any(state.needed and not state.problem for state in self.compilers)

    def serving(self, family: CompilerFamily) -> CompilerState | None:
        """The compiler of a family that serves."""
        return next((one for one in self.compilers if one.family is family and not one.problem), None)


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


def diagnose(boards: Sequence[Board], wanted: str = "", *, thorough: bool = False) -> Diagnosis:
    """Look for every compiler and emulator of the boards. Takes less than a second a board.

    Args:
        wanted: only this compiler, as `find_toolchain` takes it.
        thorough: let zig link too, which the first time takes up to minutes for each processor.

    Raises:
        UsageError: ``wanted`` names no compiler.
    """
    alike = {_decides(board): board for board in boards}
    with ThreadPoolExecutor(os.cpu_count()) as workers:
        found = workers.map(lambda board: _try_compilers(board, wanted, thorough=thorough), alike.values())
        compilers = dict(zip(alike, found, strict=True))
        ready = tuple(workers.map(lambda board: _examined(board, compilers[_decides(board)]), boards))
    packages = dict.fromkeys(package for board in ready for package in board.apt)
    return Diagnosis(ready, install_command(tuple(packages)))


def _decides(board: Board) -> Hashable:
    """What of a board decides which compilers serve: many differ in their memory alone."""
    return (board.kind, board.cpu.arch, board.toolchain)


@dataclass(frozen=True)
class _Compilers:
    """Those that were tried for a board, and the one that serves when a package is built."""

    states: tuple[CompilerState, ...]
    serving: Installed | None


def _try_compilers(board: Board, wanted: str, *, thorough: bool) -> _Compilers:
    own = board.toolchain.family
    if wanted:
        tried = try_toolchain(board, wanted)
        states = [_state(one, needed=True, linked=True) for one in tried]
        return _Compilers(tuple(states), tried[-1].installed if tried[-1].serves else None)
    states, serving = [], None
    for family in (own, *(other for other in CompilerFamily if other is not own)):
        link = thorough or family in (own, *_QUICK)
        tried = try_family(board, family, link=link)
        states += [_state(one, needed=family is own, linked=link) for one in tried]
        serving = tried[-1].installed if family is own and tried[-1].serves else serving
    return _Compilers(tuple(states), serving)


def _examined(board: Board, compilers: _Compilers) -> Readiness:
    serving = compilers.serving
    wrong = fpu_mismatch(serving, board) if serving else None
    emulators: list[EmulatorState] = []
    packages = [*board.toolchain.apt] if serving is None else []
    for emulator in board.emulators:
        result = examine_emulator(board, emulator, serving)
        needed = emulator.kind is not EmulatorKind.NATIVE
        emulators.append(EmulatorState(emulator.name, emulator.program, result.version, result.problem, needed))
        packages += emulator.apt if result.problem else ()
    return Readiness(
        board=board.id,
        compilers=compilers.states,
        emulators=tuple(emulators),
        apt=tuple(dict.fromkeys(packages)),
        wrong=str(wrong or ""),
    )


def _state(tried: Tried, *, needed: bool, linked: bool) -> CompilerState:
    return CompilerState(tried.family, tried.name, tried.version, tried.reason, needed, linked)
