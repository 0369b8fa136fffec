"""What must hold in a board file beyond its shape. Each fault is found on its own, so that all can be told at once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from colibri.boards.check_emulators import TRAPS, emulator_faults
from colibri.boards.check_flash import flash_faults
from colibri.boards.check_levels import level_faults
from colibri.boards.check_memory import map_faults, memory_faults, room_faults, vector_faults
from colibri.boards.check_options import option_fault
from colibri.boards.cores import contradiction, is_known, right_word
from colibri.boards.locate import KeyPath
from colibri.boards.places import At, first_repeated
from colibri.boards.profile import Board, BoardKind
from colibri.boards.words import nearest, sentence
from colibri.errors import BadInput, printable, shown
from colibri.paths import data_folder

ARCHITECTURES = ("aarch64", "arm", "riscv32", "riscv64", "wasm32", "x86_64")

_LONGEST_TEXT = 1000  # characters
_ONCE = ("-mcpu", "-march", "-mabi", "-mfpu", "-mfloat-abi")  # of two the compiler takes the last, without a word


def board_faults(board: Board, at: At) -> list[BadInput]:
    """Everything that is wrong with a board whose shape is right.

    Args:
        at: where a key stands, for the messages.
    """
    found = [*safe_faults(board, at), *_core_faults(board, at), *memory_faults(board, at)]
    if not found:  # these look at what the others found to be there
        found += [*map_faults(board, at)]
        if board.kind is BoardKind.BARE:
            found += [*vector_faults(board, {}, at, ("memory",)), *room_faults(board, at)]
    return found


def safe_faults(board: Board, at: At) -> Iterator[BadInput]:
    """What goes to shells, paths and command lines: all but the memory, of which the report shows what is wrong."""
    yield from _text_faults(msgspec.to_builtins(board), at, ())
    yield from _processor_faults(board, at)
    yield from _toolchain_faults(board, at)
    yield from emulator_faults(board, at)
    yield from flash_faults(board, at)


def _text_faults(value: object, at: At, key: KeyPath) -> Iterator[BadInput]:
    """Text goes to command lines, C, build files and terminals: nothing in it may be more than text."""
    if isinstance(value, dict):
        for name, part in value.items():
            yield from _text_faults(name, at, key)
            yield from _text_faults(part, at, (*key, name))
    elif isinstance(value, (list, tuple)):
        for index, part in enumerate(value):
            yield from _text_faults(part, at, (*key, index))
    elif isinstance(value, str):
        if len(value) > _LONGEST_TEXT:
            yield BadInput(f"{len(value)} characters", where=at(key), hint=f"at most {_LONGEST_TEXT}")
        elif strange := next((c for c in value if not c.isprintable()), None):
            what = f"has the character {printable(strange)}"
            yield BadInput(what, where=at(key), hint="write text on one line")


def _processor_faults(board: Board, at: At) -> Iterator[BadInput]:
    arch = board.cpu.arch
    if arch not in ARCHITECTURES:
        hint = nearest(arch, ARCHITECTURES)
        yield BadInput(f"unknown architecture '{shown(arch)}'", where=at(("cpu", "arch")), hint=hint)
        return
    yield from _kernel_faults(board.kernels, at, ("kernels",))
    for index, level in enumerate(board.levels):
        yield from _kernel_faults(level.kernels, at, ("levels", index, "kernels"))
    yield from level_faults(board, at)
    ports = sorted(path.name for path in (data_folder("runtime_c") / "ports").iterdir() if path.is_dir())
    if board.port not in ports:
        yield BadInput(f"no port '{shown(board.port)}'", where=at(("port",)), hint=nearest(board.port, ports))
    if board.kind is BoardKind.BARE and arch not in TRAPS:
        yield BadInput(f"no bare-metal start-up for {arch}", where=at(("kind",)), hint='use kind = "linux"')
    if (board.kind is BoardKind.WASM) != (arch == "wasm32"):
        what = f"kind {board.kind} with {arch}"
        yield BadInput(what, where=at(("kind",)), hint="wasm and wasm32 belong together")
    if board.kind in (BoardKind.BARE, BoardKind.WASM):
        if board.stack <= 0 or board.stack % 16:
            what = f"{board.stack} bytes"
            yield BadInput(what, where=at(("stack",)), hint="give a positive multiple of 16")
    elif board.stack < 0:
        yield BadInput(f"{board.stack} bytes", where=at(("stack",)))
    if board.reserve < 0:
        yield BadInput(f"{board.reserve} bytes", where=at(("reserve",)))


def _kernel_faults(kernels: tuple[str, ...], at: At, key: KeyPath) -> Iterator[BadInput]:
    """They become paths, so only plain names of folders that are there."""
    if kernels[-1:] != ("portable",):
        what = "the list does not end with portable"
        yield BadInput(what, where=at(key), hint="every op has a portable kernel")
    if repeated := first_repeated(kernels):
        yield BadInput(f"{repeated!r} is there twice", where=at(key))
    known = sorted(path.parent.name for path in (data_folder("runtime_c") / "kernels").glob("*/kernels.toml"))
    for index, name in enumerate(kernels):
        if name not in known:
            what = f"no kernel folder '{shown(name)}'"
            yield BadInput(what, where=at((*key, index)), hint=nearest(name, known))


def _toolchain_faults(board: Board, at: At) -> Iterator[BadInput]:
    """These go into build files, and from there to a shell."""
    tools = board.toolchain
    if not re.fullmatch(r"[A-Za-z0-9_.+/-]*", tools.prefix):
        yield BadInput(f"'{shown(tools.prefix)}' is no prefix of programs", where=at(("toolchain", "prefix")))
    if not re.fullmatch(r"[A-Za-z0-9_.-]+", tools.clang_target):
        what = f"'{shown(tools.clang_target)}' is no target of clang"
        yield BadInput(what, where=at(("toolchain", "clang_target")), hint="for example thumbv7em-none-eabihf")
    for key, options in (("flags", tools.flags), ("cflags", tools.cflags)):
        for index, option in enumerate(options):
            if fault := option_fault(option, at(("toolchain", key, index))):
                yield fault
    if repeated := first_repeated(flag.partition("=")[0] for flag in tools.flags if flag.startswith(_ONCE)):
        yield BadInput(
            f"{repeated} is given twice", where=at(("toolchain", "flags")), hint="keep the one that is meant"
        )
    if tools.sysroot and not Path(tools.sysroot).is_absolute():
        what = f"'{shown(tools.sysroot)}' is no whole path"
        yield BadInput(what, where=at(("toolchain", "sysroot")), hint="write it from the root on")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", board.id):
        yield BadInput("the file's name is the board's", where=at(()), hint="use letters, digits and ._-")


def _core_faults(board: Board, at: At) -> Iterator[BadInput]:
    """Of a board file only: what a package was made for is as it is."""
    cpu, here = board.cpu, at(("cpu", "core"))
    if cpu.arch not in ARCHITECTURES:
        return
    known = is_known(cpu.arch, cpu.core)
    if not known and not cpu.unlisted:
        hint = f"{sentence(right_word(cpu.arch, cpu.core))} A core that is in no list: add unlisted = true below it"
        yield BadInput(f"unknown core '{shown(cpu.core)}' of {cpu.arch}", where=here, hint=hint)
    elif known and cpu.unlisted:
        what = f"is true, but {cpu.core} is listed"
        yield BadInput(what, where=at(("cpu", "unlisted")), hint="take the line out")
    elif not cpu.unlisted and (named := contradiction(cpu.arch, cpu.core, board.toolchain.flags)):
        index, other = named
        what = f"{board.toolchain.flags[index]} is a {other}, and cpu.core says {cpu.core}"
        hint = "one of them is wrong, and the code would be for the wrong core"
        yield BadInput(what, where=at(("toolchain", "flags", index)), hint=hint)
