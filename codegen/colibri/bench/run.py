"""Build the bench program of a package and run it on this machine, where its times mean something."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from colibri.bench.model import SCHEMA, Bench
from colibri.boards.profile import Board, BoardKind, EmulatorKind
from colibri.checkpoint.untrusted import is_there
from colibri.emulate.process import started
from colibri.errors import BadInput, EmulatorFailed, UsageError, shown
from colibri.package import Package
from colibri.scratch import scratch_folder
from colibri.toolchain.build import build
from colibri.toolchain.buildfiles import bench_name, mains
from colibri.toolchain.probe import examine_emulator

_USAGE = 2  # exit code of the program


class _Head(msgspec.Struct, frozen=True):
    schema: int


@dataclass(frozen=True)
class Asked:
    """What to measure; what is None the program decides.

    Attributes:
        seconds: to measure, warming up aside.
        runs: at most, prompts with the tokens behind them or calls of forward.
        prompt: tokens of the prompt, or of an encoder's source.
        tokens: to decode behind it.
        threads: that share the work of a call.
        spin: also a loop without memory between the calls.
    """

    seconds: int | None = None
    runs: int | None = None
    prompt: int | None = None
    tokens: int | None = None
    threads: int | None = None
    spin: bool = False

    def arguments(self) -> list[str]:
        """The program's options."""
        counts = {"--seconds": self.seconds, "--runs": self.runs, "--prompt": self.prompt, "--tokens": self.tokens}
        counts["--threads"] = self.threads
        given = [word for name, value in counts.items() if value is not None for word in (name, str(value))]
        return [*given, *(["--spin"] if self.spin else []), "--json"]


def refuse_without_clock(board: Board) -> None:
    """Only a processor of the board's own kind has its speed; an emulator's is nobody's.

    Raises:
        UsageError: this machine cannot run the board's programs by itself.
    """
    if board.kind is BoardKind.BARE:
        what = "its emulator counts instructions, and they are not speed"
        hint = "`colibri profile` counts them; on the board, app/cycles.h of the package measures cycles"
        raise UsageError(what, where=board.id, hint=hint)
    if "bench" not in mains(board):
        what = f"a {board.kind} package has no bench program"
        hint = "its speed is that of the engine or system it runs in: time the calls in your application there"
        raise UsageError(what, where=board.id, hint=hint)
    native = next((one for one in board.emulators if one.kind is EmulatorKind.NATIVE), None)
    problem = examine_emulator(board, native).problem if native else f"this machine is no {board.cpu.core}"
    if problem:
        what = f"{problem}, and an emulator's speed says nothing of the board's"
        hint = f"`ninja {bench_name(board)}` in the package, copy that file to the board, and run it there"
        raise UsageError(what, where=board.id, hint=hint)


def refuse(folder: Path, package: Package, asked: Asked) -> None:
    """What can be known before anything is built.

    Raises:
        UsageError: see `refuse_without_clock`; or what is asked of a model that has it not.
        BadInput: a package of a Colibri that wrote no such program.
    """
    refuse_without_clock(package.board)
    if package.model.kind == "samples" and (asked.prompt or asked.tokens):
        name = "--prompt" if asked.prompt else "--tokens"
        raise UsageError("is for models of tokens", where=name, hint=f"{package.name} takes samples")
    if package.threads == 1 and (asked.threads or 1) > 1:
        hint = "generate it with --threads N"
        raise UsageError(f"{package.name} was generated for one thread", where="--threads", hint=hint)
    if not is_there(folder / mains(package.board)["bench"]):
        raise BadInput("has no bench program", where=shown(str(folder), 300), hint="generate the package again")


def run_bench(folder: Path, package: Package, asked: Asked) -> Bench:
    """Build and run the program.

    Raises:
        UsageError: see `refuse`; or numbers that the model has no room for.
        BadInput: see `refuse`; or a program of another Colibri.
        BuildFailed: it does not build.
        EmulatorFailed: a call failed.
    """
    refuse(folder, package, asked)
    if package.threads == 1:
        asked = replace(asked, threads=None)  # its program has no such option
    image = bench_name(package.board)
    build(folder, [image])
    with scratch_folder("bench") as scratch:
        stderr = scratch / "stderr"
        command = [str((folder / image).resolve()), *asked.arguments()]
        with (
            stderr.open("wb") as errors,
            Path("/dev/null").open("rb") as nothing,
            started(command, scratch, nothing, subprocess.PIPE, errors) as process,
        ):
            output, _ = process.communicate()
        said = shown(stderr.read_text(encoding="utf-8", errors="replace").partition("\n")[0].removeprefix("bench: "))
    if process.returncode == _USAGE:
        raise UsageError(said, where=shown(str(folder), 300))
    if process.returncode:
        what = said or f"the bench program ended with {process.returncode}"
        raise EmulatorFailed(what, where=shown(str(folder), 300))
    bench = _read(output, shown(str(folder), 300))
    return msgspec.structs.replace(bench, series=tuple(one for one in bench.series if one.samples))


def _read(output: bytes, where: str) -> Bench:
    """What the program wrote.

    Raises:
        BadInput: the program is of another Colibri, or was changed.
    """
    try:
        schema = msgspec.json.decode(output, type=_Head).schema
        if schema == SCHEMA:
            return msgspec.json.decode(output, type=Bench)
    except msgspec.DecodeError as error:
        what = f"its bench program wrote no measurements: {error}"
    else:
        what = f"its bench program writes schema {schema}, this Colibri reads {SCHEMA}"
    raise BadInput(what, where=where, hint="generate the package again")
