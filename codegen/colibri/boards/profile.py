"""What a board file says. One TOML per board; the loader is in `load.py`."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum

import msgspec


class MemoryKind(StrEnum):
    """Flash keeps its bytes without power and is never written at run time; RAM is."""

    FLASH = "flash"
    RAM = "ram"


class Holds(StrEnum):
    """What the linker puts into a region. Kernels are code that is copied into RAM at start-up; the rest is needed."""

    CODE = "code"
    WEIGHTS = "weights"
    DATA = "data"
    STACK = "stack"
    ARENA = "arena"
    KERNELS = "kernels"


class BoardKind(StrEnum):
    """Bare metal (own start-up and linker script), a program under Linux or Windows, or a WebAssembly module."""

    BARE = "bare"
    LINUX = "linux"
    WINDOWS = "windows"
    WASM = "wasm"


class EmulatorKind(StrEnum):
    """How an image is run without the board."""

    NATIVE = "native"
    QEMU_USER = "qemu-user"
    QEMU_SYSTEM = "qemu-system"
    WINE = "wine"
    WASMTIME = "wasmtime"
    NODE = "node"

    @property
    def is_qemu(self) -> bool:
        """Whether the plugin can watch a run there."""
        return self in (EmulatorKind.QEMU_USER, EmulatorKind.QEMU_SYSTEM)


class Proves(StrEnum):
    """What of the board a run has: the machine itself, its memory map, its core, or only its instruction set."""

    MACHINE = "machine"
    MAP = "map"
    CORE = "core"
    ISA = "isa"


class CompilerFamily(StrEnum):
    """Whose options a compiler takes: GNU, LLVM, or zig with LLVM inside and libraries of its own."""

    GCC = "gcc"
    CLANG = "clang"
    ZIG = "zig"


class Cpu(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The processor, as the compiler and the emulator name it.

    Attributes:
        arch: ``arm`` (M profile, under Linux 32-bit A profile), ``aarch64``, ``riscv32``, ``riscv64``, ``x86_64`` or
            ``wasm32``.
        core: name of the core as its maker has it, e.g. ``Cortex-M7``, or of an instruction set, e.g. ``RV32IMAC``.
        fpu: whether fp32 arithmetic and square root are instructions; compared with what the compiler does.
        unlisted: whether the core is in no list of Colibri's; then nothing here knows its cycles or its options.
    """

    arch: str
    core: str
    fpu: bool
    unlisted: bool = False


class Clock(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A register whose bits switch a region on: the start-up sets them before anything touches it.

    Attributes:
        register: its address.
        bits: to be set; the others stay.
    """

    register: int
    bits: int


class Region(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One memory region.

    Attributes:
        origin: first address; 0 where a loader chooses.
        length: bytes, the physical wall; 0 without a limit, where a loader chooses.
        budget: bytes that may be used, at most ``length``; 0 means ``length``.
        warn: bytes, with the reserve, above which the report warns; at most what may be used; 0 means never.
        holds: what goes there; empty when nothing does by default. Several regions may hold the arena.
        clock: what switches the region on; None when it always is. An emulator has no such register.
        cost: time of a byte moved, relative to the fastest memory of the board: hot buffers go where it is small.
        needs: what others must have done before the region answers, such as setting up an external memory: it goes on
            "The region needs …", and stands in the README of packages that use it.
    """

    name: str
    kind: MemoryKind
    length: int
    origin: int = 0
    budget: int = 0
    warn: int = 0
    holds: tuple[Holds, ...] = ()
    cost: int = 1
    clock: Clock | None = None
    needs: str = ""

    @property
    def limit(self) -> int:
        """Bytes that may be used; 0 when there is no limit."""
        return self.budget or self.length


class Toolchain(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Compiler of the board.

    Attributes:
        prefix: before ``gcc``, ``ar``, ``objcopy``, ``objdump`` and ``size``; empty for the host's compiler.
        clang_target: value of ``--target`` for clang.
        flags: processor options, given to compiler, assembler and linker alike; those of gcc and clang.
        apt: Debian and Ubuntu packages that install it, for the hint when it is missing.
        family: which compiler serves when none is asked for with ``--toolchain``.
        cflags: more options for C, behind Colibri's own, as ``--cflag`` adds them.
        sysroot: folder of the target's headers and libraries, as ``--sysroot`` gives it; empty for the compiler's own.
    """

    prefix: str
    clang_target: str
    flags: tuple[str, ...]
    apt: tuple[str, ...]
    family: CompilerFamily = CompilerFamily.GCC
    cflags: tuple[str, ...] = ()
    sysroot: str = ""


class Emulator(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One way to run the board's image.

    Attributes:
        name: unique in the board; used in file names: small letters, digits, ``-`` and ``_``, but not ``board``.
        kind: see `EmulatorKind`.
        program: the executable, e.g. ``qemu-system-arm``; empty for native, and for wasmtime, a Python package.
        args: arguments before the image, e.g. ``["-M", "netduinoplus2"]``.
        proves: see `Proves`.
        trap: instruction that reaches the host, on bare metal: ``bkpt``, on Arm under qemu-user ``svc``, on RISC-V
            ``ebreak``; else empty.
        origins: region to its address where the emulator has it elsewhere than the board; bare metal only. They matter
            to packages that use the region.
        apt: Debian and Ubuntu packages that install it, for the hint when it is missing.
        note: one sentence on what this run does not show.
    """

    name: str
    kind: EmulatorKind
    proves: Proves
    program: str = ""
    args: tuple[str, ...] = ()
    trap: str = ""
    origins: dict[str, int] = {}
    apt: tuple[str, ...] = ()
    note: str = ""


class Flash(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a program gets onto the board: what each tool calls it. What is empty is not known to that tool.

    Attributes:
        probe_rs: the chip, as in ``probe-rs chip list``.
        openocd: configuration files of OpenOCD, for ``-f`` in this order.
        pyocd: the target, as in ``pyocd list --targets``.
        st_flash: whether it is an STM32 behind an ST-LINK, whose own flash holds all of the program.
        picotool: whether its boot ROM is one that ``picotool`` talks to.
        esptool: the chip, as ``esptool --chip`` takes it; the program is written to the start of its flash.
        uf2: family id of the UF2 files that its bootloader takes; 0 means none, and no .uf2 is made.
        drive: label of the drive that its bootloader or debug probe shows: the .uf2, or else the .hex, is copied there.
    """

    probe_rs: str = ""
    openocd: tuple[str, ...] = ()
    pyocd: str = ""
    st_flash: bool = False
    picotool: bool = False
    esptool: str = ""
    uf2: int = 0
    drive: str = ""


class Level(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A set of instructions beyond those of the board's flags: the layers are compiled for it too.

    Attributes:
        name: ends the names of its functions, and is what the processor is asked for: a ``colibri_has_…`` of
            ``runtime_c/processors``.
        target: as gcc and clang take it in the attribute of that name.
        kernels: folders in ``runtime_c/kernels`` by preference, which read the same packing as those of the board.
    """

    name: str
    target: str
    kernels: tuple[str, ...]


class Board(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A board profile, inheritance already applied.

    Attributes:
        id: the file's name without ``.toml``.
        title: one line for people.
        sources: documents that each number comes from, for people.
        kind: see `BoardKind`.
        kernels: folders in ``runtime_c/kernels`` by preference; ``portable`` closes the list.
        port: folder in ``runtime_c/ports`` with start-up and console.
        stack: bytes reserved for the stack, on bare metal and in WebAssembly a positive multiple of 16, else 0.
        reserve: bytes kept for the application in the region that holds data.
        memory: regions in the order of the report.
        flash: see `Flash`; under Linux a program is copied, and all of it is empty.
        levels: sets of instructions to choose from at run time, from the least up; none for what the flags say alone.
    """

    id: str
    title: str
    sources: tuple[str, ...]
    kind: BoardKind
    cpu: Cpu
    kernels: tuple[str, ...]
    port: str
    toolchain: Toolchain
    memory: tuple[Region, ...]
    emulators: tuple[Emulator, ...]
    stack: int = 0
    reserve: int = 0
    flash: Flash = Flash()
    levels: tuple[Level, ...] = ()

    def region_for(self, what: Holds) -> Region:
        """The first region that holds ``what`` (the loader guarantees that there is one)."""
        return next(region for region in self.memory if what in region.holds)

    @property
    def hot_region(self) -> str:
        """Region of flash for hot weights: a further one that holds weights, cheaper than the first; empty for none."""
        main = self.region_for(Holds.WEIGHTS)
        others = [
            region
            for region in self.memory
            if region.kind is MemoryKind.FLASH and Holds.WEIGHTS in region.holds and region.cost < main.cost
        ]
        return min(others, key=lambda region: region.cost).name if others else ""


def for_regions(board: Board, used: Collection[str]) -> Board:
    """The board as a package sees it that uses only some regions: what an emulator moves besides does not matter.

    An emulator that still moves a region no longer proves the memory map.
    """
    emulators = []
    for emulator in board.emulators:
        origins = {name: origin for name, origin in emulator.origins.items() if name in used}
        proves = Proves.CORE if origins and emulator.proves is Proves.MAP else emulator.proves
        emulators.append(msgspec.structs.replace(emulator, origins=origins, proves=proves))
    return msgspec.structs.replace(board, emulators=tuple(emulators))
