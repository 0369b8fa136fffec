"""Find a compiler for a board, by compiling and linking a line with the board's own flags."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from colibri.boards.load import board_names, load_board
from colibri.boards.profile import Board, BoardKind, CompilerFamily
from colibri.errors import BadInput, ToolMissing, UsageError
from colibri.toolchain.compiler import Installed, clang_for, gcc_for, zig_for
from colibri.toolchain.named import named_compilers
from colibri.toolchain.places import clang_folders, zig_folders
from colibri.toolchain.probe import (
    compiles_for_fpu,
    first_line_of,
    install_command,
    program_version,
    why_no_flags,
    why_not_compile,
    why_not_link,
)

CLANG_APT = ("clang", "lld", "llvm")
_ABSENT = "not installed"
_ZIG_PIP = "pip install 'colibri-firmware[zig]'"


@dataclass(frozen=True)
class Tried:
    """A compiler that was tried for a board.

    Attributes:
        installed: None when the family has no such target.
        name: as people call it.
        version: first line of what it says of its version; empty when it is not installed.
        reason: why it does not serve, in a line; empty when it does.
    """

    family: CompilerFamily
    installed: Installed | None
    name: str
    version: str
    reason: str

    @property
    def serves(self) -> bool:
        """Whether it compiles and links for the board."""
        return not self.reason


def find_toolchain(board: Board, wanted: str = "") -> Installed:
    """Return the compiler that builds for a board.

    Args:
        wanted: a family, or a compiler, folder or prefix of the user's; empty takes the board's family.

    Raises:
        BadInput: it rejects the flags of a board of one's own, or they and ``cpu.fpu`` do not agree.
        ToolMissing: none is installed, or links a line with the board's flags; the hint installs one.
        UsageError: ``wanted`` names no compiler, or an option for C that was added is one that it rejects.
    """
    tried = try_toolchain(board, wanted)
    found = tried[-1].installed
    if not tried[-1].serves or found is None:
        _refuse_cflags(board, tried[-1])
        refuse_flags(board, tried[-1])
        if found is None:
            hint = f"the board's own compiler is {board.toolchain.family}"
        elif wanted in ("", *CompilerFamily):
            hint = install_hint(board, tried[-1].family)
        else:
            hint = "`colibri doctor` tries it too"
        said = "; ".join(dict.fromkeys(f"{one.name}: {one.reason}" for one in tried))
        raise ToolMissing(said, where=f"board {board.id}", hint=hint)
    if wrong := fpu_mismatch(found, board):
        raise wrong
    return found


def try_toolchain(board: Board, wanted: str = "") -> list[Tried]:
    """Every compiler that is meant, up to the first that serves; at least one.

    Args:
        wanted: as `find_toolchain` takes it.

    Raises:
        UsageError: ``wanted`` names no compiler.
    """
    if wanted in ("", *CompilerFamily):
        return try_family(board, CompilerFamily(wanted or board.toolchain.family))
    try:
        return _until_one_serves(board, named_compilers(board, wanted), link=True)
    except BadInput as error:
        return [Tried(CompilerFamily.ZIG, None, wanted, "", error.what)]


def try_family(board: Board, family: CompilerFamily, *, link: bool = True) -> list[Tried]:
    """The compilers of a family in the order in which they are preferred, up to the first that serves; at least one.

    Args:
        link: whether it must also link. Zig builds its libraries when it first links for a processor.
    """
    if family is CompilerFamily.GCC and board.toolchain.family is CompilerFamily.CLANG:
        return [Tried(family, None, family, "", "has no such target")]
    try:
        offered = _of_family(board, family)
    except BadInput as error:
        return [Tried(family, None, family, "", error.what)]
    return _until_one_serves(board, offered, link=link)


def _of_family(board: Board, family: CompilerFamily) -> list[Installed]:
    if family is CompilerFamily.GCC:
        return [Installed(gcc_for(board))]
    compiler = clang_for(board) if family is CompilerFamily.CLANG else zig_for(board)
    folders = clang_folders() if family is CompilerFamily.CLANG else zig_folders()
    return [Installed(compiler, folder) for folder in (None, *folders)]


def _until_one_serves(board: Board, offered: Iterable[Installed], *, link: bool) -> list[Tried]:
    tried: list[Tried] = []
    for installed in offered:
        tried.append(_try(board, installed, link))
        if tried[-1].serves:
            break
    return [one for one in tried if one.reason != _ABSENT] or tried[:1]


def _try(board: Board, installed: Installed, link: bool) -> Tried:
    """Compile and link a line."""
    installed = _with_library(board, installed)
    compiler = installed.compiler
    missing = [program for program in compiler.programs if installed.which(program) is None]
    if missing:
        reason = _ABSENT if missing[0] == compiler.cc[0] else f"{missing[0]} is not installed"
    else:
        reason = why_not_link(installed, board) if link else why_not_compile(installed, board)
    there = installed.which(compiler.cc[0]) is not None
    reason = reason.removeprefix(f"{compiler.cc[0]}: ")
    version = _version(installed) if there else ""
    return Tried(compiler.family, installed, installed.name, version, reason)


def _version(installed: Installed) -> str:
    program = installed.driver[0]
    if installed.compiler.family is not CompilerFamily.ZIG:
        return program_version(program)
    return f"zig {first_line_of((program, 'version'))}"


def _with_library(board: Board, installed: Installed) -> Installed:
    """A clang that brings its own library needs no gcc."""
    compiler = installed.compiler
    if compiler.family is not CompilerFamily.CLANG or not compiler.library or not installed.which(compiler.cc[0]):
        return installed
    if board.kind is not BoardKind.BARE:
        alone = replace(installed, compiler=msgspec.structs.replace(compiler, library=()))
        return installed if why_not_link(alone, board) else alone
    asked = ("-rtlib=compiler-rt", "-print-libgcc-file-name")
    own = Path(first_line_of((*installed.command, *asked)))
    if not own.is_file():
        return installed
    target = (part for part in compiler.target if not part.startswith("--sysroot="))  # it has no say in this
    library = (*compiler.cc, *target, *compiler.flags, *asked)
    return replace(installed, compiler=msgspec.structs.replace(compiler, library=library))


def install_hint(board: Board, family: CompilerFamily) -> str:
    """The line that installs a family's compiler for a board."""
    if family is CompilerFamily.ZIG:
        return _ZIG_PIP
    if family is CompilerFamily.GCC:
        return install_command(board.toolchain.apt)
    return install_command((*CLANG_APT, *board.toolchain.apt))


def refuse_flags(board: Board, tried: Tried) -> None:
    """Do nothing when a compiler that does not serve is not there, or lacks something else than the board's flags.

    Raises:
        BadInput: it rejects the flags of a board of one's own.
        ToolMissing: it is too old for the flags of a board of Colibri's.
    """
    if tried.serves or tried.installed is None or tried.installed.which(tried.installed.compiler.cc[0]) is None:
        return
    if rejected := why_no_flags(tried.installed):
        cc = tried.installed.compiler.cc[0]
        what = f"{cc} rejects the flags: {rejected.removeprefix(f'{cc}: ')}"
        if _is_ours(board):
            raise ToolMissing(what, where=f"board {board.id}", hint="this board needs another compiler")
        raise BadInput(what, where=f"board {board.id}: toolchain.flags", hint="correct them in the board file")


def _refuse_cflags(board: Board, tried: Tried) -> None:
    """Do nothing unless a compiler would serve without options for C that were added.

    Raises:
        UsageError: it would; the message names the first that it rejects.
    """
    if tried.installed is None or tried.installed.which(tried.installed.compiler.cc[0]) is None:
        return
    alone, *each = (_with_cflags(board, cflags) for cflags in ((), *((flag,) for flag in board.toolchain.cflags)))
    if not each or why_not_link(tried.installed, alone):
        return
    for one in each:
        if reason := why_not_link(tried.installed, one):
            hint = "leave it out; `--cflag`, or `cflags` of the board file, has it"
            raise UsageError(f"does not build with it: {reason}", where=one.toolchain.cflags[0], hint=hint)


def _with_cflags(board: Board, cflags: tuple[str, ...]) -> Board:
    return msgspec.structs.replace(board, toolchain=msgspec.structs.replace(board.toolchain, cflags=cflags))


def fpu_mismatch(installed: Installed, board: Board) -> BadInput | None:
    """Compare ``cpu.fpu`` with what the compiler makes of the board's flags; None when they agree."""
    found = compiles_for_fpu(installed, board)
    if found is None or found == board.cpu.fpu:
        return None
    cc = " ".join(installed.compiler.cc)
    flags = " ".join(board.toolchain.flags) or "no flags"
    if board.cpu.fpu:
        what = f"is true, but {cc} computes fp32 without an FPU under {flags}"
        hint = "add the processor's FPU to toolchain.flags, or set it to false"
    else:
        what = f"is false, but {cc} uses an FPU under {flags}"
        hint = "take the FPU out of toolchain.flags, or set it to true"
    return BadInput(what, where=f"board {board.id}: cpu.fpu", hint=hint)


def _is_ours(board: Board) -> bool:
    """Whether it is a board of Colibri's; those have flags that compilers know."""
    return board.id in board_names() and load_board(board.id).toolchain == board.toolchain
