"""Write a package: the folder that a firmware engineer builds and includes."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from colibri.boards.check_levels import question_header
from colibri.boards.profile import Board, BoardKind
from colibri.calibrate.data import FILE_NAME as CALIBRATION
from colibri.claim import put_in_place
from colibri.emit.c_layout import lay_out
from colibri.emit.c_text import level_values, model_c_values
from colibri.emit.linker import linker_scripts, port_files
from colibri.emit.module import Module
from colibri.emit.package_text import FILE_NAMES, Contents, package_values
from colibri.emit.templates import render
from colibri.emit.weights_file import write_model_bin
from colibri.errors import BadInput, UsageError, no_room
from colibri.package import FILE_NAME, load_package
from colibri.paths import data_folder
from colibri.progress import Progress, unseen
from colibri.toolchain.buildfiles import Sources, mains, write_build_files


def write_package(folder: Path, contents: Contents, progress: Progress = unseen) -> None:
    """Write the package beside ``folder``, then rename it there; an older package is replaced.

    Raises:
        BadInput: ``folder`` exists and is not a package, or holds files of somebody else; or a weight cannot be used.
        UsageError: no folder can be made there, or another command works in it.
    """
    folder = replaceable_output(folder)
    try:
        fresh = [parent for parent in folder.parents if not parent.exists()]
        folder.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(prefix=".colibri-", dir=folder.parent))
    except OSError as error:
        raise _cannot_be_made(folder, error) from None
    try:
        beside.chmod(0o755)
        _fill(beside, contents, progress)
        put_in_place(beside, folder)
    except OSError as error:
        raise no_room(str(folder), error, "make room, or choose another folder with -o") from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)
        if not folder.exists():
            for parent in fresh:
                with suppress(OSError):  # somebody else has begun to use it
                    parent.rmdir()


def replaceable_output(folder: Path) -> Path:
    """The folder as `resolved_output` has it, where `write_package` may put a package: to be asked before long work.

    Raises:
        BadInput: it exists and is not a package, or holds files of somebody else.
        UsageError: no folder can be made there.
    """
    folder = resolved_output(folder)
    try:
        _refuse_what_is_not_ours(folder)
    except OSError as error:
        raise _cannot_be_made(folder, error) from None
    return folder


def resolved_output(folder: Path) -> Path:
    """The folder without links and dots.

    Raises:
        UsageError: the system has no such names, or its links go in a circle or to nothing.
    """
    try:
        real = folder.resolve()
        broken = next((one for one in (folder, *folder.parents) if one.is_symlink() and not one.exists()), None)
    except (OSError, RuntimeError) as error:
        raise _cannot_be_made(folder, error) from None
    if broken is not None:
        hint = "make the folder that it is to point to, or choose another with -o"
        raise UsageError("is a link to nothing", where=str(broken), hint=hint)
    return real


def _cannot_be_made(folder: Path, error: OSError | RuntimeError) -> UsageError:
    reason = error.strerror if isinstance(error, OSError) else "its links go in a circle"
    return UsageError(f"cannot be made: {reason}", where=str(folder), hint="choose another with -o")


_OURS = frozenset(
    [
        "README.md",
        "package.json",
        "recipe.json",
        CALIBRATION,
        "model.h",
        "model.bin",
        "hot.bin",
        "tokenizer.json",
        "build.ninja",
        "CMakeLists.txt",
        "toolchain.cmake",
        "src",
        "runtime",
        "port",
        "app",
        "test",
        "build",
        "report.html",
        ".ninja_log",
        ".ninja_deps",
        ".ninja_lock",
    ]
)


def _refuse_what_is_not_ours(folder: Path) -> None:
    """What is replaced is gone: so only an empty folder, or a package in which nothing of somebody else stands."""
    if not folder.exists():
        return
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else [folder.name]
    if not names:
        return
    hint = "choose another with -o"
    if not folder.is_dir() or FILE_NAME not in names:
        raise BadInput("exists and is not a Colibri package", where=str(folder), hint=hint)
    load_package(folder)
    if foreign := [name for name in names if name not in _OURS]:
        what = f"holds {foreign[0]!r}, which Colibri did not write"
        raise BadInput(what, where=str(folder), hint=f"move it out, or {hint}")
    for place, _, _ in os.walk(folder):
        if not os.access(place, os.W_OK | os.X_OK):  # it could be moved away, but not be deleted
            raise UsageError(f"the package in it is write-protected: {place}", where=str(folder), hint=hint)


def _fill(folder: Path, contents: Contents, progress: Progress) -> None:
    package, board = contents.package, contents.package.board
    for name, file in zip(FILE_NAMES, contents.files, strict=False):
        write_model_bin(folder / name, file, contents.graph, contents.layouts, progress(name, file.length))
    (folder / "recipe.json").write_bytes(contents.recipe)
    if contents.graph.calibration:
        (folder / CALIBRATION).write_bytes(contents.graph.calibration)
    if contents.tokenizer is not None:
        (folder / "tokenizer.json").write_bytes(contents.tokenizer)
    (folder / "test").mkdir()
    (folder / "test" / "vectors.msgpack").write_bytes(contents.vectors)
    _copy(data_folder("runtime_c") / "LICENSE", folder / "runtime" / "LICENSE")
    threads = package.threads != 1
    library = _copy_runtime(folder, board, [contents.module, *contents.levels.values()], threads)
    port = _copy_port(folder, board, threads)
    values = package_values(contents)
    _write(folder / "model.h", render("package/model.h.j2", values))
    sources = _write_model(folder, contents, values)
    _write(folder / "src/model_bin.S", render("package/model_bin.S.j2", values))
    for main in mains(board).values():
        _write(folder / main, render(f"{main}.j2", values))
    if board.kind is BoardKind.BARE:
        _write(folder / "app/cycles.h", render("app/cycles.h.j2", values))
    _write(folder / "README.md", render("package/README.md.j2", values))
    for name, text in linker_scripts(package).items():
        _write(folder / name, text)
    write_build_files(
        folder,
        board,
        package.prefix,
        Sources((*sources, "src/model_bin.S", *library), port, FILE_NAMES[: len(contents.files)], threads),
        package.compiler,
        package.optimise,
    )
    package.save(folder)


def _write_model(folder: Path, contents: Contents, values: dict[str, object]) -> list[str]:
    """The model's own C, whose names are returned; with several sets of instructions layers have a file for each."""
    package, graph = contents.package, contents.graph
    levels = package.board.levels
    if not levels:
        own = model_c_values(contents.module, graph, package.prefix)
        _write(folder / "src/model.c", render("package/model.c.j2", {**values, **own}))
        return ["src/model.c"]
    own = level_values(contents.module, graph, package.prefix)
    shared = {**values, "suffixes": ["base", *(level.name for level in levels)]}
    _write(folder / "src/model.c", render("package/model.c.j2", {**shared, **own}))
    _write(folder / "src/layers.h", render("package/layers/layers.h.j2", {**shared, **own}))
    sources = ["src/model.c"]
    modules = [(None, contents.module), *((level, contents.levels[level.name]) for level in levels)]
    for level, module in modules:
        sources.append(f"src/layers_{level.name if level else 'base'}.c")
        own = level_values(module, graph, package.prefix)
        _write(folder / sources[-1], render("package/layers/layers.c.j2", {**shared, **own, "level": level}))
    return sources


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    tidy = lay_out(text) if path.suffix in (".c", ".h") else text
    path.write_text(tidy, encoding="utf-8", newline="\n")


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(source.read_bytes())


def _copy_runtime(folder: Path, board: Board, modules: Sequence[Module], threads: bool) -> tuple[str, ...]:
    """Copy the runtime and the kernels that are used; return the C sources."""
    runtime = data_folder("runtime_c")
    core = sorted((runtime / "core").glob("*.[ch]"))
    include = [runtime / "include/colibri.h"]
    if threads:
        include.append(runtime / "include/colibri_team.h")
    else:
        core.remove(runtime / "core/share.h")
    kernels = {runtime / header for module in modules for header in module.headers}
    if board.levels:
        kernels |= {question_header(board.cpu.arch), runtime / "kernels/portable/float32.h"}
    while True:  # kernels include kernels
        named = {runtime / name for path in kernels for name in _included_kernels(path)}
        if named <= kernels:
            break
        kernels |= named
    for path in [*include, *core, *sorted(kernels)]:
        _copy(path, folder / "runtime" / path.relative_to(runtime))
    return tuple(f"runtime/core/{path.name}" for path in core if path.suffix == ".c")


def _included_kernels(path: Path) -> list[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line.split('"')[1] for line in lines if line.startswith('#include "kernels/')]


def _copy_port(folder: Path, board: Board, threads: bool) -> tuple[str, ...]:
    ports = data_folder("runtime_c") / "ports"
    names = port_files(board, threads=threads)
    for name in names:
        _copy(ports / name, folder / "port" / name)
    return tuple(f"port/{name.as_posix()}" for name in names if name.suffix == ".c")
