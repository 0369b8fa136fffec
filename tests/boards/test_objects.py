"""What is in the objects: no heap, no stdio, no double arithmetic, and not a warning from gcc or clang."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from board_packages import EXAMPLES, PRUNED, Make
from elftools.elf.elffile import ELFFile
from selection import ROOMY, TELLING, boards_with_models, with_elf

from colibri.boards.profile import BoardKind, CompilerFamily
from colibri.graph.graph import StateType
from colibri.graph.scheme import Scheme
from colibri.options import Options
from colibri.toolchain.build import build
from colibri.toolchain.find import find_toolchain, try_family

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]
MODES = [
    "-std=c11",
    "-O2",
    "-ffreestanding",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-I.",
    "-Iruntime/include",
    "-Iruntime",
]
MODELS = {
    "sensor": ("load-moe/top1-e4", Options(Scheme.W8A16, batch=2)),
    "language": ("shakespeare-moe", Options(Scheme.W4A8, StateType.F16, prefill=4, context=32, drop=PRUNED)),
}

HEAP_AND_STDIO = re.compile(r"(m|c|re)alloc|free|f?printf|puts|putchar|fopen|fwrite|_?sbrk|abort|exit")
# Arm's and libgcc's helpers for double: arithmetic, compares, conversions.
DOUBLE = re.compile(r"__aeabi_(d\w+|[a-z0-9]+2d|cd\w+)|__\w*df\w*|__(extend|trunc)\w*df\w*")


@boards_with_models(TELLING, ROOMY)
def test_no_warning_from_gcc_or_clang(board: str, model: str, make: Make) -> None:
    checkpoint, options = MODELS[model]
    folder, package = make(EXAMPLES / checkpoint, board, options)
    commands = [find_toolchain(package.board).command]
    clang = try_family(package.board, CompilerFamily.CLANG)[-1]
    # Beside Debian's gcc for bare RISC-V clang takes that one's headers for Linux too, which are none, and its libgcc
    # of 64 bits where there is none of 32 with vectors; zig, which is a clang, has both.
    assert clang.serves or board in ("milk-v-duo", "riscv-virt-rv32gcv"), clang.reason
    if clang.serves and clang.installed:
        commands.append(clang.installed.command)
    traps = {"arm": "-DPORT_TRAP_BKPT", "riscv32": "-DPORT_TRAP_EBREAK", "riscv64": "-DPORT_TRAP_EBREAK"}
    trap = [traps[package.board.cpu.arch]] if package.board.kind is BoardKind.BARE else []
    # What is the same for all models is compiled with the first.
    places = (folder / name for name in (("src", "app") if model == "language" else (".",)))
    sources = sorted(str(path.relative_to(folder)) for place in places for path in place.rglob("*.c"))
    programs = 3 if package.board.kind is BoardKind.LINUX else 2  # the bench program is for Linux
    levels = package.board.levels
    models = 1 + len(levels) + bool(levels)  # the layers for each set of instructions are files of their own
    assert len(sources) == models + programs if model == "language" else len(sources) > 6
    for command in commands:
        for source in sources:
            kind = package.board.kind
            hosted = kind in (BoardKind.LINUX, BoardKind.WINDOWS) and source.startswith(("port/", "app/"))
            modes = [mode for mode in MODES if not (hosted and mode == "-ffreestanding")]
            line = [*command, *modes, *WARNINGS, *trap]
            # zig knows no check without an object.
            check = ["-c", "-o", "checked.o"] if Path(command[0]).name == "zig" else ["-fsyntax-only"]
            done = subprocess.run([*line, *check, source], cwd=folder, capture_output=True, text=True, check=False)
            assert done.returncode == 0 and done.stderr == "", f"{command[0]} {source}:\n{done.stderr}"


def undefined(nm: str, path: Path) -> set[str]:
    text = subprocess.run([nm, "--undefined-only", str(path)], check=True, capture_output=True, text=True).stdout
    return {line.split()[-1] for line in text.splitlines() if " U " in line}


def defined(nm: str, path: Path) -> set[str]:
    text = subprocess.run([nm, "--defined-only", str(path)], check=True, capture_output=True, text=True).stdout
    return {line.split()[-1] for line in text.splitlines() if len(line.split()) == 3}


@boards_with_models(with_elf(TELLING), with_elf(ROOMY))
def test_no_heap_no_stdio_no_double(board: str, model: str, make: Make) -> None:
    checkpoint, options = MODELS[model]
    folder, package = make(EXAMPLES / checkpoint, board, options)
    build(folder, ["build/product.elf"])
    nm = f"{package.board.toolchain.prefix}nm"
    needed = undefined(nm, folder / f"build/lib{package.prefix}.a")
    assert f"{package.prefix}_bin" in defined(nm, folder / f"build/lib{package.prefix}.a")
    assert {name for name in needed if HEAP_AND_STDIO.fullmatch(name) or DOUBLE.fullmatch(name)} == set()
    outside = needed - defined(nm, folder / f"build/lib{package.prefix}.a")
    assert {name for name in outside if not name.startswith("__")} <= {"memset", "memcpy"}  # as model.h says
    if package.board.kind is BoardKind.BARE:
        whole = defined(nm, folder / "build/product.elf")
        assert "port_start" in whole
        assert {name for name in whole if HEAP_AND_STDIO.fullmatch(name) or DOUBLE.fullmatch(name)} == set()


def test_the_patterns_know_what_they_look_for() -> None:
    for name in (
        "__aeabi_dmul",
        "__aeabi_f2d",
        "__aeabi_cdcmple",
        "__muldf3",
        "__extendsfdf2",
        "__truncdfsf2",
        "__fixdfsi",
    ):
        assert DOUBLE.fullmatch(name), name
    for name in ("__aeabi_fmul", "__aeabi_idiv", "__mulsf3", "__floatsisf", "memcpy", "__divsi3"):
        assert not DOUBLE.fullmatch(name), name
    assert HEAP_AND_STDIO.fullmatch("malloc") and HEAP_AND_STDIO.fullmatch("printf")


@pytest.mark.parametrize("board", with_elf(TELLING))
def test_the_memory_block_takes_no_room_in_the_file(board: str, make: Make) -> None:
    folder, package = make(EXAMPLES / "load-moe/top1-e4", board)
    build(folder, ["build/product.elf", "build/test.elf"])
    for name in ("product", "test"):
        with (folder / f"build/{name}.elf").open("rb") as file:
            elf = ELFFile(file)
            (memory,) = elf.get_section_by_name(".symtab").get_symbol_by_name(f"{package.prefix}_memory")
            assert elf.get_section(memory["st_shndx"])["sh_type"] == "SHT_NOBITS"
