"""Find the compiler of a board, by compiling and linking a line with the board's own flags."""

from __future__ import annotations

import shutil
from dataclasses import dataclass

import msgspec

from colibri.boards.load import board_names, load_board
from colibri.boards.profile import Board, BoardKind, CompilerFamily
from colibri.errors import BadInput, ToolMissing
from colibri.toolchain.probe import (
    compiles_for_fpu,
    install_command,
    program_version,
    why_no_flags,
    why_not_compile,
    why_not_link,
)


class Compiler(msgspec.Struct, frozen=True):
    """A compiler and the tools that come with it, as names to be found in ``PATH``.

    Attributes:
        target: options that make it the board's compiler, before the board's flags; empty for gcc.
        version: first line of ``--version``.
    """

    family: CompilerFamily
    cc: str
    ar: str
    objcopy: str
    objdump: str
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
        return (self.cc, self.ar, self.objcopy, self.objdump, self.size)


@dataclass(frozen=True)
class Tried:
    """A compiler that was tried.

    Attributes:
        reason: why it does not serve, in a line; empty when it does.
    """

    compiler: Compiler
    reason: str


def find_toolchain(board: Board) -> Compiler:
    """Return the board's compiler: the one that ``build.ninja`` names, on every machine the same.

    Raises:
        BadInput: it rejects the flags of a board of one's own, or they and ``cpu.fpu`` do not agree.
        ToolMissing: it is not installed or does not link a line with the board's flags; the hint installs it.
    """
    tried = try_own(board)
    if tried.reason:
        refuse_flags(board, tried)
        hint = install_command(board.toolchain.apt)
        raise ToolMissing(f"{tried.compiler.cc}: {tried.reason}", where=f"board {board.id}", hint=hint)
    if wrong := fpu_mismatch(tried.compiler, board):
        raise wrong
    return tried.compiler


def refuse_flags(board: Board, tried: Tried) -> None:
    """Do nothing when a compiler that does not serve is not there, or lacks something else than the board's flags.

    Raises:
        BadInput: it rejects the flags of a board of one's own.
        ToolMissing: it is too old for the flags of a board of Colibri's.
    """
    cc = tried.compiler.cc
    if not tried.reason or _not_installed(tried.compiler):
        return
    if rejected := why_no_flags(tried.compiler.command, board):
        what = f"{cc} rejects the flags: {rejected.removeprefix(f'{cc}: ')}"
        if _is_ours(board):
            raise ToolMissing(what, where=f"board {board.id}", hint="this board needs a newer compiler")
        raise BadInput(what, where=f"board {board.id}: toolchain.flags", hint="correct them in the board file")


def fpu_mismatch(compiler: Compiler, board: Board) -> BadInput | None:
    """Compare ``cpu.fpu`` with what the compiler makes of the board's flags; None when they agree."""
    found = compiles_for_fpu(compiler.command, board)
    if found is None or found == board.cpu.fpu:
        return None
    flags = " ".join(board.toolchain.flags) or "no flags"
    if board.cpu.fpu:
        what = f"is true, but {compiler.cc} computes fp32 without an FPU under {flags}"
        hint = "add the processor's FPU to toolchain.flags, or set it to false"
    else:
        what = f"is false, but {compiler.cc} uses an FPU under {flags}"
        hint = "take the FPU out of toolchain.flags, or set it to true"
    return BadInput(what, where=f"board {board.id}: cpu.fpu", hint=hint)


def find_clang(board: Board) -> Compiler | None:
    """Return a clang that compiles for the board, or None. It need not link: it has no libgcc of its own."""
    tried = try_clang(board)
    return None if tried.reason else tried.compiler


def own_compiler(board: Board) -> Compiler:
    """The board's compiler by its names, installed or not."""
    if board.toolchain.family is CompilerFamily.CLANG:
        return _clang(board)
    prefix = board.toolchain.prefix
    return Compiler(
        family=CompilerFamily.GCC,
        cc=f"{prefix}gcc",
        ar=f"{prefix}ar",
        objcopy=f"{prefix}objcopy",
        objdump=f"{prefix}objdump",
        size=f"{prefix}size",
    )


def try_own(board: Board) -> Tried:
    """Compile and link a line with the board's compiler."""
    own = own_compiler(board)
    return _tried(own, _not_installed(own) or why_not_link(own.command, board))


def _clang(board: Board) -> Compiler:
    linker = () if board.kind is BoardKind.WASM else ("-fuse-ld=lld",)  # there is no other for WebAssembly
    return Compiler(
        family=CompilerFamily.CLANG,
        cc="clang",
        ar="llvm-ar",
        objcopy="llvm-objcopy",
        objdump="llvm-objdump",
        size="llvm-size",
        target=(f"--target={board.toolchain.clang_target}", *linker),
    )


def try_clang(board: Board) -> Tried:
    """Compile a line with clang."""
    clang = _clang(board)
    absent = "" if shutil.which(clang.cc) else "not installed"  # its binutils are not needed to compile
    return _tried(clang, absent or why_not_compile((clang.cc, clang.target[0]), board))


def _is_ours(board: Board) -> bool:
    """Whether it is a board of Colibri's; those have flags that compilers know."""
    return board.id in board_names() and load_board(board.id).toolchain == board.toolchain


def _tried(compiler: Compiler, reason: str) -> Tried:
    version = program_version(compiler.cc) if shutil.which(compiler.cc) else ""
    return Tried(msgspec.structs.replace(compiler, version=version), reason)


def _not_installed(compiler: Compiler) -> str:
    missing = [program for program in compiler.programs if shutil.which(program) is None]
    if not missing:
        return ""
    return "not installed" if missing[0] == compiler.cc else f"{missing[0]} is not installed"
