"""Find the compiler of a board: the first that compiles and links a line with the board's own flags."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from colibri.boards.profile import Board, BoardKind
from colibri.errors import ToolMissing
from colibri.toolchain.probe import install_command, program_version, why_not_compile, why_not_link


class Family(StrEnum):
    """Whose options a compiler takes."""

    GCC = "gcc"
    CLANG = "clang"


class Compiler(msgspec.Struct, frozen=True):
    """A compiler and the tools that come with it, as names to be found in ``PATH``.

    Attributes:
        target: options that make it the board's compiler, before the board's flags; empty for gcc.
        version: first line of ``--version``.
    """

    family: Family
    cc: str
    ar: str
    objcopy: str
    objdump: str
    nm: str
    size: str
    target: tuple[str, ...] = ()
    version: str = ""

    @property
    def command(self) -> tuple[str, ...]:
        """The compiler with its target."""
        return (self.cc, *self.target)

    @property
    def programs(self) -> tuple[str, ...]:
        """Everything that must be installed."""
        return (self.cc, self.ar, self.objcopy, self.objdump, self.nm, self.size)


@dataclass(frozen=True)
class Rejected:
    """A compiler that does not serve, and the first line of why."""

    cc: str
    reason: str


@dataclass(frozen=True)
class Search:
    """What came of looking for a compiler: the one found, and those tried before it."""

    found: Compiler | None
    rejected: tuple[Rejected, ...]


def find_toolchain(board: Board) -> Compiler:
    """Return the board's compiler.

    Raises:
        ToolMissing: none links a line with the board's flags; the hint installs the one that the board names.
    """
    search = search_toolchain(board)
    if search.found is None:
        first = search.rejected[0]
        hint = install_command(board.toolchain.apt)
        raise ToolMissing(f"no compiler: {first.cc}: {first.reason}", where=f"board {board.id}", hint=hint)
    return search.found


def search_toolchain(board: Board) -> Search:
    """Try the board's gcc; for Linux boards the host's gcc too, if it makes such programs; then clang with lld."""
    rejected = []
    for candidate in _candidates(board):
        reason = _why_not(candidate, board)
        if not reason:
            found = msgspec.structs.replace(candidate, version=program_version(candidate.cc))
            return Search(found, tuple(rejected))
        rejected.append(Rejected(candidate.cc, reason))
    return Search(None, tuple(rejected))


def find_clang(board: Board) -> str | None:
    """Return the name of a clang that compiles (need not link) for the board, or None."""
    clang = _clang(board)
    return None if why_not_compile((clang.cc, clang.target[0]), board) else clang.cc


def _why_not(candidate: Compiler, board: Board) -> str:
    missing = [program for program in candidate.programs if shutil.which(program) is None]
    if missing:
        return "not installed" if missing[0] == candidate.cc else f"{missing[0]} is not installed"
    return why_not_link(candidate.command, board)


def _candidates(board: Board) -> list[Compiler]:
    prefixes = [board.toolchain.prefix]
    if board.kind is BoardKind.LINUX:
        prefixes += [f"{board.toolchain.clang_target}-", ""]
    return [*map(_gcc, dict.fromkeys(prefixes)), _clang(board)]


def _gcc(prefix: str) -> Compiler:
    return Compiler(
        family=Family.GCC,
        cc=f"{prefix}gcc",
        ar=f"{prefix}ar",
        objcopy=f"{prefix}objcopy",
        objdump=f"{prefix}objdump",
        nm=f"{prefix}nm",
        size=f"{prefix}size",
    )


def _clang(board: Board) -> Compiler:
    return Compiler(
        family=Family.CLANG,
        cc="clang",
        ar="llvm-ar",
        objcopy="llvm-objcopy",
        objdump="llvm-objdump",
        nm="llvm-nm",
        size="llvm-size",
        target=(f"--target={board.toolchain.clang_target}", "-fuse-ld=lld"),
    )
