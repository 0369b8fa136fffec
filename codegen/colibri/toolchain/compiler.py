"""A compiler as a package names it: programs without folders, and how they spell the board's processor."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import msgspec

from colibri.boards.profile import Board, BoardKind, CompilerFamily, Holds
from colibri.errors import BadInput
from colibri.toolchain.zig import zig_options

# What code of RISC-V reaches in the model that zig 0.17 compiles its library in, whatever -mcmodel says.
_LOW = 1 << 31


class Compiler(msgspec.Struct, frozen=True):
    """A compiler and the tools that come with it. Programs are names to be found in ``PATH``, with first arguments.

    Attributes:
        objdump: disassembler of its own; empty for zig, which has none.
        target: options that make it the board's compiler, before ``flags``.
        flags: processor options of the board, as this compiler spells them.
        linker: options of the link alone.
        library: command that prints the path of the compiler's library, which bare metal links, and beside which are
            the others for Windows; empty when the compiler finds it.
    """

    family: CompilerFamily
    cc: tuple[str, ...]
    ar: tuple[str, ...]
    objcopy: tuple[str, ...]
    objdump: str
    target: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    linker: tuple[str, ...] = ()
    library: tuple[str, ...] = ()

    @property
    def last_flags(self) -> tuple[str, ...]:
        """Options of C that count behind the level of optimisation.

        There LLVM switches its vectorisers on, whatever was said before; gcc remembers. Zig keeps frame pointers, which
        cost each function a frame.
        """
        frames = ("-fomit-frame-pointer",) if self.family is CompilerFamily.ZIG else ()
        if self.family is CompilerFamily.GCC or "-fno-tree-vectorize" not in self.flags:
            return frames
        return (*frames, "-fno-vectorize", "-fno-slp-vectorize")

    @property
    def programs(self) -> tuple[str, ...]:
        """What must be installed to build; of the disassembler the report says when it is missing."""
        return tuple(dict.fromkeys((self.cc[0], self.ar[0], self.objcopy[0])))

    def link_options(self, kind: BoardKind) -> tuple[str, ...]:
        """What a link takes from the system: nothing on bare metal, the C library statically elsewhere."""
        if kind is BoardKind.WASM:
            return ("-nostdlib", *self.linker)
        if kind is not BoardKind.BARE:
            return ("-static", *self.linker)
        # Without its libraries zig would lack its own, too; clang warns of an option that says the same again.
        alone = {
            CompilerFamily.GCC: ("-nostdlib", "-nostartfiles"),
            CompilerFamily.CLANG: ("-nostdlib",),
            CompilerFamily.ZIG: ("-nostartfiles",),
        }
        return (*alone[self.family], *self.linker)

    @property
    def bare_libraries(self) -> tuple[str, ...]:
        """What a link for bare metal names at its end, where the compiler finds its library by name."""
        return ("-lgcc",) if self.family is CompilerFamily.GCC else ()


@dataclass(frozen=True)
class Installed:
    """A compiler on this machine.

    Attributes:
        folder: where its programs are; None when the ``PATH`` has them.
    """

    compiler: Compiler
    folder: Path | None = None

    @property
    def path(self) -> str:
        """The ``PATH`` under which its programs are found."""
        return search_path(self.folder)

    def which(self, program: str) -> str | None:
        """Where a program is; None when it is not installed."""
        return shutil.which(program, path=self.path)

    @property
    def driver(self) -> tuple[str, ...]:
        """The compiler with its folder, ready to be run on this machine."""
        return (self.which(self.compiler.cc[0]) or self.compiler.cc[0], *self.compiler.cc[1:])

    @property
    def command(self) -> tuple[str, ...]:
        """The driver with target and processor."""
        return (*self.driver, *self.compiler.target, *self.compiler.flags)

    @property
    def name(self) -> str:
        """How people call it."""
        program = self.compiler.cc[0]
        return str(self.folder / program) if self.folder else program


def search_path(folder: Path | None) -> str:
    """``PATH``, with a folder before it."""
    path = os.environ.get("PATH", os.defpath)
    return f"{folder}{os.pathsep}{path}" if folder else path


def gcc_for(board: Board, prefix: str | None = None, cc: str = "") -> Compiler:
    """The GNU tools of one prefix.

    Args:
        prefix: of the tools; None takes the board's.
        cc: name of the compiler where it is not the prefix and ``gcc``.
    """
    prefix = board.toolchain.prefix if prefix is None else prefix
    return Compiler(
        family=CompilerFamily.GCC,
        cc=(cc or f"{prefix}gcc",),
        ar=(f"{prefix}ar",),
        objcopy=(f"{prefix}objcopy",),
        objdump=f"{prefix}objdump",
        target=_sysroot(board),
        flags=board.toolchain.flags,
    )


def clang_for(board: Board, cc: str = "clang") -> Compiler:
    """Clang with lld; on bare metal and for Windows with libgcc of the board's gcc."""
    gcc = board.kind in (BoardKind.BARE, BoardKind.WINDOWS)
    return Compiler(
        family=CompilerFamily.CLANG,
        cc=(cc,),
        ar=("llvm-ar",),
        objcopy=("llvm-objcopy",),
        objdump="llvm-objdump",
        target=(f"--target={board.toolchain.clang_target}", *_sysroot(board)),
        flags=_clang_flags(board.toolchain.flags),
        # There is no other for WebAssembly.
        linker=() if board.kind is BoardKind.WASM else ("-fuse-ld=lld",),
        library=(f"{board.toolchain.prefix}gcc", *board.toolchain.flags, "-print-libgcc-file-name") if gcc else (),
    )


def zig_for(board: Board, cc: str = "zig") -> Compiler:
    """Zig, which brings its own linker, compiler library and C library.

    Raises:
        BadInput: it has no such target, or makes no image for the board that runs and can be reported on.
    """
    if board.kind is BoardKind.WINDOWS:
        what = "zig writes no symbols and no map of a Windows program, and a report needs them"
        raise BadInput(what, where="toolchain.clang_target")
    soft = board.kind is BoardKind.BARE and board.cpu.arch == "riscv64" and not board.cpu.fpu
    if soft and board.region_for(Holds.CODE).origin >= _LOW:
        what = "zig's routines for floats reach the lowest 2 GB alone, above which the board's code lies"
        raise BadInput(what, where="toolchain.flags")
    target, flags = zig_options(board.toolchain.clang_target, _clang_flags(board.toolchain.flags))
    return Compiler(
        family=CompilerFamily.ZIG,
        cc=(cc, "cc"),
        ar=(cc, "ar"),
        objcopy=(cc, "objcopy"),
        objdump="",
        # It adds checks of undefined behaviour on its own.
        target=("-target", target, "-fno-sanitize=undefined", *_sysroot(board)),
        flags=flags,
        # It hands `_start` to its linker, over what the script says.
        linker=("-Wl,-e,port_start",) if board.kind is BoardKind.BARE else (),
    )


def standard_compiler(board: Board) -> Compiler:
    """The compiler of the board's family by its usual names, whether it is installed or not."""
    family = board.toolchain.family
    if family is CompilerFamily.GCC:
        return gcc_for(board)
    return clang_for(board) if family is CompilerFamily.CLANG else zig_for(board)


def _sysroot(board: Board) -> tuple[str, ...]:
    return (f"--sysroot={board.toolchain.sysroot}",) if board.toolchain.sysroot else ()


def _clang_flags(flags: tuple[str, ...]) -> tuple[str, ...]:
    """LLVM knows no pairs of cores, and before version 18 not that a Cortex-A78AE is an A78 with lock-step."""
    first = (re.sub(r"^(-mcpu=[a-z0-9-]+)\.[a-z0-9-]+", r"\1", flag) for flag in flags)
    return tuple(re.sub(r"^(-mcpu=cortex-a78)ae\b", r"\1", flag) for flag in first)
