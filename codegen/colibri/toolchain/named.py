"""A compiler that the user names: a program, a folder with a toolchain, or the prefix of one."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import msgspec

from colibri.boards.profile import Board, CompilerFamily
from colibri.errors import UsageError, shown
from colibri.toolchain.compiler import Compiler, Installed, clang_for, gcc_for, zig_for
from colibri.toolchain.probe import ask_family

_HINT = "give gcc, clang, zig, a compiler, a folder with one, or a prefix such as /opt/vendor/bin/arm-eabi-"
_NAME = re.compile(r"[A-Za-z0-9_.+-]+")
_DRIVER = re.compile(r"(?P<prefix>(?:.*-)?)(?:gcc|cc|clang)(?P<version>-[\d.]+)?")
_MOST = 8  # compilers of a folder that are tried


def named_compilers(board: Board, wanted: str) -> list[Installed]:
    """What a user's words may mean, the likeliest first; at least one.

    Raises:
        UsageError: nothing there is a compiler; the message says why.
        BadInput: zig, which has no such target.
    """
    where = f"--toolchain {shown(wanted, 200)}"
    if os.sep not in wanted:
        names = (wanted, f"{wanted}gcc", f"{wanted}clang")
        if found := next(filter(None, map(shutil.which, names)), None):
            return [_identified(board, Path(found), where)]
    try:
        path = Path(wanted).expanduser().absolute()
        if path.is_dir():
            return _in_folder(board, path, where)
        for program in (path, path.with_name(f"{path.name}gcc"), path.with_name(f"{path.name}clang")):
            if program.exists():
                return [_identified(board, program, where)]
    except OSError as error:  # no permission, or no name that the system has
        raise UsageError(error.strerror or "cannot be read", where=where, hint=_HINT) from None
    raise UsageError("no such program, folder or prefix", where=where, hint=_HINT)


def _in_folder(board: Board, folder: Path, where: str) -> list[Installed]:
    """The compilers of a folder or of its ``bin``; the one with the board's prefix first."""
    found: list[Path] = []
    for place in (folder / "bin", folder):
        names = (
            f"{board.toolchain.prefix.rpartition(os.sep)[2]}gcc",
            "*-gcc",
            "gcc",
            "clang",
            "zig",
            "*-clang",
            "*-cc",
        )
        found += [program for name in names for program in sorted(place.glob(name)) if program.is_file()]
    identified: list[Installed] = []
    refused: list[UsageError] = []
    for program in list(dict.fromkeys(found))[:_MOST]:
        try:
            identified.append(_identified(board, program, where))
        except UsageError as error:
            refused.append(error)
    if identified:
        return identified
    raise refused[0] if refused else UsageError("no compiler in this folder or its bin", where=where, hint=_HINT)


def _identified(board: Board, program: Path, where: str) -> Installed:
    """The compiler that a program is, with its tools, by asking it; without its folder when the ``PATH`` finds it."""
    found = _asked(board, program, where)
    first, own = (shutil.which(found.compiler.cc[0]), found.which(found.compiler.cc[0]))
    return Installed(found.compiler) if first and own and Path(first).samefile(own) else found


def _asked(board: Board, program: Path, where: str) -> Installed:
    if not _NAME.fullmatch(program.name):
        hint = "it goes into build files: make a link to it with letters, digits and _.+-"
        raise UsageError(f"the name {shown(program.name)!r} of the compiler", where=where, hint=hint)
    if os.pathsep in str(program.parent) or not str(program.parent).isprintable():
        raise UsageError(
            "a folder that PATH cannot name", where=where, hint="make a link to it without such characters"
        )
    family, reason = ask_family(program)
    if family is None:
        raise UsageError(reason, where=where, hint=_HINT)
    if family is CompilerFamily.ZIG:
        return Installed(zig_for(board, program.name), program.parent)
    real = program.resolve()
    if family is CompilerFamily.CLANG:
        if (real.parent / "clang").exists():
            program = real.parent / "clang"
        return Installed(_with_own_tools(clang_for(board, program.name), program), program.parent)
    match = _DRIVER.fullmatch(program.name)
    prefix = match["prefix"] if match else program.name[: program.name.rfind("-") + 1]
    if not (program.parent / f"{prefix}ar").exists() and (real.parent / f"{prefix}ar").exists():
        program = real if _NAME.fullmatch(real.name) else program
    return Installed(gcc_for(board, prefix, program.name), program.parent)


def _with_own_tools(compiler: Compiler, program: Path) -> Compiler:
    """Clang's tools by the names that they have beside it: with its prefix, its version, or plain."""
    match = _DRIVER.fullmatch(program.name)
    prefix, version = (match["prefix"], match["version"] or "") if match else ("", "")

    def own(tool: str) -> str:
        names = (f"{prefix}{tool}{version}", f"{prefix}{tool}", f"{tool}{version}")
        return next((name for name in names if (program.parent / name).exists()), tool)

    return msgspec.structs.replace(
        compiler,
        ar=(own(compiler.ar[0]),),
        objcopy=(own(compiler.objcopy[0]),),
        objdump=own(compiler.objdump),
    )
