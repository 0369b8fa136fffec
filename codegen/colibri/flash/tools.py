"""The tools that write a program to a board, and the command lines of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from colibri.boards.profile import Flash
from colibri.toolchain.buildfiles import PRODUCT, PRODUCT_BIN, PRODUCT_HEX, PRODUCT_UF2

Command = tuple[str, ...]


@dataclass(frozen=True)
class Tool:
    """A program that writes flash.

    Attributes:
        name: as `--tool` takes it.
        programs: the executables that it may be, the first one found is taken.
        install: how to get it.
        commands: the command lines, of which each follows when the one before went well; none when the board file does
            not name the board for this tool. They run in the package's folder.
    """

    name: str
    programs: tuple[str, ...]
    install: str
    commands: Callable[[str, Flash], tuple[Command, ...]]


def _probe_rs(program: str, flash: Flash) -> tuple[Command, ...]:
    if not flash.probe_rs:
        return ()
    chip = ("--chip", flash.probe_rs)
    return (
        (program, "download", *chip, "--binary-format", "elf", "--verify", PRODUCT),
        (program, "reset", *chip),
    )


def _openocd(program: str, flash: Flash) -> tuple[Command, ...]:
    files = tuple(part for file in flash.openocd for part in ("-f", file))
    return ((program, *files, "-c", f"program {PRODUCT} verify reset exit"),) if files else ()


def _pyocd(program: str, flash: Flash) -> tuple[Command, ...]:
    # It verifies as it writes, and without -W waits for ever for a probe.
    return ((program, "flash", "-W", "--target", flash.pyocd, PRODUCT),) if flash.pyocd else ()


def _st_flash(program: str, flash: Flash) -> tuple[Command, ...]:
    return ((program, "--reset", "--format", "ihex", "write", PRODUCT_HEX),) if flash.st_flash else ()


def _picotool(program: str, flash: Flash) -> tuple[Command, ...]:
    return ((program, "load", "--verify", "--execute", PRODUCT),) if flash.picotool else ()


def _esptool(program: str, flash: Flash) -> tuple[Command, ...]:
    # Version 5 has write-flash, and still this.
    return ((program, "--chip", flash.esptool, "write_flash", "0x0", PRODUCT_BIN),) if flash.esptool else ()


# In the order of preference: those that know the chip and verify before those that know a family or a bootloader.
TOOLS = (
    Tool("probe-rs", ("probe-rs",), "see https://probe.rs/docs/getting-started/installation/", _probe_rs),
    Tool("openocd", ("openocd",), "sudo apt-get install openocd", _openocd),
    Tool("pyocd", ("pyocd",), "pip install pyocd", _pyocd),
    Tool("st-flash", ("st-flash",), "sudo apt-get install stlink-tools", _st_flash),
    Tool("picotool", ("picotool",), "sudo apt-get install picotool (Debian 13, Ubuntu 25.04)", _picotool),
    Tool("esptool", ("esptool", "esptool.py"), "pip install esptool", _esptool),
)

DRIVE = "drive"
TOOL_NAMES = (*(tool.name for tool in TOOLS), DRIVE)


def copies(flash: Flash, mount: str) -> tuple[Command, ...]:
    """Copy the product to a mounted drive; the second line writes out what the system still holds back."""
    return (("cp", PRODUCT_UF2 if flash.uf2 else PRODUCT_HEX, f"{mount}/"), ("sync",))
