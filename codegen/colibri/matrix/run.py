"""Make the cells with ninja: side by side, and again only where something changed."""

from __future__ import annotations

import fnmatch
import hashlib
import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

import colibri
from colibri.boards.load import board_names, load_board, no_board
from colibri.boards.profile import Board
from colibri.checkpoint.untrusted import is_there
from colibri.claim import claimed
from colibri.errors import BadInput, BuildFailed, UsageError, no_room, shown
from colibri.matrix.cell import CELL, PACKAGE, RESULT
from colibri.matrix.model import SCHEMA, Cell, Matrix, Result, nothing
from colibri.options import Options
from colibri.paths import generator_digest
from colibri.recipe import parse_recipe, recipe_text
from colibri.toolchain.build import ninja_program
from colibri.toolchain.compiler import standard_compiler
from colibri.toolchain.places import clang_folders, zig_folders
from colibri.toolchain.probe import program_version

_NINJA = "matrix.ninja"
_MOST_CELLS = 100_000
_DONE = re.compile(r"\[(\d+)/(\d+)\] (\S+)$")

OnResult = Callable[[int, int, Result], None]


def plan(
    checkpoints: Sequence[Path], boards: Sequence[str], recipes: Sequence[str], toolchains: Sequence[str] = ("",)
) -> list[Cell]:
    """Every checkpoint with every recipe on every board by every toolchain, in this order.

    Args:
        toolchains: as `Cell.toolchain`.
        boards: names, patterns of names (``stm32*``), ``all``, or paths that end with ``.toml``.

    Raises:
        BadInput: no such checkpoint, board or recipe file, or a board file that is wrong.
        UsageError: a recipe that is none, or more cells than anybody can mean.
    """
    for checkpoint in checkpoints:
        if not is_there(checkpoint):
            raise BadInput("no such checkpoint", where=shown(str(checkpoint), 300))
        if not str(checkpoint).isprintable():  # it goes into a file of ninja
            raise UsageError("a path with characters that do not print", where=shown(str(checkpoint), 300))
    chosen = list(dict.fromkeys(name for text in boards for name in _boards(text)))
    short = _recipes(recipes)
    folders = list(dict.fromkeys(str(path.resolve()) for path in checkpoints))
    tools = list(dict.fromkeys(str(Path(tool).absolute()) if "/" in tool else tool for tool in toolchains))
    names = Counter(Path(folder).name for folder in folders)
    labels = Counter(Path(board).name.removesuffix(".toml") for board in chosen)
    every = itertools.product(folders, short, chosen, tools)
    cells = [
        Cell(
            folder,
            board,
            recipe,
            tool,
            recipe_file=file,
            namesake=names[Path(folder).name] > 1,
            board_namesake=labels[Path(board).name.removesuffix(".toml")] > 1,
        )
        for folder, (recipe, file), board, tool in every
    ]
    if len(cells) > _MOST_CELLS:
        raise UsageError(f"{len(cells):,} cells, at most {_MOST_CELLS:,}", where="matrix")
    return cells


def run_matrix(
    cells: Sequence[Cell], out: Path, *, jobs: int = 0, timeout: float = 300.0, on_result: OnResult = lambda *_: None
) -> Matrix:
    """Make what is not made yet, below ``out``: for each cell a folder with its package and result.

    A cell that went wrong is tried again by the next run, one that does not fit is not.

    Args:
        jobs: cells at a time; 0 means as many as there are processors.
        timeout: seconds for each emulator.
        on_result: called with how many are done, of how many to do, and the result, as they come.

    Raises:
        BuildFailed: ninja itself failed.
        UsageError: another matrix is being made there, or nothing can be written.
        ToolMissing: no ninja.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        for cell in cells:
            _write(out / cell.name / CELL, msgspec.json.encode(cell))
        with claimed(out):
            _write(out / _NINJA, _ninja_text(cells, timeout).encode())
            for cell in cells:
                if _decoded(out / cell.name) is None:  # damaged: made again
                    (out / cell.name / RESULT).unlink(missing_ok=True)
            _make(out, jobs, on_result)
            results = tuple(_read(out / cell.name, cell) for cell in cells)
    except OSError as error:
        raise no_room(shown(str(out), 300), error, "choose another folder with -o") from None
    return Matrix(SCHEMA, results)


def _recipes(texts: Sequence[str]) -> list[tuple[str, str]]:
    """Short form and file of each, the latter empty for a word. Different ones have different short forms."""
    found = dict.fromkeys(
        (recipe_text(_from_here(parse_recipe(text))), str(Path(text).resolve()) if text.endswith(".json") else "")
        for text in texts
    )
    counts = Counter(short for short, _ in found)
    return [(f"{short} ({file})" if file and counts[short] > 1 else short, file) for short, file in found]


def _from_here(options: Options) -> Options:
    """A cell is made in another folder, where a relative path of calibration data means nothing."""
    asked = options.calibration
    if asked is None or asked.file is None:
        return options
    whole = asked.file.resolve()
    if ":" in str(whole):
        what = "calibration data with a colon in its path has no place in a word"
        raise UsageError(what, where=shown(str(whole), 300), hint="put it elsewhere")
    return replace(options, calibration=replace(asked, file=whole))


def _boards(text: str) -> list[str]:
    """What one ``--board`` means, each as `load_board` takes it from any folder."""
    if text.endswith(".toml"):
        load_board(text)
        return [str(Path(text).resolve())]
    names = board_names()
    if text == "all":
        return names
    found = fnmatch.filter(names, text)
    if not found:
        raise no_board(text)
    return found


def _make(out: Path, jobs: int, on_result: OnResult) -> None:
    """Run ninja to its end, whatever becomes of the cells."""
    count = jobs or os.cpu_count() or 1
    command = [ninja_program(), "-C", str(out), "-f", _NINJA, "-k", "0", "-j", str(count)]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=_environment(),
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if done := _DONE.match(line.rstrip()):
                on_result(int(done[1]), int(done[2]), _read(out / done[3], None))
            elif line.startswith("ninja: error: "):
                raise BuildFailed(line.strip(), where=shown(str(out / _NINJA), 300))
        process.wait()
    finally:
        if process.poll() is None:
            process.terminate()  # it ends the cells, and they their emulators
            process.wait()


def _environment() -> dict[str, str]:
    """That of the user, with this Colibri first."""
    above = str(Path(colibri.__file__).resolve().parents[1])
    path = os.pathsep.join([above, *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, "NINJA_STATUS": "[%f/%t] "}


def _ninja_text(cells: Sequence[Cell], timeout: float) -> str:
    """A rule, and a line for each cell. Its key makes ninja see a change of what is no file of the checkpoint."""
    python = f"{shlex.quote(sys.executable)} -P -m colibri.matrix.cell"
    lines = [
        "builddir = .ninja",
        "rule cell",
        # No result of an earlier run may be taken for that of one which dies.
        f"  command = rm -f $folder/{RESULT} && {python.replace('$', '$$')} $folder {timeout:g} $key",
        "  description = $folder",
    ]
    generator, versions = generator_digest(), dict[str, str]()
    boards = {cell.board: load_board(cell.board) for cell in cells}
    inputs = {cell.checkpoint: _inputs(Path(cell.checkpoint)) for cell in cells}
    for cell in cells:
        key = _key(cell, boards[cell.board], generator, versions)
        lines += [
            f"build {cell.name}/{RESULT}: cell | {' '.join([inputs[cell.checkpoint], *_recipe_inputs(cell)])}",
            f"  folder = {cell.name}",
            f"  key = {key}",
        ]
    return "\n".join(lines) + "\n"


def _inputs(checkpoint: Path) -> str:
    files = sorted(path for path in checkpoint.iterdir() if path.is_file()) if checkpoint.is_dir() else [checkpoint]
    return " ".join(map(_escaped, files))


def _recipe_inputs(cell: Cell) -> list[str]:
    """The recipe's file, and its calibration data."""
    options = parse_recipe(cell.recipe_file or cell.recipe)
    data = options.calibration.file if options.calibration else None
    files = [Path(cell.recipe_file) if cell.recipe_file else None, data]
    return [_escaped(path) for path in files if path is not None and path.is_file()]


def _escaped(path: Path) -> str:
    """For a file of ninja; nothing where that has no way to say it."""
    return re.sub(r"([$ :])", r"$\1", str(path)) if str(path).isprintable() else ""


def _key(cell: Cell, board: Board, generator: str, versions: dict[str, str]) -> str:
    """Changes with the cell, the whole board, this Colibri, and the compilers and emulators that are here."""
    programs = [standard_compiler(board).cc[0], *(emulator.program for emulator in board.emulators), cell.toolchain]
    for program in filter(None, programs):
        if program not in versions:
            versions[program] = program_version(program) if shutil.which(program) else ""
    said = [versions[program] for program in programs if program]
    folders = [str(folder) for folder in (*clang_folders(), *zig_folders())] if cell.toolchain else []
    return hashlib.sha256(msgspec.json.encode([cell, board, generator, said, folders])).hexdigest()[:16]


def _read(folder: Path, cell: Cell | None) -> Result:
    """The result in a cell's folder; one that says so where a cell ended without any."""
    found = _decoded(folder)
    if found is None:
        if cell is None:
            cell = msgspec.json.decode((folder / CELL).read_bytes(), type=Cell)
        return nothing(cell, f"{folder.name}/{PACKAGE}", 70, "the cell ended without a result")
    return found


def _decoded(folder: Path) -> Result | None:
    try:
        return msgspec.json.decode((folder / RESULT).read_bytes(), type=Result)
    except (OSError, msgspec.DecodeError):
        return None


def _write(path: Path, raw: bytes) -> None:
    """Beside and renamed; untouched when it is the same."""
    if path.is_file() and path.read_bytes() == raw:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.new")
    beside.write_bytes(raw)
    beside.replace(path)
