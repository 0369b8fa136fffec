"""The functions of a linked image: their stack, and who calls whom."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from colibri.errors import BadInput, ToolMissing
from colibri.footprint.compiler_frames import CompilerFrames, Frame
from colibri.footprint.linker import parse_map
from colibri.footprint.machine_code import Call, Code, MachineCode
from colibri.footprint.pe import read_pe
from colibri.footprint.register_calls import direct_calls
from colibri.footprint.stack_effects import READERS, Instruction, parse_disassembly
from colibri.symbol_table import SymbolKind, symbols_of

_STACK = ("port_stack_limit", "port_stack_top")


@dataclass(frozen=True)
class Function:
    """One function of the image.

    Attributes:
        bytes: of stack that it uses itself.
        calls: callee's first address, and the bytes of this function's that lie above the callee's.
        unknown: why its use cannot be bounded, its callees aside; empty when it can.
        switches: whether it sets the stack pointer itself, as start-up code does.
        compiler: what gcc said of it, or None.
        machine: what its instructions say.
    """

    name: str
    bytes: int
    calls: tuple[Call, ...]
    unknown: str
    switches: bool
    compiler: Frame | None
    machine: Code


class CallTree:
    """Functions of an image, read when they are asked for.

    Attributes:
        public: names of global functions.
        pushed: bytes that a call itself pushes.
        reserve: bytes between `port_stack_limit` and `port_stack_top`; 0 when the image has no such symbols.

    Args:
        image: an ELF file or a Windows program of the package, linked with its map beside it.
        frames: of the package's objects.
        arch: as the board file names it.
        objdump: of the board's toolchain.

    Raises:
        BadInput: the image cannot be read, or the processor is not known here.
        ToolMissing: no objdump.
    """

    def __init__(self, image: Path, frames: CompilerFrames, arch: str, objdump: str) -> None:
        if arch not in READERS:
            raise BadInput(f"no reader for the machine code of {arch}", where=str(image))
        decode, _, self.pushed = READERS[arch]
        self._frames = frames
        symbols = _read_symbols(image)
        self._functions, self.public, self.reserve = symbols.functions, symbols.public, symbols.reserve
        self._names: dict[int, str] = {}
        for start, _, name in self._functions:
            self._names.setdefault(start, name)
        self._addresses = {name: start for start, _, name in reversed(self._functions)}
        self._objects = _objects(image)
        self._code = MachineCode(disassemble(image, objdump, arch), self._functions, decode, self.pushed)
        self._read: dict[int, Function] = {}

    def address(self, name: str) -> int | None:
        """First address of a function, or None. Of several with one name, the lowest."""
        return self._addresses.get(name)

    def extents(self, address: int) -> list[tuple[int, int]]:
        """First address and the one behind the last of a function, and of its cold part."""
        cold = {f"{name}.cold" for start, _, name in self._functions if start == address}
        starts = [address, *(start for start, _, name in self._functions if name in cold)]
        return [(start, self._code.end(start)) for start in starts]

    def name(self, address: int) -> str:
        """What a function is called."""
        return self._names.get(address, f"{address:#x}")

    def function(self, address: int) -> Function:
        """The function that starts at an address."""
        if address not in self._read:
            self._read[address] = self._make(address)
        return self._read[address]

    def _make(self, address: int) -> Function:
        if address not in self._names:
            return Function(self.name(address), 0, (), "no symbol names the code there", False, None, Code(0, ()))
        name, code = self._names[address], self._code.read(address)
        names = {function for start, _, function in self._functions if start == address}
        object_ = self._object(address)
        found = [frame for one in sorted(names) if (frame := self._frames.of(object_, one))]
        frame = max(found, key=lambda one: one.bytes, default=None)
        used = max(code.depth, frame.bytes if frame else 0)
        # Where the code moves the stack by a register, only the compiler knows the frame: all of it counts.
        calls = tuple(Call(call.target, used) for call in code.calls) if code.unsteady else code.calls
        return Function(name, used, calls, what_is_unknown(code, frame), code.switches, frame, code)

    def _object(self, address: int) -> str:
        for start, end, object_ in self._objects:
            if start <= address < end:
                return object_
        return ""


def what_is_unknown(code: Code, frame: Frame | None) -> str:
    """Why the stack of a function cannot be bounded, its callees aside; empty when it can."""
    if frame is not None and not frame.bounded:
        return "its frame depends on data"
    if code.unsteady and frame is None:
        return f"its frame is not constant ({code.unsteady})"
    if code.indirect or (frame is not None and frame.indirect):
        where = f" at {code.indirect[0]:#x}" if code.indirect else ""
        return f"it calls through a pointer{where}"
    return ""


def _objects(image: Path) -> list[tuple[int, int, str]]:
    """Start, end and object of each piece of code that the linker's map has."""
    try:
        text = image.with_suffix(".map").read_text(errors="replace")
    except OSError:
        raise BadInput("the linker's map is missing", where=str(image), hint="build the package again") from None
    return [
        (one.address, one.address + one.bytes, one.object)
        for one in parse_map(text)
        if one.name.startswith((".text", ".vectors")) and one.object
    ]


def disassemble(image: Path, objdump: str, arch: str) -> list[Instruction]:
    """All instructions of an image, in its order; see `direct_calls` for what it makes of some.

    Raises:
        BadInput: the disassembler does not know the image.
        ToolMissing: no objdump.
    """
    if shutil.which(objdump) is None:
        raise ToolMissing(f"{objdump} is not installed", where=str(image), hint="it comes with the compiler")
    command = [objdump, "-d", "--no-show-raw-insn", str(image)]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False
    )
    if done.returncode != 0:
        raise BadInput(f"{objdump} cannot disassemble it", where=str(image), hint=done.stderr.strip()[-200:])
    decode, comment, _ = READERS[arch]
    instructions = parse_disassembly(done.stdout, comment)
    return direct_calls(instructions, done.stdout, decode) if arch == "arm" else instructions


@dataclass(frozen=True)
class _SymbolTable:
    """Functions as (start, size, name) ascending, names of global ones, bytes between the ends of the stack."""

    functions: list[tuple[int, int, str]]
    public: frozenset[str]
    reserve: int


def _read_symbols(image: Path) -> _SymbolTable:
    table, thumb = symbols_of(image) if image.suffix == ".elf" else (read_pe(image).table, False)
    functions = [symbol for symbol in table if symbol.kind is SymbolKind.FUNCTION]
    limits = {symbol.name: symbol.value for symbol in table if symbol.name in _STACK}
    return _SymbolTable(
        sorted({(symbol.value & ~int(thumb), symbol.bytes, symbol.name) for symbol in functions}),
        frozenset(symbol.name for symbol in functions if symbol.public),
        limits.get(_STACK[1], 0) - limits.get(_STACK[0], 0),
    )
