"""The folder for STM32CubeIDE: compiled with its options for Debug and Release, linked with and without its .ld."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from exporting import DEVICE, EQUAL, compile_for_board, make_export, run_on_board, sources_in, succeed

# STM32CubeIDE's managed build for a Cortex-M4F, less --specs=nano.specs.
COMMON = ["-std=gnu11", "-DUSE_HAL_DRIVER", "-ffunction-sections", "-fdata-sections", "-Wall", "-fstack-usage"]
CONFIGURATIONS = {"Debug": ["-g3", "-DDEBUG", "-O0"], "Release": ["-g0", "-Os"]}

SCRIPT = """
ENTRY(main)
MEMORY { RAM (xrw) : ORIGIN = 0x20000000, LENGTH = 128K  FLASH (rx) : ORIGIN = 0x8000000, LENGTH = 1024K }
SECTIONS {
  .text : { *(.text .text*) } >FLASH
  .rodata : { . = ALIGN(4); *(.rodata) *(.rodata*) . = ALIGN(4); } >FLASH
  .data : { *(.data .data*) } >RAM AT> FLASH
  .bss : { *(.bss .bss*) *(COMMON) } >RAM
  /DISCARD/ : { *(.ARM.*) }
}
"""


def main_file(folder: Path) -> Path:
    """What step 3 of its README makes of main.c."""
    readme = (folder / "README.md").read_text()
    (include,) = re.findall(r'^#include ".*_check\.h"$', readme, re.M)
    (call,) = re.findall(r"^const char \*wrong = .*$", readme, re.M)
    path = folder.parent / "main.c"
    path.write_text(
        f"{include}\n#include <stdio.h>\nint main(void)\n{{\n{call}\n"
        f'puts(wrong ? wrong : "{EQUAL}");\nreturn wrong != NULL;\n}}\n'
    )
    return path


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_it_runs_with_the_projects_own_options(tmp_path: Path, configuration: str) -> None:
    folder = make_export(tmp_path, "stm32cubeide")
    options = [*COMMON, *CONFIGURATIONS[configuration], f"-I{folder}/Inc", f"-I{folder}/Src", f"-I{DEVICE}", "-Werror"]
    objects = compile_for_board(tmp_path / "package", [main_file(folder), *sources_in(folder)], options, tmp_path)
    assert EQUAL in run_on_board(tmp_path / "package", objects, tmp_path)


@pytest.mark.parametrize("placed", [False, True])
def test_the_piece_of_linker_script(tmp_path: Path, placed: bool) -> None:
    folder = make_export(tmp_path, "stm32cubeide")
    options = [*COMMON, "-Os", f"-I{folder}/Inc", f"-I{folder}/Src", f"-I{DEVICE}"]
    options += ["-DTOP1_E3_TINY_PLACED"] if placed else []
    objects = compile_for_board(tmp_path / "package", [main_file(folder), *sources_in(folder)], options, tmp_path)
    (tmp_path / "STM32.ld").write_text(SCRIPT)
    (piece,) = folder.glob("*.ld")
    succeed(
        "arm-none-eabi-gcc", "-mcpu=cortex-m4", "-mthumb", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard", "-nostdlib",
        "-T", tmp_path / "STM32.ld", *objects, *(["-T", piece] if placed else []),
        "-Wl,--unresolved-symbols=ignore-all", "-Wl,--gc-sections", "-lgcc", "-o", tmp_path / "firmware.elf",
    )  # fmt: skip
    sections = succeed("arm-none-eabi-readelf", "-SW", tmp_path / "firmware.elf")
    found = re.findall(r"(\.colibri\.\w+)\s+(\w+)\s+(20\w+)", sections)
    assert [(name, kind) for name, kind, _ in found] == ([(".colibri.sram", "NOBITS")] if placed else [])
    succeed("arm-none-eabi-objcopy", "-O", "binary", tmp_path / "firmware.elf", tmp_path / "firmware.bin")
    assert (tmp_path / "firmware.bin").stat().st_size < 64 << 10
