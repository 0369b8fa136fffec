"""A board file that is right, and what is said of one that is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from colibri.boards.load import load_board
from colibri.errors import BadInput

GOOD = """\
title = "A board"
sources = ["its manual"]
kind = "bare"
kernels = ["portable"]
port = "cortex_m"
stack = 1024

[cpu]
arch = "arm"
core = "Cortex-M3"
fpu = false

[toolchain]
prefix = "arm-none-eabi-"
clang_target = "thumbv7m-none-eabi"
flags = ["-mthumb", "-mcpu=cortex-m3"]
apt = ["gcc-arm-none-eabi"]

[[memory]]
name = "flash"
kind = "flash"
origin = 0x08000000
length = 0x10000
holds = ["code", "weights"]

[[memory]]
name = "sram"
kind = "ram"
origin = 0x20000000
length = 0x2000
holds = ["data", "stack", "arena"]

[[emulators]]
name = "vldiscovery"
kind = "qemu-system"
program = "qemu-system-arm"
args = ["-M", "stm32vldiscovery"]
proves = "map"
trap = "bkpt"
"""


def error_of(path: Path) -> str:
    with pytest.raises(BadInput) as caught:
        load_board(path)
    text = str(caught.value)
    assert "\n" not in text
    assert caught.value.exit_code == 5
    return text.replace(f"{path.parent}/", "")


def write(folder: Path, text: str, name: str = "mine.toml") -> Path:
    path = folder / name
    path.write_text(text)
    return path
