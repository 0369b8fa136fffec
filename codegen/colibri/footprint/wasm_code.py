"""The functions of a WebAssembly module or object: what they are called, what they call, what they take of the stack.

The stack is the one in the module's memory, on which C puts what has an address. Return addresses and most local
variables lie on a stack of the engine's own, of which a module knows nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from colibri.checkpoint.untrusted import read_bounded
from colibri.errors import BadInput
from colibri.footprint.machine_code import Call, Code
from colibri.footprint.wasm import WasmModule, number, read_module

_MOST_BYTES = 1 << 32
_ALIGNED = 16  # WebAssembly tool conventions: the stack pointer is a multiple of it
_FUNCTION_NAMES = 1  # subsection of the custom section "name"
_SYMBOLS = 8  # subsection of the custom section "linking", WebAssembly tool conventions
_UNDEFINED, _EXPLICIT_NAME, _LOCAL = 0x10, 0x40, 0x02

# WebAssembly Core Specification 2.0, 5.4: what follows an opcode. n a number, m two of them (a memory's alignment and
# offset), b a byte, 4, 8 and 16 as many bytes, v a list of numbers, t a list of numbers and one more.
_CALL, _CALL_INDIRECT, _LOCAL_GET, _LOCAL_SET, _LOCAL_TEE, _GLOBAL_GET, _GLOBAL_SET = 0x10, 0x11, *range(0x20, 0x25)
_CONST, _ADD, _SUB, _AND = 0x41, 0x6A, 0x6B, 0x71
_IMMEDIATES: dict[int, str] = {
    **dict.fromkeys((0x00, 0x01, 0x05, 0x0B, 0x0F, 0x1A, 0x1B, 0xD1, *range(0x45, 0xC5)), ""),
    **dict.fromkeys((0x02, 0x03, 0x04, 0x0C, 0x0D, _CALL, *range(0x20, 0x27), 0x3F, 0x40, 0x41, 0x42, 0xD0, 0xD2), "n"),
    **dict.fromkeys((_CALL_INDIRECT, *range(0x28, 0x3F)), "m"),
    0x0E: "t",
    0x1C: "v",
    0x43: "4",
    0x44: "8",
}
_MISC, _VECTOR = 0xFC, 0xFD
_IMMEDIATES |= {_MISC << 8 | one: "m" if one in (8, 10, 12, 14) else "n" if one > 8 else "" for one in range(18)}
_IMMEDIATES |= {_VECTOR << 8 | one: "" for one in range(0x114)}
_IMMEDIATES |= {_VECTOR << 8 | one: "m" for one in (*range(12), 92, 93)}
_IMMEDIATES |= {_VECTOR << 8 | one: "16" for one in (12, 13)}
_IMMEDIATES |= {_VECTOR << 8 | one: "b" for one in range(21, 35)}
_IMMEDIATES |= {_VECTOR << 8 | one: "mb" for one in range(84, 92)}


@dataclass(frozen=True)
class WasmFunctions:
    """The functions of a module, by index; imported ones come first and have no code.

    Attributes:
        names: of those that the section "name" has.
        code: for each, its calls, whose targets are indices, and its use of the stack.
    """

    names: dict[int, str]
    code: dict[int, Code]


def read_functions(path: Path, stack: int) -> WasmFunctions:
    """Read the functions of a linked module.

    Args:
        stack: bytes of its stack, which wasm-ld has put at the bottom of the memory; so much is the stack pointer.

    Raises:
        BadInput: no module, one that is cut off, has instructions that are not known, or no such stack.
    """
    module, data = read_module(path), read_bounded(path, _MOST_BYTES)
    try:
        if _first_global(module, data) != stack:
            raise BadInput("the module's first global is not the stack pointer", where=path.name)
        imports = _imported(module, data)
        code = dict(enumerate(_bodies(module, data), imports))
        return WasmFunctions(_names(module, data), code)
    except (IndexError, KeyError, UnicodeDecodeError):
        raise BadInput("its code cannot be read", where=path.name, hint="build the package again") from None


def public_functions(path: Path) -> frozenset[str]:
    """Names of the functions that an object defines for others, from its section "linking".

    Raises:
        BadInput: no object, or a damaged one.
    """
    module, data = read_module(path), read_bounded(path, _MOST_BYTES)
    found: set[str] = set()
    try:
        for kind, at, _ in _subsections(module, data, "linking", 1):
            if kind == _SYMBOLS:
                found.update(_public(data, at))
    except (IndexError, UnicodeDecodeError):
        raise BadInput("its symbols cannot be read", where=path.name, hint="build the package again") from None
    return frozenset(found)


def _public(data: bytes, at: int) -> Iterator[str]:
    count, at = number(data, at)
    for _ in range(count):
        kind = data[at]
        flags, at = number(data, at + 1)
        if kind == 3:  # a section
            _, at = number(data, at)
            continue
        name, defined = "", not flags & _UNDEFINED
        if kind != 1:
            _, at = number(data, at)
        if kind == 1 or defined or flags & _EXPLICIT_NAME:
            name, at = _text(data, at)
        if kind == 1 and defined:  # segment, offset, size
            for _ in range(3):
                _, at = number(data, at)
        if kind == 0 and defined and not flags & _LOCAL:
            yield name


def _subsections(module: WasmModule, data: bytes, name: str, skip: int = 0) -> Iterator[tuple[int, int, int]]:
    """Kind, start and end of each part of a custom section, behind ``skip`` bytes of version."""
    section = next((one for one in module.sections if one.custom and one.name == name), None)
    if section is None:
        return
    at, end = section.start + skip, section.end
    while at < end:
        kind = data[at]
        size, start = number(data, at + 1)
        yield kind, start, start + size
        at = start + size


def _text(data: bytes, at: int) -> tuple[str, int]:
    size, at = number(data, at)
    return data[at : at + size].decode(), at + size


def _names(module: WasmModule, data: bytes) -> dict[int, str]:
    found: dict[int, str] = {}
    for kind, at, _ in _subsections(module, data, "name"):
        if kind == _FUNCTION_NAMES:
            count, at = number(data, at)
            for _ in range(count):
                index, at = number(data, at)
                found[index], at = _text(data, at)
    return found


def _imported(module: WasmModule, data: bytes) -> int:
    """How many functions a module imports; one that imports anything else is not Colibri's."""
    start = module.start("import")
    if start is None:
        return 0
    count, at = number(data, start)
    for _ in range(count):
        _, at = _text(data, at)
        _, at = _text(data, at)
        if data[at] != 0:
            raise KeyError
        _, at = number(data, at + 1)
    return count


def _first_global(module: WasmModule, data: bytes) -> int | None:
    """What it begins with, when it is an i32 that changes."""
    start = module.start("global")
    at = number(data, start)[1] if start is not None else 0
    return _signed(data, at + 3)[0] if data[at : at + 3] == b"\x7f\x01\x41" else None


def _bodies(module: WasmModule, data: bytes) -> Iterator[Code]:
    start = module.start("code")
    count, at = number(data, start) if start is not None else (0, 0)
    for _ in range(count):
        size, body = number(data, at)
        at = body + size
        groups, body = number(data, body)
        for _ in range(groups):  # of locals: how many, and their type
            body = number(data, body)[1] + 1
        yield _follow(_instructions(data, body, at))


def _instructions(data: bytes, at: int, end: int) -> Iterator[tuple[int, int]]:
    """Opcode and first number of each instruction.

    Raises:
        KeyError: an opcode that is not known here.
    """
    while at < end:
        opcode, value = data[at], 0
        at += 1
        if opcode in (_MISC, _VECTOR):
            more, at = number(data, at)
            opcode = opcode << 8 | more
        kinds = _IMMEDIATES[opcode]
        if kinds.isdigit():
            at += int(kinds)
        elif kinds == "n":
            value, at = _signed(data, at) if opcode in (_CONST, 0x42) else number(data, at)
        elif kinds in ("v", "t"):
            count, at = number(data, at)
            for _ in range(count + (kinds == "t")):
                _, at = number(data, at)
        elif kinds:
            value, at = number(data, at)
            at = number(data, at)[1] + kinds.count("b") if "m" in kinds else at
        yield opcode, value


def _signed(data: bytes, at: int) -> tuple[int, int]:
    """A signed LEB128 number of at most 64 bits, and the offset behind it."""
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value - (byte >> 6 << shift + 7), at
    raise IndexError


@dataclass(frozen=True)
class _Below:
    """The stack pointer that a function began with, less so many bytes."""

    bytes: int


_Value = _Below | int | None  # a constant, or what is not known


@dataclass
class _State:
    """What is known while the instructions of a function are read in their order.

    Attributes:
        frame: most bytes that the stack pointer was moved by.
        deepest: most bytes that an address was below the first stack pointer.
    """

    operands: list[_Value] = field(default_factory=list)
    locals: dict[int, _Value] = field(default_factory=dict)
    frame: int = 0
    deepest: int = 0
    unsteady: str = ""
    calls: dict[int, int] = field(default_factory=dict)
    indirect: list[int] = field(default_factory=list)

    def pop(self) -> _Value:
        return self.operands.pop() if self.operands else None


def _follow(instructions: Iterator[tuple[int, int]]) -> Code:
    """A compiler moves the stack pointer where a function begins, so that the order of the code is that of the run.

    A leaf may use memory below the stack pointer without moving it; so each address that is made from it counts.
    """
    state = _State()
    for position, (opcode, value) in enumerate(instructions):
        _step(state, opcode, value, position)
    calls = tuple(Call(target, state.frame) for target in sorted(state.calls))
    return Code(state.deepest, calls, tuple(state.indirect), state.unsteady)


def _step(state: _State, opcode: int, value: int, position: int) -> None:
    if opcode == _GLOBAL_GET:
        state.operands.append(_Below(state.frame) if value == 0 else None)
    elif opcode == _CONST:
        state.operands.append(value)
    elif opcode == _LOCAL_GET:
        state.operands.append(state.locals.get(value))
    elif opcode in (_LOCAL_SET, _LOCAL_TEE):
        state.locals[value] = state.pop()
        if opcode == _LOCAL_TEE:
            state.operands.append(state.locals[value])
    elif opcode in (_ADD, _SUB, _AND):
        right, left = state.pop(), state.pop()
        made = _made(opcode, left, right)
        state.operands.append(made)
        if isinstance(made, _Below):
            state.deepest = max(state.deepest, made.bytes)
    elif opcode == _GLOBAL_SET and value == 0:
        set_to = state.pop()
        if isinstance(set_to, _Below):
            state.frame = max(state.frame, set_to.bytes)
        else:
            state.unsteady = "global.set of what is no constant"
    else:
        if opcode == _CALL:
            state.calls[value] = 0
        elif opcode == _CALL_INDIRECT:
            state.indirect.append(position)
        state.operands.clear()  # what else it takes and leaves is not followed


def _made(opcode: int, left: _Value, right: _Value) -> _Value:
    if isinstance(left, int) and isinstance(right, _Below) and opcode == _ADD:
        left, right = right, left
    if not isinstance(left, _Below) or not isinstance(right, int):
        return None
    if opcode == _AND:  # at most, from a multiple of 16
        return _Below(left.bytes + max(0, -right - _ALIGNED)) if right < 0 and -right & (-right - 1) == 0 else None
    return _Below(left.bytes + (right if opcode == _SUB else -right))
