"""Exports, and firmware made of them with the flags of other build systems, run in the board's emulator."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from small_models import ORACLE, PORTABLE_BOARD, make_package, sensor

from colibri.emulate.runner import run
from colibri.export.export import export
from colibri.export.form import Label
from colibri.graph.graph import StateType
from colibri.graph.scheme import Scheme
from colibri.package import load_package
from colibri.toolchain.buildfiles import script_name

DEVICE = Path(__file__).parent / "device"
SENSOR = sensor("top1-e3-tiny")
LANGUAGE = ORACLE / "mixtral-base"
ENCODER = ORACLE / "switch-base"  # and a decoder
EQUAL = "equal to the reference"


def make_export(
    folder: Path, form: str, source: Path = SENSOR, board: str = PORTABLE_BOARD, label: Label | None = None
) -> Path:
    """A package at ``folder/package``, and its export beside it; key and value states are int8."""
    if not (folder / "package").exists():
        states: dict[str, Any] = {"kv": StateType.I8} if source in (LANGUAGE, ENCODER) else {}
        context = {LANGUAGE: {"context": 32}, ENCODER: {"context": 20, "source": 24}}.get(source, {})
        make_package(source, folder / "package", board, scheme=Scheme.W8A8, **states, **context)
    export(folder / "package", form, label or Label(), folder / form)
    return folder / form


def everything(folder: Path) -> dict[str, bytes]:
    """Path to content."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def succeed(*command: str | Path, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    """Run a program that must succeed; returns all that it printed."""
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=env, stdout=-1, stderr=-2, stdin=-3, text=True, check=False
    )
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}"
    return done.stdout


def sources_in(folder: Path) -> list[Path]:
    """C, C++ and assembler files, at any depth."""
    return sorted(path for path in folder.rglob("*") if path.suffix in (".c", ".cpp", ".S"))


def compile_for_board(
    package: Path, sources: Iterable[Path], options: Iterable[str], out: Path, compiler: str = "gcc"
) -> list[Path]:
    """Objects of the sources, compiled for the package's board with these options and the board's own."""
    toolchain = load_package(package).board.toolchain
    objects = []
    for number, source in enumerate(sources):
        language = [] if source.suffix != ".ino" else ["-x", "c++"]
        objects.append(out / f"{number}-{source.stem}.o")
        succeed(f"{toolchain.prefix}{compiler}", *toolchain.flags, *options, *language, "-c", source, "-o", objects[-1])
    return objects


def run_on_board(package: Path, objects: Iterable[Path], out: Path) -> str:
    """Link objects that have main() with the package's start-up, run them on the board; returns what they print."""
    toolchain = load_package(package).board.toolchain
    started = start_up(package, out)
    image = out / "image.elf"
    succeed(f"{toolchain.prefix}gcc", *link_options(package), *objects, *started, "-lgcc", "-o", image)
    return run_image(package, image)


def start_up(package: Path, out: Path) -> list[Path]:
    """Objects of the package's start-up and of a libc that prints."""
    emulator = load_package(package).board.emulators[0]
    port = [path for path in sources_in(package / "port") if path.suffix == ".c"]
    options = ["-std=c11", "-O2", "-ffreestanding", f"-I{package}", f"-I{package / 'runtime'}", f"-I{DEVICE}"]
    options += [f"-DPORT_TRAP_{emulator.trap.upper()}"]
    return compile_for_board(package, [*port, DEVICE / "libc.c"], options, out)


def link_options(package: Path) -> list[str]:
    """For a firmware in the memory of the board, as its first emulator has it."""
    board = load_package(package).board
    script = package / script_name(board, board.emulators[0])
    return [*board.toolchain.flags, "-nostdlib", "-Wl,--gc-sections", f"-Wl,-T,{script}"]


def run_image(package: Path, image: Path) -> str:
    """What a firmware prints, which must have ended as its words say."""
    board = load_package(package).board
    outcome = run(image, board, board.emulators[0])
    text = outcome.output.decode()
    assert outcome.exit_code == (0 if EQUAL in text else 1), text
    return text
