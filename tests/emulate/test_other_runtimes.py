"""Wasmtime, Node and Wine behind the one interface: streams, exit codes, faults, hangs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from colibri.boards.load import load_board
from colibri.boards.profile import Board, Emulator
from colibri.emit.linker import port_files
from colibri.emulate.plugin import Plugin
from colibri.emulate.runner import RunFailed, run
from colibri.errors import ToolMissing, UsageError
from colibri.paths import data_folder
from colibri.toolchain.buildfiles import image_suffix
from colibri.toolchain.find import find_toolchain

PORTS = data_folder("runtime_c") / "ports"
PROGRAM = """\
#include "port.h"

static volatile int zero;
static char bytes[70000];

static int deeper(int depth)
{
    volatile char frame[4096];
    frame[0] = (char)depth;
    return depth < 0 ? 0 : deeper(depth + 1) + frame[0];
}

int main(void)
{
    char what = 0;
    (void)port_read(&what, 1);
    switch (what) {
    case 'c': /* copy all that comes */
        for (size_t n = sizeof bytes; n == sizeof bytes;) {
            n = port_read(bytes, sizeof bytes);
            port_write(bytes, n);
        }
        return 42;
    case 'd':
        return 1000 / zero;
    case 'm':
        return *(volatile int *)(unsigned long long)(0xFFFFFFF0u + (unsigned)zero);
    case 's':
        return deeper(0);
    case 'u':
        __builtin_trap();
    case 'h':
        for (;;) {
            zero = 0;
        }
    default:
        return 3;
    }
}
"""
PAIRS = [
    pytest.param(board, emulator, id=emulator.name)
    for board in map(load_board, ("wasm32", "windows-x86-64"))
    for emulator in board.emulators
]
FAULTS = {
    "wasmtime": {"d": "integer divide by zero", "m": "out of bounds memory access", "u": "unreachable"},
    "node": {"d": "divide by zero", "m": "memory access out of bounds", "u": "unreachable"},
    "wine": {"d": "division by zero", "m": "access to no memory", "u": "undefined instruction"},
}

pytestmark = pytest.mark.emulator


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Board to the program."""
    folder = tmp_path_factory.mktemp("images")
    (folder / "main.c").write_text(PROGRAM)
    made = {}
    for name in ("wasm32", "windows-x86-64"):
        board = load_board(name)
        compiler = find_toolchain(board)
        image = folder / f"{name}{image_suffix(board)}"
        wasm = name == "wasm32"
        sources = [str(PORTS / path) for path in port_files(board) if path.suffix == ".c"]
        options = ["-nostdlib", "-ffreestanding", "-Dmain=port_main", "-Wl,--stack-first"] if wasm else ["-static"]
        command = [*compiler.command, "-O1", "-std=c11", f"-I{PORTS}", *options, "main.c", *sources, "-o", image.name]
        subprocess.run(command, cwd=folder, check=True, stdin=subprocess.DEVNULL)
        made[name] = image
    return made


def need(emulator: Emulator) -> None:
    if emulator.program and shutil.which(emulator.program) is None:
        pytest.skip(f"{emulator.program} is not installed")


@pytest.mark.parametrize(("board", "emulator"), PAIRS)
def test_every_byte_comes_back(board: Board, emulator: Emulator, images: dict[str, Path]) -> None:
    need(emulator)
    sent = bytes(range(256)) * 600 + b"\r\n\x1a\n\r"
    outcome = run(images[board.id], board, emulator, request=b"c" + sent)
    assert (outcome.exit_code, outcome.output == sent) == (42, True)
    assert run(images[board.id], board, emulator).exit_code == 3


@pytest.mark.parametrize("what", ["d", "m", "u"])
@pytest.mark.parametrize(("board", "emulator"), PAIRS)
def test_a_fault_is_told_with_its_reason(board: Board, emulator: Emulator, what: str, images: dict[str, Path]) -> None:
    need(emulator)
    with pytest.raises(RunFailed, match=FAULTS[emulator.name][what]):
        run(images[board.id], board, emulator, request=what.encode())


@pytest.mark.parametrize(("board", "emulator"), PAIRS)
def test_a_stack_overflow_ends_the_program(board: Board, emulator: Emulator, images: dict[str, Path]) -> None:
    need(emulator)
    with pytest.raises(RunFailed):
        run(images[board.id], board, emulator, request=b"s")


@pytest.mark.parametrize(("board", "emulator"), PAIRS)
def test_a_hang_is_stopped(board: Board, emulator: Emulator, images: dict[str, Path]) -> None:
    need(emulator)
    with pytest.raises(RunFailed, match="no end after 1 s"):
        run(images[board.id], board, emulator, request=b"h", timeout=1)


@pytest.mark.parametrize("emulator", load_board("wasm32").emulators, ids=lambda emulator: emulator.name)
def test_a_damaged_module_is_refused(emulator: Emulator, images: dict[str, Path], tmp_path: Path) -> None:
    need(emulator)
    whole = images["wasm32"].read_bytes()
    image = tmp_path / "damaged.wasm"
    for damaged in (b"", whole[:20], whole[: len(whole) // 2]):
        image.write_bytes(damaged)
        with pytest.raises(RunFailed, match="the emulator gave up: colibri host: the module cannot be loaded: "):
            run(image, load_board("wasm32"), emulator)


@pytest.mark.parametrize(("board", "emulator"), PAIRS)
def test_the_plugin_is_not_for_them(board: Board, emulator: Emulator, images: dict[str, Path]) -> None:
    with pytest.raises(UsageError, match=f"the plugin observes QEMU, not a {emulator.kind} run"):
        run(images[board.id], board, emulator, plugin=Plugin())


def test_wasmtime_that_is_not_installed(images: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    board = load_board("wasm32")
    with pytest.raises(ToolMissing, match="wasmtime: emulator is not installed; pip install"):
        run(images["wasm32"], board, board.emulators[0])
