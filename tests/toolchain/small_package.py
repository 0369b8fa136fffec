"""A package with a trivial model, around the real ports, linker scripts and build files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from device_images import plan_in

from colibri.boards.load import load_board
from colibri.boards.profile import Board, BoardKind
from colibri.emit.linker import linker_script, port_files
from colibri.paths import data_folder
from colibri.toolchain.buildfiles import Sources, mains, script_name, write_build_files
from colibri.toolchain.compiler import Compiler, standard_compiler
from colibri.toolchain.places import zig_folders

BOARDS = ("stm32f405", "nucleo-h743zi", "riscv-virt-rv32imac", "x86-64-v3", "raspberry-pi-5")

MODEL_BYTES = b"0123456789abcdef"
MODEL_H = """\
#include <stdint.h>

extern const uint8_t tiny_bin[];

float tiny_forward(float x);
"""
MODEL_C = """\
#include "model.h"

#include "core/scale.h"

float tiny_forward(float x)
{
    return scale(x) / (float)tiny_bin[3];
}
"""
SCALE_H = """\
float scale(float x);
"""
SCALE_C = """\
#include "core/scale.h"

float scale(float x)
{
    return x * 51.0f;
}
"""
MODEL_S = """\
    .section .rodata.model, "a", %progbits
    .balign 16
    .global tiny_bin
tiny_bin:
    .incbin "model.bin"
    .section .note.GNU-stack, "", %progbits
"""
MAIN_C = """\
#include "model.h"
#include "port/port.h"

/* Kept out of a compiler's sight, so that the arithmetic happens on the board. */
static volatile float input = 4.0f;

int main(void)
{
    const float output = tiny_forward(input);

    port_write("@NAME@\\n", sizeof "@NAME@\\n" - 1);
    return output == 4.0f ? 7 : 1;
}
"""


def need(board: Board) -> None:
    """Skip when the board's compiler is not installed."""
    compiler = standard_compiler(board).cc[0]
    if shutil.which(compiler) is None and not (compiler == "zig" and zig_folders()):  # the wheel has no program
        pytest.skip(f"{compiler} is not installed")


def write_small(folder: Path, name: str | Board, compiler: Compiler | None = None) -> Board:
    """Write the package for a board, by name or changed."""
    board = load_board(name) if isinstance(name, str) else name
    need(board)
    texts = {
        "model.h": MODEL_H,
        "src/model.c": MODEL_C,
        "src/model_bin.S": MODEL_S,
        "runtime/core/scale.h": SCALE_H,
        "runtime/core/scale.c": SCALE_C,
        "runtime/include/colibri.h": "",
    }
    texts |= {source: MAIN_C.replace("@NAME@", role) for role, source in mains(board).items()}
    ports = port_files(board)
    for port in ports:
        texts[f"port/{port.as_posix()}"] = (data_folder("runtime_c") / "ports" / port).read_text()
    if board.kind is BoardKind.BARE:
        for emulator in (None, *board.emulators):
            texts[script_name(board, emulator)] = linker_script(board, emulator, "tiny", plan_in(board))
    for path, text in texts.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    (folder / "model.bin").write_bytes(MODEL_BYTES)
    port_sources = tuple(f"port/{port.as_posix()}" for port in ports if port.suffix == ".c")
    sources = Sources(("src/model.c", "src/model_bin.S", "runtime/core/scale.c"), port_sources)
    write_build_files(folder, board, "tiny", sources, compiler)
    return board
