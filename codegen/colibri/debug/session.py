"""Start the emulator with its gdb stub, and a gdb that talks to it."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from colibri.boards.profile import Board, Emulator, EmulatorKind
from colibri.emulate.process import started
from colibri.emulate.runner import REQUEST_NAME, command_line
from colibri.errors import EmulatorFailed, ToolMissing, UsageError

SCRIPT = "colibri.gdb"
SOCKET = "gdb"
CONSOLE = "console"

# A socket of the file system, in a folder of our own: no port to guess, and nobody else can connect.
_LONGEST = 100  # characters of its path; the system's limit is 107
_PATIENCE = 20.0  # seconds until an emulator listens
_LISTENING = "00010000"  # __SO_ACCEPTCON in /proc/net/unix

# gdb-multiarch knows every processor; the others come with vendors' compilers.
_GDBS = {
    "arm": ("gdb-multiarch", "arm-none-eabi-gdb", "arm-none-eabi-gdb-py3"),
    "riscv32": ("gdb-multiarch", "riscv64-unknown-elf-gdb", "riscv-none-elf-gdb", "riscv32-unknown-elf-gdb"),
    "riscv64": ("gdb-multiarch", "riscv64-unknown-elf-gdb", "riscv-none-elf-gdb", "riscv64-linux-gnu-gdb"),
    "aarch64": ("gdb-multiarch", "aarch64-linux-gnu-gdb", "aarch64-none-linux-gnu-gdb"),
    "x86_64": ("gdb", "gdb-multiarch"),
}
_ASKED = {"arm": "arm", "riscv32": "riscv:rv32", "riscv64": "riscv:rv64", "aarch64": "aarch64", "x86_64": "i386:x86-64"}


@dataclass(frozen=True)
class Lines:
    """Two commands for two terminals, both to be started in one folder.

    Attributes:
        emulator: empty for a native run, which gdb starts by itself.
    """

    emulator: str
    gdb: str


def find_gdb(board: Board, emulator: Emulator, program: str | None = None) -> str:
    """A gdb that knows the board's processor, found by asking each.

    Args:
        program: the one that must be taken; None looks for the usual names.

    Raises:
        ToolMissing: there is none; the hint installs one.
        UsageError: the emulator has no stub for gdb.
    """
    arch = board.cpu.arch
    if arch not in _ASKED or not (emulator.kind.is_qemu or emulator.kind is EmulatorKind.NATIVE):
        hint = "choose another --emulator or board"
        raise UsageError(f"gdb does not debug {emulator.kind}", where=f"board {board.id}", hint=hint)
    reasons = []
    for name in (program,) if program else _GDBS[arch]:
        found = shutil.which(name)
        if found is None:
            reasons.append(f"{name} is not installed")
        elif not _knows(found, _ASKED[arch]):
            reasons.append(f"{name} does not know {_ASKED[arch]}")
        else:
            return str(Path(found).absolute())  # it is started in another folder
    raise ToolMissing(", ".join(reasons), where=f"board {board.id}", hint="sudo apt-get install gdb-multiarch")


def _knows(program: str, processor: str) -> bool:
    """Whether a gdb accepts ``set architecture``."""
    command = [program, "-nx", "-batch", "-ex", f"set architecture {processor}"]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and b"Undefined item" not in done.stderr


def start_commands(emulator: Emulator) -> list[str]:
    """What gdb does, in the folder of socket and request, to get the program at its first instruction."""
    if emulator.kind is EmulatorKind.NATIVE:
        return [f"starti < {REQUEST_NAME} > {CONSOLE}"]
    return [f"target remote ./{SOCKET}"]


def emulator_command(image: Path, emulator: Emulator, folder: Path, socket: str) -> list[str]:
    """The emulator waiting for a debugger; empty for a native run.

    Raises:
        ToolMissing: it is not installed.
    """
    if emulator.kind is EmulatorKind.NATIVE:
        return []
    command = command_line(image, emulator, folder)
    if emulator.kind is EmulatorKind.QEMU_USER:
        return [command[0], "-g", socket, *command[1:]]
    escaped = socket.replace(",", ",,")  # QEMU's way to write a comma in an option
    return [command[0], "-S", "-gdb", f"unix:{escaped},server=on,wait=off", *command[1:]]


def gdb_command(
    program: str, image: Path, script: str, sources: Path, more: Sequence[str], *, batch: bool
) -> list[str]:
    """gdb on an image.

    Args:
        sources: the package's folder.
        more: commands after the script.
        batch: leave after them.
    """
    extra = [part for command in more for part in ("-ex", command)]
    return [program, "-q", *(["-batch"] if batch else []), "-d", str(sources), "-x", script, *extra, str(image)]


def lines(folder: Path, emulator: list[str], gdb: list[str], emulator_kind: EmulatorKind) -> Lines:
    """Both commands as a shell takes them, each going to the folder first."""
    go = f"cd {shlex.quote(str(folder))} && "
    source = f" < {REQUEST_NAME}" if emulator_kind is EmulatorKind.QEMU_USER else ""
    return Lines(go + shlex.join(emulator) + source if emulator else "", go + shlex.join(gdb))


def debug(folder: Path, emulator: Emulator, waiting: list[str], gdb: list[str]) -> tuple[int, str]:
    """Run gdb to its end, beside the emulator, which ends with it.

    Args:
        folder: with script and request; both run there.
        waiting: the emulator's command; empty for a native run.

    Returns:
        gdb's exit code, and what the program and its emulator printed.

    Raises:
        EmulatorFailed: the emulator does not wait for a debugger.
    """
    with contextlib.ExitStack() as stack:
        if waiting:
            source = folder / REQUEST_NAME if emulator.kind is EmulatorKind.QEMU_USER else Path(os.devnull)
            stdin = stack.enter_context(source.open("rb"))
            console = stack.enter_context((folder / CONSOLE).open("wb"))
            process = stack.enter_context(started(waiting, folder, stdin, console, console))
            _wait_for_socket(process, folder)
        stack.enter_context(_interrupts_are_for_gdb())
        code = subprocess.run(gdb, cwd=folder, check=False).returncode
    printed = folder / CONSOLE
    return code, printed.read_text(encoding="utf-8", errors="replace") if printed.is_file() else ""


def socket_path(folder: Path) -> str:
    """Where the emulator listens.

    Raises:
        UsageError: the folder for temporary files has too long a name.
    """
    path = str(folder.resolve() / SOCKET)
    if len(os.fsencode(path)) > _LONGEST:
        raise UsageError("the path of a socket there is too long", where=path, hint="set TMPDIR to a shorter folder")
    return path


def _wait_for_socket(process: subprocess.Popen[bytes], folder: Path) -> None:
    path = socket_path(folder)
    deadline = time.monotonic() + _PATIENCE
    while not _listens(path):
        if process.poll() is not None or time.monotonic() > deadline:
            said = (folder / CONSOLE).read_text(encoding="utf-8", errors="replace").strip().splitlines()
            what = said[-1] if said else f"no debugger can connect after {_PATIENCE:g} s"
            raise EmulatorFailed(what, where=process.args[0] if isinstance(process.args, list) else "emulator")
        time.sleep(0.01)


def _listens(path: str) -> bool:
    """Whether somebody accepts connections there; to try one would take the only one that a user-mode QEMU accepts."""
    try:
        rows = Path("/proc/net/unix").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return Path(path).exists()
    return any(row.endswith(f" {path}") and row.split()[3] == _LISTENING for row in rows)


@contextlib.contextmanager
def _interrupts_are_for_gdb() -> Iterator[None]:
    """Ctrl-C stops the program in gdb; this command waits on. A handler, unlike ignoring, is not inherited by gdb."""
    before = signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
