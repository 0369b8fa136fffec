"""Which boards a test runs on. There are too many to build everything for each, and most differ in numbers alone.

- `board_names` of the product: what reads a board file, or makes a package and no more.
- `RUNS`: each distinct way to compile and run an image, once.
- `COMPILERS`: each distinct way to compile, once.
- `TELLING`: each port, set of kernels, architecture and feature of memory, once.
- `ROOMY`: the same, of boards that have room for the language model of the examples.
- `OFTEN`: of these a few, for what runs the language model many times.

test_selection.py holds them to that. A new board needs no change here: it joins where it adds something.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

import pytest

from colibri.boards.host import unlike_host
from colibri.boards.load import board_names, load_board
from colibri.boards.profile import Board, BoardKind, Emulator, EmulatorKind, Holds, MemoryKind

# Looked at first, in this order: their figures stand in the docs, and between them they have most of what there is.
_FIRST = (
    "x86-64-v3",
    "stm32h750b-dk",
    "stm32f405",
    "riscv-virt-rv32imac",
    "raspberry-pi-5",
    "aarch64-sve2",
)

# What the language model of the examples takes, rounded up: 24 of 32 experts in 4 bits, a context of 32.
_LANGUAGE_FLASH, _LANGUAGE_RAM = 1 << 20, 128 << 10


def compiler_of(board: Board) -> Hashable:
    """What decides over the objects of a package."""
    tools = board.toolchain
    return (
        board.kind,
        board.port,
        board.kernels,
        board.levels,
        board.cpu.arch,
        tools.family,
        tools.prefix,
        tools.flags,
    )


def run_of(board: Board, emulator: Emulator) -> Hashable:
    """What decides over a run: the objects, and what executes them. Where regions lie is the linker's alone."""
    return (compiler_of(board), emulator.kind, emulator.program, emulator.args, emulator.trap)


def runs_of(board: Board) -> set[Hashable]:
    """Of all its emulators."""
    return {run_of(board, emulator) for emulator in board.emulators}


def features_of(board: Board) -> set[Hashable]:
    """What code or linker script depend on, beyond numbers."""
    arenas = [region for region in board.memory if Holds.ARENA in region.holds]
    weights = [region for region in board.memory if Holds.WEIGHTS in region.holds]
    present = {
        "no FPU": not board.cpu.fpu,
        "the arena in several regions": len(arenas) > 1,
        "weights in several regions": len(weights) > 1,
        "code and weights apart": board.region_for(Holds.CODE) is not board.region_for(Holds.WEIGHTS),
        "data and stack apart": board.region_for(Holds.DATA) is not board.region_for(Holds.STACK),
        "kernels run from RAM": any(Holds.KERNELS in region.holds for region in board.memory),
        "memory to switch on": any(region.clock for region in board.memory),
        "memory for the application": any(not region.holds for region in board.memory),
        "a reserve": board.reserve > 0,
        "a budget": any(region.budget for region in board.memory),
        "code that is loaded into RAM": board.region_for(Holds.CODE).kind is MemoryKind.RAM,
        "no emulator": not board.emulators,
        "several sets of instructions": bool(board.levels),
    }
    flags = {name for name, holds in present.items() if holds}
    emulators = {(board.cpu.arch, emulator.kind, emulator.trap) for emulator in board.emulators}
    moved = {"regions that an emulator has elsewhere" for emulator in board.emulators if emulator.origins}
    parts = {board.kind, ("port", board.port), ("kernels", board.kernels), ("arch", board.cpu.arch)}
    return {*parts, *flags, *emulators, *moved}


def is_roomy(board: Board) -> bool:
    """Whether the language model, pruned as the tests do it, fits into the first regions for weights and data."""
    flash, ram = board.region_for(Holds.WEIGHTS).limit, board.region_for(Holds.DATA).limit
    return (flash >= _LANGUAGE_FLASH or not flash) and (ram >= _LANGUAGE_RAM or not ram)


def covering(what: Callable[[Board], Iterable[Hashable]], among: Iterable[Board]) -> list[str]:
    """Boards, sorted, that have between them all that any of these has: each is taken that adds something."""
    seen: set[Hashable] = set()
    chosen = []
    for board in sorted(among, key=lambda board: _FIRST.index(board.id) if board.id in _FIRST else len(_FIRST)):
        found = set(what(board))
        if found - seen:
            chosen.append(board.id)
            seen |= found
    return sorted(chosen)


def of_kind(kind: BoardKind, names: Iterable[str]) -> list[str]:
    """Those of the boards that are bare metal, or run Linux."""
    return [name for name in names if load_board(name).kind is kind]


def with_elf(names: Iterable[str]) -> list[str]:
    """Those of the boards whose objects and images are ELF files."""
    return [name for name in names if load_board(name).kind in (BoardKind.BARE, BoardKind.LINUX)]


ALL = [load_board(name) for name in board_names()]
RUNS = covering(runs_of, ALL)
COMPILERS = covering(lambda board: [compiler_of(board)], ALL)
TELLING = covering(features_of, ALL)
ROOMY = covering(features_of, filter(is_roomy, ALL))
OFTEN = [name for name in ROOMY if name in _FIRST]


def boards_with_models(sensor: Iterable[str], language: Iterable[str]) -> pytest.MarkDecorator:
    """Run a test, which takes ``board`` and ``model``, with the sensor model and the language model of the examples."""
    pairs = [*((board, "sensor") for board in sensor), *((board, "language") for board in language)]
    return pytest.mark.parametrize(("board", "model"), pairs)


def skip_where_nothing_runs(board: str) -> None:
    """Skip a board that only a processor like its own can run, where the one at hand is older."""
    read = load_board(board)
    if all(emulator.kind is EmulatorKind.NATIVE for emulator in read.emulators) and (reason := unlike_host(read)):
        pytest.skip(f"{board}: {reason}")
