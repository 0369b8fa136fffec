"""The lines of `colibri flash` are understood by the tools themselves, up to the point where they look for a board.

Each is told of a probe or port that is none, so that a board which happens to be connected is left alone.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from colibri.boards.load import board_names, load_board
from colibri.boards.profile import Flash
from colibri.flash.tools import TOOLS, Command

PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
FLASHES = {name: load_board(name).flash for name in board_names()}
OPENOCD = sorted(name for name, flash in FLASHES.items() if flash.openocd)

# For each tool what keeps it from a real board, and what it says when it finds none.
NONE = {
    "openocd": (("-c", "adapter serial none"), "(OpenOCD init failed|unable to open ftdi device)"),
    "pyocd": (("-u", "no-such-probe"), "No connected debug probe matches unique ID"),
    "st-flash": (("--serial", "0123456789ABCDEF01234567"), "Couldn't find any ST-Link devices"),
    "esptool": (("--port", "/dev/null"), "Could not open /dev/null"),
}


def line(name: str, flash: Flash) -> Command:
    """The only one of the tool for a board, with the program as it is installed here."""
    (tool,) = [one for one in TOOLS if one.name == name]
    program = shutil.which(tool.programs[0], path=PATH)
    if program is None:
        pytest.skip(f"{name} is not installed")
    (command,) = tool.commands(program, flash)
    return command


def finds_no_board(name: str, command: Command, folder: Path) -> bool:
    """Whether it got as far as looking for one."""
    (folder / "build").mkdir(exist_ok=True)
    for ending in ("elf", "hex", "bin"):
        (folder / f"build/product.{ending}").write_bytes(b"")
    options, pattern = NONE[name]
    before = 2 if name == "pyocd" else 1  # its options are those of a subcommand
    done = subprocess.run(
        [*command[:before], *options, *command[before:]], cwd=folder, stdin=-3, stdout=-1, stderr=-2, check=False
    )
    return re.search(pattern, done.stdout.decode()) is not None


@pytest.mark.parametrize("board", OPENOCD)
def test_openocd(board: str, tmp_path: Path) -> None:
    assert finds_no_board("openocd", line("openocd", FLASHES[board]), tmp_path)


@pytest.mark.parametrize(
    ("name", "flash"),
    [("pyocd", FLASHES["nucleo-h743zi"]), ("st-flash", Flash(st_flash=True)), ("esptool", Flash(esptool="esp32c3"))],
)
def test_the_others(name: str, flash: Flash, tmp_path: Path) -> None:
    assert finds_no_board(name, line(name, flash), tmp_path)


@pytest.mark.parametrize(
    ("name", "flash"),
    [
        ("openocd", Flash(openocd=("interface/stlink.cfg", "target/no-such-chip.cfg"))),
        ("st-flash", Flash(st_flash=True)),
        ("esptool", Flash(esptool="esp32c3")),
    ],
)
def test_a_line_that_is_wrong_does_not_get_there(name: str, flash: Flash, tmp_path: Path) -> None:
    command = line(name, flash)
    wrong = command if name == "openocd" else (*command[:1], "--no-such-option", *command[1:])
    assert not finds_no_board(name, wrong, tmp_path)


def test_pyocd_knows_the_targets_that_boards_name() -> None:
    program = line("pyocd", FLASHES["nucleo-h743zi"])[0]
    said = subprocess.run([program, "list", "--targets"], stdin=-3, stdout=-1, stderr=-2, check=True).stdout.decode()
    known = {row.split()[0] for row in said.splitlines() if row.strip()}
    assert {flash.pyocd for flash in FLASHES.values() if flash.pyocd} <= known
