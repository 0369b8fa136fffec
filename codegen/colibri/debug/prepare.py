"""Everything that a session needs in one folder: image, request, script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from colibri.boards.profile import Emulator
from colibri.debug.script import gdb_script
from colibri.debug.session import (
    SCRIPT,
    SOCKET,
    Lines,
    debug,
    emulator_command,
    find_gdb,
    gdb_command,
    lines,
    socket_path,
    start_commands,
)
from colibri.emulate.protocol import encode_requests
from colibri.emulate.runner import REQUEST_NAME
from colibri.errors import DoesNotFit, no_room
from colibri.package import Package
from colibri.scratch import scratch_folder
from colibri.testing import read_cases
from colibri.toolchain.build import build
from colibri.toolchain.buildfiles import Role, image_name


@dataclass(frozen=True)
class Wanted:
    """What the user asks for.

    Attributes:
        role: which image.
        stops: names of ops to stop before.
        commands: for gdb, after the start.
        program: the gdb to take; None finds one.
        batch: leave gdb after the commands.
    """

    role: Role
    stops: Sequence[str] = ()
    commands: Sequence[str] = ()
    program: str | None = None
    batch: bool = False


def run_session(folder: Path, package: Package, emulator: Emulator, wanted: Wanted) -> tuple[int, str]:
    """Build the image and run it under gdb, on this terminal; returns gdb's exit code and what the program printed.

    Raises:
        BadInput: image and package do not belong together.
        BuildFailed: the image does not build.
        DoesNotFit: nor does it fit.
        EmulatorFailed: the emulator does not start.
        ToolMissing: no gdb, no emulator, no disassembler.
        UsageError: there is no such op, or the emulator has no stub for gdb.
    """
    gdb = find_gdb(package.board, emulator, wanted.program)
    image = _image(folder, package, emulator, wanted.role)
    with scratch_folder("debug") as place:
        waiting = emulator_command(image, emulator, place, socket_path(place))
        _write(place, folder, package, image, emulator, wanted)
        command = gdb_command(gdb, image, SCRIPT, folder.resolve(), wanted.commands, batch=wanted.batch)
        return debug(place, emulator, waiting, command)


def prepare_lines(folder: Path, package: Package, emulator: Emulator, wanted: Wanted) -> Lines:
    """Build the image, write request and script into ``build/debug`` of the package, and return what to run there.

    Raises:
        BadInput: image and package do not belong together.
        BuildFailed: the image does not build.
        DoesNotFit: nor does it fit.
        ToolMissing: no gdb, no emulator, no disassembler.
        UsageError: there is no such op, the emulator has no stub for gdb, or nothing can be written there.
    """
    gdb = find_gdb(package.board, emulator, wanted.program)
    image = _image(folder, package, emulator, wanted.role)
    place = folder.resolve() / "build" / "debug"
    waiting = emulator_command(image, emulator, place, SOCKET)
    try:
        place.mkdir(exist_ok=True)
        _write(place, folder, package, image, emulator, wanted)
    except OSError as error:
        raise no_room(str(place), error) from None
    command = gdb_command(gdb, image, SCRIPT, folder.resolve(), wanted.commands, batch=wanted.batch)
    return lines(place, waiting, command, emulator.kind)


def _image(folder: Path, package: Package, emulator: Emulator, role: Role) -> Path:
    name = image_name(package.board, emulator, role)
    if not build(folder, [name]):
        raise DoesNotFit(f"the {role} image does not fit", where=package.board.id, hint="see `colibri report`")
    return (folder / name).resolve()


def _write(place: Path, folder: Path, package: Package, image: Path, emulator: Emulator, wanted: Wanted) -> None:
    """Request and script. The product without a request takes an input of its own."""
    script = gdb_script(folder, package, image, emulator, wanted.stops, start_commands(emulator))
    golden = wanted.role == "test"
    request = encode_requests([case.request for case in read_cases(folder)]) if golden else b""
    (place / REQUEST_NAME).write_bytes(request)
    (place / SCRIPT).write_text(script, encoding="utf-8")
