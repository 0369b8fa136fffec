"""Choose the tool that writes the product to the board, and run it."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from colibri.boards.profile import Board, Flash
from colibri.errors import BadInput, CheckFailed, ToolMissing, UsageError, printable
from colibri.flash.tools import DRIVE, TOOL_NAMES, TOOLS, Command, copies

_MOUNTS = Path("/proc/self/mounts")


@dataclass(frozen=True)
class Way:
    """How the product gets onto the board.

    Attributes:
        tool: its name, or ``drive``.
        commands: to run one after the other in the package's folder.
        missing: why they cannot be run here; None when they can.
    """

    tool: str
    commands: tuple[Command, ...]
    missing: ToolMissing | None = None

    def lines(self) -> list[str]:
        """The commands as a shell takes them."""
        return [shlex.join(command) for command in self.commands]


def choose(board: Board, tool: str | None = None) -> Way:
    """The way to write to a board with what is here: its drive when that is mounted, else the first tool installed.

    When nothing that can is here, the first that could, and what is missing.

    Args:
        tool: one of `TOOL_NAMES`; None takes the first that can be used.

    Raises:
        BadInput: the board file says nothing of how the board is written to.
        UsageError: not by this tool, or several drives have the board's label.
    """
    flash, where = board.flash, f"board {board.id}"
    ways = [one for one in TOOLS if one.commands(one.programs[0], flash)]
    known = [*([DRIVE] if flash.drive else []), *(one.name for one in ways)]
    if not known:
        hint = "name it under [flash] in a board file of your own, or write build/product.elf by your own means"
        raise BadInput("the board file does not say how it is flashed", where=where, hint=hint)
    if tool is not None and tool not in known:
        hint = f"it says so of {', '.join(known)}" if tool in TOOL_NAMES else f"known: {', '.join(TOOL_NAMES)}"
        raise UsageError(f"the board file does not say how {tool} writes to it", where=where, hint=hint)
    if flash.drive and tool in (None, DRIVE) and (mount := _mount_of(flash, where)):
        return Way(DRIVE, copies(flash, mount))
    for one in ways:
        program = next((name for name in one.programs if shutil.which(name)), None)
        if program and tool in (None, one.name):
            return Way(one.name, one.commands(program, flash))
    wanted = [one for one in ways if tool in (None, one.name)]
    drive = [f"mount its drive {flash.drive}"] if flash.drive and tool in (None, DRIVE) else []
    what = f"{tool} is not here" if tool else "nothing here writes to it"
    hint = ", or ".join([*drive, *(f"for {one.name}: {one.install}" for one in wanted)])
    missing = ToolMissing(what, where=where, hint=hint)
    if not wanted:
        return Way(DRIVE, copies(flash, f"/media/USER/{flash.drive}"), missing)
    return Way(wanted[0].name, wanted[0].commands(wanted[0].programs[0], flash), missing)


def run(folder: Path, way: Way, on_line: Callable[[str], None]) -> None:
    """Run the commands of a way.

    Args:
        folder: the package, with the product built.
        on_line: called with each line that a tool prints.

    Raises:
        CheckFailed: a tool did not succeed, most often because no board is connected; the message is its own.
    """
    for command in way.commands:
        said: list[str] = []
        with subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process:
            for line in process.stdout or ():
                said.append(line)
                on_line(printable(line.rstrip().expandtabs()))
        if process.returncode != 0:
            what = _complaint(said) or f"ended with {process.returncode} and said nothing"
            hint = "is the board connected, powered, and held by no other program?"
            raise CheckFailed(what, where=way.tool, hint=hint)


def _mount_of(flash: Flash, where: str) -> str:
    """Where the drive of the board is mounted: desktops name the folder after its label. Empty when it is not."""
    try:
        text = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""
    folders = [_unescaped(line.split()[1]) for line in text.splitlines() if len(line.split()) > 1]
    found = [folder for folder in dict.fromkeys(folders) if PurePosixPath(folder).name == flash.drive]
    if len(found) > 1:
        hint = "unmount all but one"
        raise UsageError(f"{len(found)} drives are called {flash.drive}", where=where, hint=hint)
    return "".join(found)


def _unescaped(folder: str) -> str:
    """The kernel writes a space as ``\\040``, and so on."""
    return re.sub(r"\\([0-7]{3})", lambda digits: chr(int(digits[1], 8)), folder)


def _complaint(said: list[str]) -> str:
    """The last line in which a tool speaks of an error, else of what it did not get, else its last."""
    lines = [line.strip() for line in said if line.strip()]
    for words in (r"\berror\b", r"\b(no|not|cannot|unable|failed)\b|couldn't"):
        if found := [line for line in lines if re.search(words, line, re.IGNORECASE)]:
            return found[-1]
    return lines[-1] if lines else ""
