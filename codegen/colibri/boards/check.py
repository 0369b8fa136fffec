"""What must hold in a board file beyond its shape."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise

import msgspec

from colibri.boards.locate import KeyPath, dotted
from colibri.boards.profile import Board, BoardKind, Emulator, EmulatorKind, Flash, Holds, MemoryKind, Proves, Region
from colibri.boards.words import nearest
from colibri.errors import BadInput, printable
from colibri.paths import data_folder

# The traps of each architecture that runs on bare metal, the product's first.
TRAPS = {"arm": ("bkpt", "svc"), "riscv32": ("ebreak",)}
ARCHITECTURES = ("aarch64", "arm", "riscv32", "x86_64")

# What a core asks of the address of its vectors, which stand first in the code. An M-profile table is aligned to the
# next power of two at or above its size, and to no less than this; ours has 64 bytes.
VECTORS_ALIGN = {"arm": 128, "riscv32": 4}

_READ_ONLY = frozenset({Holds.CODE, Holds.WEIGHTS})
_ADDRESSES = 1 << 32
_LONGEST_TEXT = 1000  # characters
_OTHER_BITS = frozenset(
    [
        "-ffast-math",
        "-Ofast",
        "-funsafe-math-optimizations",
        "-fassociative-math",
        "-freciprocal-math",
        "-ffinite-math-only",
        "-ffp-contract=fast",
        "-ffp-contract=on",
        "-mrecip",
        "-mdaz-ftz",
    ]
)

# What the grammar of linker scripts takes for words of its own where a region is named.
_LINKER_WORDS = frozenset({"l", "len", "o", "org"})

# Arm M profile, system address map: this range is for SRAM on every chip.
_ARM_SRAM = range(0x2000_0000, 0x4000_0000)


def check_board(board: Board, where: str) -> None:
    """Check a board whose shape is right.

    Args:
        where: its file, for the message.

    Raises:
        BadInput: see the message.
    """
    check_safe(board, where)
    _check_regions(board, where)
    _check_maps(board, where)
    if board.kind is BoardKind.BARE:
        _check_vectors(board, {}, where)
        _check_room(board, where)


def check_safe(board: Board, where: str) -> None:
    """Check what goes to shells, paths and command lines: all but the memory, of which the report shows what is wrong.

    Raises:
        BadInput: see the message.
    """
    _check_text(msgspec.to_builtins(board), where, ())
    _check_processor(board, where)
    _check_toolchain(board, where)
    _check_emulators(board, where)
    _check_flash(board, where)


def _check_text(value: object, where: str, key: KeyPath) -> None:
    """Text goes to command lines, C, build files and terminals: nothing in it may be more than text."""
    if isinstance(value, dict):
        for name, part in value.items():
            _check_text(name, where, key)
            _check_text(part, where, (*key, name))
    elif isinstance(value, (list, tuple)):
        for index, part in enumerate(value):
            _check_text(part, where, (*key, index))
    elif isinstance(value, str):
        at = f"{where}: {dotted(key)}"
        if len(value) > _LONGEST_TEXT:
            raise BadInput(f"{len(value)} characters", where=at, hint=f"at most {_LONGEST_TEXT}")
        if strange := next((c for c in value if not c.isprintable()), None):
            raise BadInput(f"has the character {printable(strange)}", where=at, hint="write text on one line")


def _check_folders(board: Board, where: str) -> None:
    """They become paths, so only plain names of folders that are there."""
    runtime = data_folder("runtime_c")
    kernels = sorted(path.parent.name for path in (runtime / "kernels").glob("*/kernels.toml"))
    for index, name in enumerate(board.kernels):
        if name not in kernels:
            at = f"{where}: kernels[{index}]"
            raise BadInput(f"no kernel folder {name!r}", where=at, hint=nearest(name, kernels))
    ports = sorted(path.name for path in (runtime / "ports").iterdir() if path.is_dir())
    if board.port not in ports:
        raise BadInput(f"no port {board.port!r}", where=f"{where}: port", hint=nearest(board.port, ports))


def _check_processor(board: Board, where: str) -> None:
    if board.cpu.arch not in ARCHITECTURES:
        hint = nearest(board.cpu.arch, ARCHITECTURES)
        raise BadInput(f"unknown architecture {board.cpu.arch!r}", where=f"{where}: cpu.arch", hint=hint)
    if board.kernels[-1:] != ("portable",):
        raise BadInput(
            "the list does not end with portable", where=f"{where}: kernels", hint="every op has a portable kernel"
        )
    if repeated := _first_repeated(board.kernels):
        raise BadInput(f"{repeated!r} is there twice", where=f"{where}: kernels")
    _check_folders(board, where)
    if board.kind is BoardKind.BARE:
        if board.cpu.arch not in TRAPS:
            raise BadInput(
                f"no bare-metal start-up for {board.cpu.arch}", where=f"{where}: kind", hint='use kind = "linux"'
            )
        if board.stack <= 0 or board.stack % 16:
            raise BadInput(f"{board.stack} bytes", where=f"{where}: stack", hint="give a positive multiple of 16")
    elif board.stack < 0:
        raise BadInput(f"{board.stack} bytes", where=f"{where}: stack")
    if board.reserve < 0:
        raise BadInput(f"{board.reserve} bytes", where=f"{where}: reserve")


def _check_toolchain(board: Board, where: str) -> None:
    """These go into build files, and from there to a shell."""
    tools = board.toolchain
    if not re.fullmatch(r"[A-Za-z0-9_.+/-]*", tools.prefix):
        raise BadInput(f"{tools.prefix!r} is no prefix of programs", where=f"{where}: toolchain.prefix")
    for flag in tools.flags:
        if not re.fullmatch(r"-[A-Za-z0-9_.,:=+/-]+", flag):
            hint = "one option each, of letters, digits and .,:=+/_-"
            raise BadInput(f"{flag!r} is no compiler option", where=f"{where}: toolchain.flags", hint=hint)
        if flag in _OTHER_BITS:
            hint = "the bits of every float are part of the model"
            raise BadInput(f"{flag} changes results", where=f"{where}: toolchain.flags", hint=hint)
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", board.id):
        raise BadInput("the file's name is the board's", where=where, hint="use letters, digits and ._-")


def _check_regions(board: Board, where: str) -> None:
    bare = board.kind is BoardKind.BARE
    for region in board.memory:
        at = f"{where}: memory {region.name!r}"
        if not re.fullmatch(r"[a-z][a-z0-9_]*", region.name):
            raise BadInput("the name becomes a linker symbol", where=at, hint="use small letters, digits and _")
        if region.name in _LINKER_WORDS:
            raise BadInput("the name is a word of linker scripts", where=at, hint="choose another one")
        if (
            region.origin < 0
            or region.length < (1 if bare else 0)
            or (bare and region.origin + region.length > _ADDRESSES)
        ):
            raise BadInput(
                f"{region.length} bytes from {region.origin:#x}", where=at, hint="give the chip's own numbers, in bytes"
            )
        if not 0 <= region.budget <= region.length:
            raise BadInput(
                f"budget of {region.budget} bytes in {region.length}", where=at, hint="a budget is a part of the region"
            )
        if region.warn < 0 or (region.limit and region.warn > region.limit):
            what = f"warn above {region.warn} bytes, and {region.limit} may be used"
            raise BadInput(what, where=at, hint="give at most the budget, or 0 for no warning")
        _check_uses(region, at)
        for held in region.holds:
            if (region.kind is MemoryKind.FLASH) != (held in _READ_ONLY):
                hint = "are flash and ram swapped?"
                raise BadInput(f"a region of kind {region.kind} cannot hold {held}", where=at, hint=hint)
        if board.cpu.arch == "arm" and region.kind is MemoryKind.FLASH and region.origin in _ARM_SRAM:
            raise BadInput(
                f"flash at {region.origin:#x}, where the M profile has SRAM",
                where=at,
                hint="are flash and ram swapped?",
            )
    if repeated := _first_repeated(region.name for region in board.memory):
        raise BadInput(f"two regions are called {repeated!r}", where=f"{where}: memory")
    if board.cpu.arch != "arm" and (clocked := next((one.name for one in board.memory if one.clock), None)):
        raise BadInput("only the start-up for Arm M profile sets clocks", where=f"{where}: memory {clocked!r}")
    for what in (what for what in Holds if what is not Holds.KERNELS):
        if not any(what in region.holds for region in board.memory):
            raise BadInput(f"no region holds {what}", where=f"{where}: memory", hint="name it in one region's `holds`")
    if not bare and (kind := _first_repeated(region.kind for region in board.memory)):
        twice = f"two regions of kind {kind}, and nobody can tell Linux which one to use"
        raise BadInput(twice, where=f"{where}: memory", hint="give one of each kind")
    if bare and (pair := _overlap(board.memory, {})):
        raise BadInput(f"regions {pair[0]!r} and {pair[1]!r} overlap", where=f"{where}: memory")


def _check_vectors(board: Board, origins: dict[str, int], where: str) -> None:
    """The linker would put the vectors behind the origin, where the core does not look."""
    code, align = board.region_for(Holds.CODE), VECTORS_ALIGN[board.cpu.arch]
    origin = origins.get(code.name, code.origin)
    if origin % align:
        raise BadInput(
            f"code at {origin:#x}, where the core takes no vectors",
            where=f"{where}: memory {code.name!r}",
            hint=f"give an origin that is a multiple of {align}, the chip's own or where its bootloader jumps to",
        )


def _check_room(board: Board, where: str) -> None:
    """What is set aside must leave something to place."""
    for key, size, what in (("stack", board.stack, Holds.STACK), ("reserve", board.reserve, Holds.DATA)):
        region = board.region_for(what)
        if size >= region.limit:
            raise BadInput(
                f"{size} bytes, and {region.name!r} may hold {region.limit}",
                where=f"{where}: {key}",
                hint=f"lower {key} until there is room for the rest",
            )


def _check_uses(region: Region, at: str) -> None:
    if region.cost < 1:
        raise BadInput(f"cost {region.cost}", where=at, hint="the fastest memory has 1, others more")
    if Holds.KERNELS in region.holds and len(region.holds) > 1:
        raise BadInput("a region that holds kernels holds nothing else", where=at, hint="split it into two regions")
    if region.clock is not None and (Holds.STACK in region.holds or Holds.CODE in region.holds):
        raise BadInput("a clock for what the start-up itself needs", where=at, hint="it is on already, or nothing runs")
    if (clock := region.clock) is not None and not (
        0 < clock.register < _ADDRESSES and clock.register % 4 == 0 and 0 < clock.bits < _ADDRESSES
    ):
        what = f"clock bits {clock.bits:#x} in a register at {clock.register:#x}"
        raise BadInput(what, where=at, hint="a register has an address that is a multiple of 4, and 32 bits")


def _check_emulators(board: Board, where: str) -> None:
    if repeated := _first_repeated(emulator.name for emulator in board.emulators):
        raise BadInput(f"two emulators are called {repeated!r}", where=f"{where}: emulators")
    for emulator in board.emulators:
        at = f"{where}: emulator {emulator.name!r}"
        if not re.fullmatch(r"[a-z0-9][a-z0-9_.-]*", emulator.name) or emulator.name == "board":
            raise BadInput(
                "the name becomes part of file names", where=at, hint="use small letters, digits, - and _; not board"
            )
        if (emulator.kind is EmulatorKind.NATIVE) == bool(emulator.program):
            hint = "it starts by itself" if emulator.program else "name the executable"
            raise BadInput(f"program {emulator.program!r} for kind {emulator.kind}", where=at, hint=hint)
        if (emulator.kind is EmulatorKind.NATIVE) != (emulator.proves is Proves.MACHINE):
            what = f"kind {emulator.kind} proves {emulator.proves}"
            raise BadInput(what, where=at, hint="a native run proves the machine, and no other does")
        _check_trap(board, emulator, at)
        if strange := sorted(set(emulator.origins) - {region.name for region in board.memory}):
            raise BadInput(f"moves a region {strange[0]!r} that the board has not", where=at)
        if board.kind is BoardKind.BARE and emulator.kind is EmulatorKind.QEMU_SYSTEM:
            _check_vectors(board, emulator.origins, at)


def _check_flash(board: Board, where: str) -> None:
    """These go to command lines."""
    flash = board.flash
    if board.kind is BoardKind.LINUX and flash != Flash():
        raise BadInput("a program is copied onto a board with Linux", where=f"{where}: flash", hint="leave it out")
    for key in ("probe_rs", "pyocd", "esptool"):
        name = getattr(flash, key)
        if not re.fullmatch(r"([A-Za-z0-9][A-Za-z0-9_.-]*)?", name):
            raise BadInput(f"{name!r} is no name of a chip", where=f"{where}: flash.{key}", hint="as the tool lists it")
    for index, file in enumerate(flash.openocd):
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_./-]*\.cfg", file) or ".." in file:
            at = f"{where}: flash.openocd[{index}]"
            raise BadInput(f"{file!r} is no file of OpenOCD's", where=at, hint='for example "target/stm32f4x.cfg"')
    if not 0 <= flash.uf2 < _ADDRESSES:
        raise BadInput(f"{flash.uf2:#x}", where=f"{where}: flash.uf2", hint="a family id has 32 bits")
    if not re.fullmatch(r"([A-Za-z0-9][A-Za-z0-9 _-]{0,10})?", flash.drive):
        hint = "the label of a FAT drive has at most 11 characters: letters, digits, - and _"
        raise BadInput(f"{flash.drive!r}", where=f"{where}: flash.drive", hint=hint)


def _check_maps(board: Board, where: str) -> None:
    """Of a board file only: a package moves just the regions that it uses, and the others may then be in the way."""
    used = tuple(region for region in board.memory if region.holds)
    for emulator in board.emulators:
        if emulator.origins and (pair := _overlap(used, emulator.origins)):
            at = f"{where}: emulator {emulator.name!r}"
            raise BadInput(f"in its memory map, regions {pair[0]!r} and {pair[1]!r} overlap", where=at)


def _check_trap(board: Board, emulator: Emulator, at: str) -> None:
    allowed = TRAPS[board.cpu.arch] if board.kind is BoardKind.BARE else ("",)
    if emulator.trap not in allowed:
        wanted = " or ".join(allowed) or "none: the program has Linux"
        raise BadInput(f"trap {emulator.trap!r}", where=at, hint=f"for this board it is {wanted}")
    if board.kind is BoardKind.LINUX:
        if emulator.kind is EmulatorKind.QEMU_SYSTEM or emulator.origins:
            raise BadInput("a Linux program has no memory map of its own", where=at, hint="use native or qemu-user")
    elif emulator.kind is EmulatorKind.NATIVE:
        raise BadInput("a bare-metal image does not run by itself", where=at)
    elif (emulator.kind is EmulatorKind.QEMU_USER) != (emulator.trap == "svc"):
        raise BadInput(
            f"trap {emulator.trap!r} with kind {emulator.kind}",
            where=at,
            hint="svc belongs to qemu-user, and only there",
        )


def _overlap(regions: tuple[Region, ...], origins: dict[str, int]) -> tuple[str, str] | None:
    """Names of two regions that share an address."""
    spans = sorted((origins.get(region.name, region.origin), region.length, region.name) for region in regions)
    return next(
        ((left[2], right[2]) for left, right in pairwise(spans) if left[0] + left[1] > right[0]),
        None,
    )


def _first_repeated(names: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
