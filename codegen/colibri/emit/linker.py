"""Linker scripts for bare-metal boards, and the port's sources that go with them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import or_
from pathlib import Path

from colibri.boards.profile import (
    Board,
    BoardKind,
    Clock,
    CompilerFamily,
    Emulator,
    EmulatorKind,
    Holds,
    MemoryKind,
    Region,
)
from colibri.called import paints
from colibri.emit.literals import comment_text
from colibri.emit.templates import render
from colibri.errors import BadInput
from colibri.package import Block, FastCode, Memory, Package, used_regions
from colibri.paths import data_folder
from colibri.toolchain.buildfiles import OVERSIZE_SCRIPT, script_name
from colibri.toolchain.compiler import standard_compiler

TEMPLATE = "package/board.ld.j2"

_READ, _WRITE, _EXECUTE = 4, 2, 1
_ACCESS = {
    _READ | _EXECUTE: "read, execute",
    _READ: "read",
    _READ | _WRITE: "read, write",
}

_BEYOND = 1 << 30  # bytes that a region without a wall is longer

# Loaders map whole pages, so what has its own segment in a Linux program must not share a page with another.
_PAGE = 4096


@dataclass(frozen=True)
class _RegionRow:
    """One line of MEMORY, and its two symbols.

    Attributes:
        length: as the linker is told.
        board_length: as the board has it.
    """

    name: str
    access: str
    origin: str
    length: str
    board_length: str
    holds: str


@dataclass(frozen=True)
class _Segment:
    """One line of PHDRS."""

    name: str
    flags: int

    @property
    def access(self) -> str:
        return _ACCESS[self.flags]


@dataclass(frozen=True)
class _Segments:
    """Which segment each group of sections goes to. Names are unique, equal names are the same segment."""

    code: _Segment
    weights: _Segment
    stack: _Segment
    data: _Segment
    bss: _Segment
    blocks: tuple[_Segment, ...]
    vectors: _Segment
    hot: _Segment
    fast: tuple[_Segment, ...]

    def rows(self) -> list[_Segment]:
        apart = tuple(one for one in (self.weights, self.hot) if one != self.code)
        read_only = (*apart, self.vectors, *self.fast, self.code)
        return list(dict.fromkeys((*read_only, self.stack, self.data, self.bss, *self.blocks)))


@dataclass(frozen=True)
class _BlockRow:
    """Where a block of the model's memory goes."""

    section: str
    region: str
    segment: str


def block_section(block: Block) -> str:
    """Section that a program puts a block of the model's memory into, for the linker script to find."""
    return f".colibri.{block.region}"


@dataclass(frozen=True)
class Plan:
    """What of a package the linker must know.

    Attributes:
        memory: says where the model's memory goes.
        fast_code: kernels that run from RAM.
        hot: region of the weights in `hot.bin`; empty when there is none.
    """

    memory: Memory
    fast_code: FastCode | None = None
    hot: str = ""

    @classmethod
    def of(cls, package: Package) -> Plan:
        """The plan of a package."""
        return cls(package.memory, package.fast_code, package.hot_weights.region if package.hot_weights else "")


def linker_scripts(package: Package) -> dict[str, str]:
    """All scripts of a package, by their paths in it; none but on bare metal.

    Raises:
        BadInput: see `linker_script`.
    """
    board, plan = package.board, Plan.of(package)
    if board.kind is not BoardKind.BARE:
        return {}
    named = {script_name(board, emulator): emulator for emulator in reversed((None, *board.emulators))}
    scripts = {name: linker_script(board, emulator, package.prefix, plan) for name, emulator in named.items()}
    if (package.compiler or standard_compiler(board)).family is not CompilerFamily.GCC:
        scripts[OVERSIZE_SCRIPT] = linker_script(board, None, package.prefix, plan, walls=False)
    return scripts


def linker_script(board: Board, emulator: Emulator | None, prefix: str, plan: Plan, *, walls: bool = True) -> str:
    """Return the GNU ld and lld script of a package for a bare-metal board.

    Args:
        board: its regions say where code, weights, data and stack go.
        emulator: whose memory map differs from the board's (``origins``), or None for the board itself. For
            user-mode QEMU the loader fills ``.data``, so it is not copied from flash.
        prefix: of the model, for the banner.
        plan: where the parts of the model go.
        walls: whether regions end where the board's do; without, an image that is too large can be measured.

    Raises:
        BadInput: not bare metal, no stack size, or an emulator's origin for a region that the board has not.
    """
    _check(board, emulator)
    user_mode = emulator is not None and emulator.kind is EmulatorKind.QEMU_USER
    riscv = board.cpu.arch.startswith("riscv")
    fast = plan.fast_code or FastCode("", ())
    segments = _segments(board, plan, user_mode)
    values: dict[str, object] = {
        "title": comment_text(board.title),
        "walls": walls,
        "emulator": emulator.name if emulator else "",
        "prefix": prefix,
        "regions": [_region_row(region, emulator, walls) for region in board.memory],
        "segments": segments.rows(),
        "vectors_note": _vectors_note(board, user_mode),
        "vectors_required": not user_mode,
        "vectors_align": 4 if riscv else 128,
        "code": board.region_for(Holds.CODE).name,
        "weights": board.region_for(Holds.WEIGHTS).name,
        "data": board.region_for(Holds.DATA).name,
        "stack": board.region_for(Holds.STACK).name,
        "blocks": [
            _BlockRow(block_section(block), block.region, segment.name)
            for block, segment in zip(plan.memory.blocks, segments.blocks, strict=True)
        ],
        "code_segment": segments.code.name,
        "weights_segment": segments.weights.name,
        "stack_segment": segments.stack.name,
        "data_segment": segments.data.name,
        "bss_segment": segments.bss.name,
        "fast_region": fast.region,
        "fast_segment": "".join(one.name for one in segments.fast),
        "vectors_segment": segments.vectors.name,
        "fast_functions": fast.functions,
        "clock": _clock(board, emulator, plan),
        "hot": plan.hot,
        "hot_segment": segments.hot.name,
        "stack_bytes": board.stack,
        "data_align": _PAGE if user_mode else 8,
        "copied": not user_mode,
        "small_data": riscv,
        "small_rodata": " .srodata .srodata.*" if riscv else "",
        "flash_guard": riscv,
    }
    return render(TEMPLATE, values)


def port_files(board: Board, *, threads: bool = False) -> list[Path]:
    """Return the port's sources and headers, in a fixed order, relative to ``runtime_c/ports``.

    The ``.c`` files are compiled, for bare metal with ``-DPORT_TRAP_BKPT``, ``-DPORT_TRAP_SVC`` or
    ``-DPORT_TRAP_EBREAK``; the headers lie beside them. They include each other by this layout.

    Args:
        threads: with the pool of threads.

    Raises:
        BadInput: the board's port is not one of the folders.
    """
    shared = ["port.h", "frames.h", "frames.c", "fault.h", "fault.c"]
    if board.kind is BoardKind.BARE:
        shared += ["semihosting.h", "semihosting.c", "memory.c"]
    if board.kind is BoardKind.WASM:
        shared += ["memory.c"]
    if board.kind in (BoardKind.BARE, BoardKind.LINUX):
        shared += ["latency.h"]
    if paints(board):
        shared += ["paint.h"]
    folder = data_folder("runtime_c") / "ports"
    own = sorted(path.relative_to(folder) for path in (folder / board.port).glob("*.[ch]"))
    if not own:
        raise BadInput(f"no port {board.port!r}", where=f"board {board.id}", hint=f"the ports are in {folder}")
    return [Path(name) for name in (*shared, *(("threads/pool.h", "threads/pool.c") if threads else ()))] + own


def _check(board: Board, emulator: Emulator | None) -> None:
    where = f"board {board.id}"
    if board.kind is not BoardKind.BARE:
        raise BadInput("only bare metal has a linker script", where=where)
    if board.stack <= 0 or board.stack % 16:
        raise BadInput(f"stack of {board.stack} bytes", where=where, hint="give a positive multiple of 16")
    unknown = sorted(set(emulator.origins) - {region.name for region in board.memory}) if emulator else []
    if unknown:
        raise BadInput(f"emulator moves region {unknown[0]!r}, which the board has not", where=where)


def _region_row(region: Region, emulator: Emulator | None, walls: bool) -> _RegionRow:
    origin = emulator.origins.get(region.name, region.origin) if emulator else region.origin
    return _RegionRow(
        name=region.name,
        access="rx" if region.kind is MemoryKind.FLASH else "rwx" if Holds.KERNELS in region.holds else "rw",
        origin=f"0x{origin:08x}",
        length=_size(region.length if walls else region.length + _BEYOND),
        board_length=f"LENGTH({region.name})" if walls else _size(region.length),
        holds=", ".join(region.holds) or "free",
    )


def _size(length: int) -> str:
    """``2M`` for 2097152, as a person would write it."""
    for unit, name in ((1 << 20, "M"), (1 << 10, "K")):
        if length % unit == 0:
            return f"{length // unit}{name}"
    return str(length)


def _clock(board: Board, emulator: Emulator | None, plan: Plan) -> Clock:
    """What the start-up must set before it calls anybody: one register, as one chip's regions share it.

    Raises:
        BadInput: two registers.
    """
    used = used_regions(board, plan.memory, plan.fast_code, plan.hot)
    clocks = [region.clock for region in board.memory if region.name in used and region.clock is not None]
    if emulator is not None or not clocks:
        return Clock(0, 0)
    if len({clock.register for clock in clocks}) > 1:
        raise BadInput("two registers switch regions of this package on", where=f"board {board.id}")
    return Clock(clocks[0].register, reduce(or_, (clock.bits for clock in clocks)))


def _segments(board: Board, plan: Plan, user_mode: bool) -> _Segments:
    """Group the sections by region and access. A segment for a region ends with ``_segment``, so names differ.

    On a board the first values of .data travel in flash, so it is a segment of its own. A user-mode emulator
    maps what follows .data in the same region together with it, as pages cannot be shared. Fast code lies in flash
    between vectors and code, so these are then two segments.
    """
    fast, hot = plan.fast_code, plan.hot
    code = board.region_for(Holds.CODE).name
    weights = board.region_for(Holds.WEIGHTS).name
    data = board.region_for(Holds.DATA).name
    read_only = _Segment(f"{code}_segment", _READ | _EXECUTE)
    initialised = _Segment("initialised", _READ | _WRITE)
    zeroed = initialised if user_mode else _Segment(f"{data}_segment", _READ | _WRITE)
    return _Segments(
        code=read_only,
        hot=read_only if hot in ("", code) else _Segment(f"{hot}_segment", _READ),
        weights=read_only if weights == code else _Segment(f"{weights}_segment", _READ),
        stack=_Segment("stack", _READ | _WRITE),
        data=initialised,
        bss=zeroed,
        blocks=tuple(
            zeroed if block.region == data else _Segment(f"{block.region}_segment", _READ | _WRITE)
            for block in plan.memory.blocks
        ),
        vectors=_Segment("vectors", _READ | _EXECUTE) if fast and not user_mode else read_only,
        fast=(_Segment(f"{fast.region}_segment", _READ | _EXECUTE),) if fast else (),
    )


def _vectors_note(board: Board, user_mode: bool) -> str:
    if board.cpu.arch.startswith("riscv"):
        return "The core begins at the first address of its memory."
    if user_mode:
        return "Empty: the loader goes to the entry point."
    return "The core loads its stack pointer and its first address from here."
