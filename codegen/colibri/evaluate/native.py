"""A package as a program of this machine: its own C and weights, compiled here. The bits are those of every board."""

from __future__ import annotations

import contextlib
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from colibri.boards.load import load_board
from colibri.boards.profile import Board, EmulatorKind
from colibri.emit.templates import render
from colibri.emulate.process import started
from colibri.errors import BadInput, BuildFailed, EmulatorFailed, ToolMissing, shown
from colibri.package import Package
from colibri.scratch import refuse_without_room, write_scratch
from colibri.toolchain.compiler import Installed
from colibri.toolchain.find import find_toolchain
from colibri.toolchain.probe import examine_emulator

PROGRAM = "score"

_HOSTS = ("x86-64-v3", "x86-64-v2")  # the better first
# As build.ninja of a package has them: no fused multiply-add, no errno.
_CFLAGS = ("-std=c11", "-O2", "-ffp-contract=off", "-fno-math-errno", "-ffunction-sections", "-Wl,--gc-sections")
_WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror")
_BAD_WEIGHTS = 2  # exit code
_ERROR = re.compile(r"\berror\b|undefined reference")
_FILES = (
    {"name": "model.bin", "symbol": "bin", "model": "model", "macro": "MODEL"},
    {"name": "hot.bin", "symbol": "hot_bin", "model": "hot_model", "macro": "HOT"},
)


@dataclass(frozen=True)
class Host:
    """A board that this machine is like, and the compiler for it."""

    board: Board
    installed: Installed


def find_host() -> Host:
    """The best board whose programs run here without an emulator.

    Raises:
        ToolMissing: there is none, or no compiler for it.
    """
    reasons = []
    for name in _HOSTS:
        board = load_board(name)
        native = next(emulator for emulator in board.emulators if emulator.kind is EmulatorKind.NATIVE)
        problem = examine_emulator(board, native).problem
        if not problem:
            return Host(board, find_toolchain(board))
        reasons.append(f"{name}: {problem}")
    raise ToolMissing("; ".join(reasons), where="evaluation", hint="it needs a machine like one of these boards")


def foreign_kernels(folder: Path, host: Host) -> list[str]:
    """Names of the package's kernels that this machine has no instructions for."""
    kernels = folder / "runtime/kernels"
    names = {path.name for path in kernels.iterdir() if path.is_dir()} if kernels.is_dir() else set()
    lesser = _HOSTS[_HOSTS.index(host.board.id) :]  # what they run, this machine runs
    return sorted(names - {kernel for board in lesser for kernel in load_board(board).kernels})


def compile_program(host: Host, folder: Path, package: Package, program: Path) -> None:
    """Compile and link the package's C with a main that scores, whose source is written beside ``program``.

    Raises:
        BuildFailed: the compiler or the linker failed.
    """
    prefix, upper = package.prefix, package.prefix.upper()
    files = _FILES[: len(package.weight_files())]
    blocks = [block.name for block in package.memory.blocks]
    arguments = [f"{prefix}_{name}, sizeof {prefix}_{name}" for name in blocks]
    arguments += [f"{file['symbol']}, {upper}_{file['macro']}_BYTES" for file in files]
    values: dict[str, object] = {
        "p": prefix,
        "P": upper,
        "blocks": blocks,
        "tokens": package.model.kind == "tokens",
        "source": bool(package.model.source),
        "files": files,
        "arguments": ", ".join(arguments),
    }
    main = program.with_name("score.c")
    write_scratch(main, render("app/score.c.j2", values).encode())
    places = (folder / "src", folder / "runtime/core")
    library = [path.relative_to(folder).as_posix() for place in places for path in sorted(place.glob("*.c"))]
    includes = ["-I.", "-Iruntime/include", "-Iruntime"]
    link = host.installed.compiler.link_options(host.board.kind)
    command = [*host.installed.command, *_CFLAGS, *_WARNINGS, *includes, *library, str(main)]
    done = subprocess.run(
        [*command, *link, "-o", str(program)],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        refuse_without_room(done.stdout)
        lines = [line.strip() for line in done.stdout.splitlines() if _ERROR.search(line)]
        what = " | ".join(lines[:3]) or f"{command[0]} ended with {done.returncode}"
        raise BuildFailed(what, where=f"{shown(str(folder), 300)} for {host.board.id}")


class Answers:
    """The outputs of a running program, in the order of its inputs."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path, width: int, stderr: Path) -> None:
        self._process = process
        self._folder = folder
        self._width = width
        self._stderr = stderr

    def rows(self, count: int) -> NDArray[np.float32]:
        """The next ``[count, width]``.

        Raises:
            BadInput: the weights are damaged.
            EmulatorFailed: the program ended before.
        """
        stream: IO[bytes] | None = self._process.stdout
        assert stream is not None
        raw = stream.read(count * self._width * 4)
        if len(raw) < count * self._width * 4:
            code = self._process.wait()
            said = self._stderr.read_text(encoding="utf-8", errors="replace").strip()
            if code == _BAD_WEIGHTS:
                raise BadInput(said, where=shown(str(self._folder), 300), hint="generate the package again")
            raise EmulatorFailed(shown(said) or f"it ended with {code}", where="the model as a program of this machine")
        return np.frombuffer(raw, np.float32).reshape(count, self._width)


@contextlib.contextmanager
def answering(program: Path, folder: Path, package: Package, requests: bytes, name: str) -> Iterator[Answers]:
    """The program at work on requests, as ``score.c`` reads them; it does not outlive the block.

    Args:
        folder: of the package, with the weights.
        name: of its files, beside the program.
    """
    source, stderr = program.with_name(f"{name}.in"), program.with_name(f"{name}.err")
    write_scratch(source, requests)
    weights = [str((folder / file["name"]).absolute()) for file in _FILES[: len(package.weight_files())]]
    with (
        source.open("rb") as stdin,
        stderr.open("wb") as errors,
        started([str(program), *weights], program.parent, stdin, subprocess.PIPE, errors) as process,
    ):
        yield Answers(process, folder, package.model.outputs, stderr)
