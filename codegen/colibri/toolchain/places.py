"""Where compilers lie that the ``PATH`` does not have, and which of them a package was built with."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
from pathlib import Path

from colibri.boards.profile import Board, CompilerFamily
from colibri.errors import ToolMissing, no_room
from colibri.package import FILE_NAME, load_package
from colibri.toolchain.compiler import Compiler, Installed, search_path, standard_compiler

# Of this machine, so it stands among what was built, and never in the package itself.
_RECORD = Path("build") / "toolchain"
_VERSIONED = re.compile(r"clang-(\d+)$")


def clang_folders() -> list[Path]:
    """Folders of clangs with a version behind their name, the newest first; there it is called just ``clang``.

    Without the one that the ``PATH`` has under that name.
    """
    found: dict[Path, int] = {}
    first = shutil.which("clang")
    own = Path(first).resolve().parent if first else None
    for place in os.environ.get("PATH", os.defpath).split(os.pathsep):
        for program in Path(place or ".").glob("clang-*"):
            if (version := _VERSIONED.fullmatch(program.name)) and (program.resolve().parent / "clang").exists():
                found.setdefault(program.resolve().parent, int(version[1]))
    return sorted(found.keys() - {own}, key=lambda folder: -found[folder])


def zig_folders() -> list[Path]:
    """The folder of the `ziglang` wheel when it is installed."""
    spec = importlib.util.find_spec("ziglang")
    return [Path(place) for place in (spec.submodule_search_locations or ()) if spec] if spec else []


def remember(package: Path, installed: Installed) -> None:
    """Note in a package's folder where the programs of its compiler are, for the commands that come later.

    Raises:
        UsageError: nothing can be written there.
    """
    path = package / _RECORD
    try:
        if installed.folder is None:
            path.unlink(missing_ok=True)
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"{installed.folder}\n", encoding="utf-8")
    except OSError as error:
        raise no_room(str(path), error) from None


def compiler_of(package_folder: Path, board: Board | None = None) -> Installed:
    """The compiler of a package, where it was when it was built, or else where such a compiler usually is.

    Args:
        board: whose own compiler it is while the folder has no `package.json`.
    """
    if board is not None and not (package_folder / FILE_NAME).is_file():
        return Installed(standard_compiler(board), _recorded(package_folder))
    package = load_package(package_folder)
    compiler = package.compiler or standard_compiler(package.board)
    return Installed(compiler, _folder(package_folder, compiler))


def disassembler(package_folder: Path) -> str:
    """A program that disassembles a package's images: of its compiler, of the board's gcc, or of LLVM.

    Raises:
        ToolMissing: there is none.
    """
    installed = compiler_of(package_folder)
    gnu = f"{load_package(package_folder).board.toolchain.prefix}objdump"
    # GNU's knows the instructions of a processor without being told its name, so it comes first.
    for program in dict.fromkeys((gnu, installed.compiler.objdump, "llvm-objdump")):
        if program and (found := installed.which(program)):
            return found
    raise ToolMissing(f"{gnu} is not installed", where=str(package_folder), hint="it comes with the board's gcc")


def path_for(package_folder: Path) -> str:
    """The ``PATH`` with which the build files of a package find its compiler."""
    if (package_folder / FILE_NAME).is_file():
        return compiler_of(package_folder).path
    return search_path(_recorded(package_folder))


def _folder(package_folder: Path, compiler: Compiler) -> Path | None:
    program = compiler.cc[0]
    if (recorded := _recorded(package_folder)) and (recorded / program).is_file():
        return recorded
    if shutil.which(program) is not None:
        return None
    usual = {CompilerFamily.CLANG: clang_folders, CompilerFamily.ZIG: zig_folders}.get(compiler.family)
    return next((folder for folder in (usual() if usual else ()) if (folder / program).is_file()), None)


def _recorded(package_folder: Path) -> Path | None:
    try:
        text = (package_folder / _RECORD).read_text(encoding="utf-8").rstrip("\n")
    except (OSError, UnicodeDecodeError):
        return None
    return Path(text) if text else None
