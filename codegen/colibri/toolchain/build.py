"""Compile and link a package with its build.ninja."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from colibri.boards.profile import Board, Holds
from colibri.claim import in_turn
from colibri.errors import BuildFailed, DoesNotFit, ToolMissing, in_bytes, lack_of_room, no_room
from colibri.package import FILE_NAME, load_package
from colibri.toolchain.buildfiles import OVERSIZE, PRODUCT, PRODUCT_BIN, PRODUCT_HEX, PRODUCT_UF2, product_targets
from colibri.toolchain.find import install_hint
from colibri.toolchain.places import compiler_of, path_for
from colibri.toolchain.raw_image import write_raw_image
from colibri.toolchain.uf2 import write_uf2

BUILD_FILE = "build.ninja"  # and the lock of builds
COMPILE_COMMANDS = "build/compile_commands.json"

_FAILED = re.compile(r"^FAILED: (?:\[code=\d+\] )?(\S+)", re.MULTILINE)
_OVERFLOW = re.compile(r"region [`'](\S+?)':? overflowed by (\d+) bytes")  # GNU ld, and lld
_TOO_LARGE = re.compile(r"will not fit in region [`'](\S+?)'")
_OVERLAP = re.compile(r"section \S+ \S+ address range overlaps with")  # lld's words
_ERROR = re.compile(r"\b[Ee]rror\b|undefined reference|cannot find|not found|No such file|multiple definition")
_HINT = "make room there, or work on a copy of the package"
_END_SECONDS = 5  # for ninja, to end its compilers
_LINES = 3  # of a compiler's errors in a message; the first explains, the rest mostly follows from it


def ninja_program() -> str:
    """The ninja of the `ninja` package, else of the PATH.

    Raises:
        ToolMissing: neither is there.
    """
    try:
        import ninja
    except ImportError:
        found = shutil.which("ninja")
        if found is None:
            hint = "pip install ninja, or sudo apt-get install ninja-build"
            raise ToolMissing("ninja is not installed", where="build", hint=hint) from None
        return found
    return str(Path(ninja.BIN_DIR) / "ninja")


def build(folder: Path, targets: Sequence[str] = ()) -> bool:
    """Run ninja in the package.

    Args:
        targets: files to make, as `product_targets` and `image_name` give them; none means all.

    Returns:
        whether the product fits. When the linker says that a region overflows, everything else is built, the product
        is linked once more without that check as `build/oversize.elf`, to be measured, and False is returned.

    Raises:
        BuildFailed: the compiler or the linker failed for another reason; the message holds its first errors.
        DoesNotFit: the product fits but another image, which ran alongside, does not; or it would reach into another
            region, and the compiler is zig, which has no way to link such an image.
        ToolMissing: no ninja, or not the compiler that the package is for.
        UsageError: nothing can be written there, or the disk is full.
    """
    with in_turn(folder / BUILD_FILE):
        return _build(folder, targets)


def _build(folder: Path, targets: Sequence[str]) -> bool:
    _unlink(folder / OVERSIZE)
    done = _run(folder, ["-k", "0", *targets])
    if done.returncode == 0:
        return True
    _refuse_without_room(folder, done.stdout)
    failures = _failures(done.stdout)
    broken = [text for text in failures.values() if not (_OVERFLOW.search(text) or _TOO_LARGE.search(text))]
    if broken or not failures:
        _refuse_without_compiler(folder)
        hint = f"run ninja there to see all of it{_added_options(folder)}"
        raise BuildFailed(_errors("\n".join(broken) or done.stdout), where=str(folder), hint=hint)
    if PRODUCT not in failures:
        image, text = next(iter(failures.items()))
        raise DoesNotFit(
            _too_large(text), where=f"{folder}: {image}", hint="the product itself may fit: see `colibri report`"
        )
    _unlink(folder / PRODUCT)  # of an earlier build that did fit
    oversize = _run(folder, [OVERSIZE])
    if oversize.returncode != 0:
        _refuse_without_room(folder, oversize.stdout)
        if _OVERLAP.search(oversize.stdout):
            hint = "no report says what takes them: beyond its region begins another that is in use"
            raise DoesNotFit(_too_large(failures[PRODUCT]), where=str(folder), hint=hint)
        raise BuildFailed(_errors(oversize.stdout), where=str(folder), hint=f"run `ninja {OVERSIZE}` there")
    return False


def build_product(folder: Path, board: Board) -> bool:
    """Make the product in every form that the board takes.

    Returns:
        whether it fits, as `build` says.

    Raises:
        BuildFailed: see `build`.
        ToolMissing: no ninja.
        UsageError: nothing can be written there, or the disk is full.
    """
    _unlink(folder / PRODUCT_UF2)
    family = compiler_of(folder, board).compiler.family
    targets = product_targets(board, family)
    fits = build(folder, targets)
    try:
        if fits and board.flash.uf2:
            write_uf2(folder / PRODUCT, folder / PRODUCT_UF2, board.flash.uf2)
        if fits and PRODUCT_HEX in targets and PRODUCT_BIN not in targets:
            write_raw_image(folder / PRODUCT, folder / PRODUCT_BIN, board.region_for(Holds.CODE))
        _write_compile_commands(folder)
    except OSError as error:
        raise no_room(str(folder), error, _HINT) from None
    return fits


def _write_compile_commands(folder: Path) -> None:
    """Write what clangd and editors look for in `build/`: how each C file is compiled here, in this folder."""
    listed = _run(folder, ["-t", "compdb"]).stdout
    commands = [one for one in json.loads(listed[listed.index("[") :]) if one["file"].endswith(".c")]
    beside = folder / "build/.compile_commands.json"
    beside.write_text(json.dumps(commands, indent=1) + "\n", encoding="utf-8")
    beside.replace(folder / COMPILE_COMMANDS)


def _refuse_without_room(folder: Path, output: str) -> None:
    """A full disk or a protected folder is not the compiler's fault.

    Of a full disk compiler, linker and ninja all speak in the system's words.
    """
    error = lack_of_room(output)
    if error is None and not all(os.access(place, os.W_OK) for place in (folder, folder / "build") if place.is_dir()):
        error = PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    if error is not None:
        raise no_room(str(folder), error, _HINT)


def _refuse_without_compiler(folder: Path) -> None:
    """A package that was made elsewhere, or before a compiler was removed."""
    if not (folder / FILE_NAME).is_file():
        return
    installed, board = compiler_of(folder), load_package(folder).board
    if installed.which(installed.compiler.cc[0]) is None:
        what = f"{installed.compiler.cc[0]}: not installed"
        raise ToolMissing(what, where=f"board {board.id}", hint=install_hint(board, installed.compiler.family))


def _added_options(folder: Path) -> str:
    """What the user added for the compiler may be to blame; empty without such options."""
    cflags = load_package(folder).board.toolchain.cflags if (folder / FILE_NAME).is_file() else ()
    return f"; Colibri's own options are followed by {' '.join(cflags)}" if cflags else ""


def _unlink(path: Path) -> None:
    if not os.path.lexists(path):  # where nothing can be written, nothing has to
        return
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise no_room(str(path), error, _HINT) from None


def _run(folder: Path, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    command = [ninja_program(), "-C", str(folder), *arguments]
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        # ccache 4.7 does not bring back the .ci files, and without them the stack has no bound.
        env={**os.environ, "PATH": path_for(folder), "CCACHE_DISABLE": "1"},
    ) as ninja:
        try:
            output, _ = ninja.communicate()
        except BaseException:
            ninja.terminate()  # unlike a kill, it ends the compilers and removes what is half written
            with suppress(subprocess.TimeoutExpired):
                ninja.wait(_END_SECONDS)
            ninja.kill()
            raise
    return subprocess.CompletedProcess(command, ninja.returncode, output)


def _failures(output: str) -> dict[str, str]:
    """What failed, and what was printed about it up to the next failure."""
    found = list(_FAILED.finditer(output))
    ends = [*(match.start() for match in found[1:]), len(output)][: len(found)]
    return {match[1]: output[match.end() : end] for match, end in zip(found, ends, strict=True)}


def _too_large(text: str) -> str:
    over = dict(_OVERFLOW.findall(text))
    regions = ", ".join(f"{region} by {in_bytes(int(count))}" for region, count in over.items())
    return f"does not fit: {regions or 'region ' + ', '.join(dict.fromkeys(_TOO_LARGE.findall(text)))}"


def _errors(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if _ERROR.search(line)]
    return " | ".join(lines[:_LINES] or output.strip().splitlines()[-1:] or ["ninja printed nothing"])
