"""What a port says when its program dies, in words."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass, field, replace

from colibri.emulate.symbols import Symbols

_LINE = re.compile(rb"^!fault((?: [a-z_0-9]+=0x[0-9a-f]+)+)\r?$", re.MULTILINE)

# An access this near to the end of the stack is taken for an overflow; the start-up guards as much.
_NEAR_STACK = 32 * 1024

_CFSR = {
    0: "execution where none is allowed",
    1: "access without permission",
    3: "unreadable stack at the end of an exception",
    4: "stack overflow while saving registers",
    8: "instruction fetch from no memory",
    9: "access to no memory",
    10: "access to no memory, some instructions ago",
    11: "unreadable stack at the end of an exception",
    12: "stack overflow while saving registers",
    16: "undefined instruction",
    17: "jump out of Thumb state",
    18: "bad return from an exception",
    19: "floating-point instruction without the unit",
    20: "stack overflow",  # Armv8-M has a register with its limit
    24: "unaligned access",
    25: "division by zero",
}

_HARD_FAULT = 3

_MCAUSE = {
    0: "misaligned jump",
    1: "instruction fetch from no memory",
    2: "undefined instruction",
    3: "breakpoint",
    4: "misaligned load",
    5: "load from no memory",
    6: "misaligned store",
    7: "store to no memory or without permission",
}

_NTSTATUS = {
    0x80000003: "breakpoint",
    0xC0000005: "access to no memory or without permission",
    0xC000001D: "undefined instruction",
    0xC0000094: "division by zero",
    0xC00000FD: "stack overflow",
}

_MCAUSE_OF_ACCESS = (0, 1, 4, 5, 6, 7)

_SIGNALS = {
    signal.SIGILL: "undefined instruction",
    signal.SIGTRAP: "breakpoint or undefined instruction",
    signal.SIGBUS: "bad access",
    signal.SIGFPE: "arithmetic fault",
    signal.SIGSEGV: "access to no memory or without permission",
    signal.SIGTERM: "stopped from outside",
    signal.SIGABRT: "aborted",
}


@dataclass(frozen=True)
class Fault:
    """Why and where a program died.

    Attributes:
        reason: in words, e.g. ``undefined instruction``.
        pc: address of the instruction, or None when it could not be read.
        symbol: function that ``pc`` lies in, and the offset; without ``pc``, the last caller on the stack.
        address: what was accessed, when the processor says so.
        registers: everything the port reported, by its names.
    """

    reason: str
    pc: int | None = None
    symbol: str | None = None
    address: int | None = None
    registers: dict[str, int] = field(default_factory=dict)

    def named(self, symbols: Symbols) -> Fault:
        """The same fault with its symbol."""
        if self.pc is not None:
            return replace(self, symbol=symbols.describe(self.pc))
        return replace(self, symbol=symbols.function_at(self.registers.get("caller", 0) & ~1))

    def __str__(self) -> str:
        """``undefined instruction at 0x8000050 in main+0x4``, then the registers."""
        text = self.reason
        if self.pc is not None:
            text += f" at 0x{self.pc:x}"
        if self.symbol:
            text += f" in {self.symbol}" if self.pc is not None else f" in a call from {self.symbol}"
        if self.address is not None:
            text += f", accessing 0x{self.address:x}"
        registers = " ".join(f"{name}=0x{value:x}" for name, value in self.registers.items())
        return f"{text} [{registers}]" if registers else text


def find_fault(output: bytes) -> Fault | None:
    """Return the fault that the console output reports, without a symbol, or None. The last one counts."""
    lines = _LINE.findall(output)
    if not lines:
        return None
    registers = {}
    for part in lines[-1].split():
        name, _, value = part.decode().partition("=")
        registers[name] = int(value, 16)
    return Fault(_reason(registers), registers.get("pc"), None, _address(registers), registers)


def signal_fault(number: int) -> Fault:
    """The fault of a process that a signal ended before its port could speak."""
    return Fault(f"ended by {signal.Signals(number).name}: {_SIGNALS.get(signal.Signals(number), 'no reason known')}")


def _reason(registers: dict[str, int]) -> str:
    if _is_stack_overflow(registers):
        return "stack overflow"
    if "cfsr" in registers:
        bits = [text for bit, text in _CFSR.items() if registers["cfsr"] >> bit & 1]
        return ", ".join(bits) or f"exception {registers.get('exception', 0)}"
    if "mcause" in registers:
        return _MCAUSE.get(registers["mcause"], f"trap with cause 0x{registers['mcause']:x}")
    if "ntstatus" in registers:
        return _NTSTATUS.get(registers["ntstatus"], f"exception 0x{registers['ntstatus']:x}")
    if registers.get("exception") == _HARD_FAULT:
        return "hard fault"  # Armv6-M says no more
    number = registers.get("signal", 0)
    return _SIGNALS.get(signal.Signals(number), f"signal {number}") if number else "fault"


def _address(registers: dict[str, int]) -> int | None:
    """What was accessed. RISC-V's mtval is something else for an instruction that is not one."""
    if registers.get("mcause") in _MCAUSE_OF_ACCESS:
        return registers.get("mtval")
    return registers.get("address")


def _is_stack_overflow(registers: dict[str, int]) -> bool:
    """Whether an access failed just below the stack; a Linux program knows only its stack pointer."""
    address = _address(registers)
    if "stack_limit" in registers:
        limit = registers["stack_limit"]
        below = registers.get("sp", limit) < limit
        return below or (address is not None and limit - _NEAR_STACK <= address < limit)
    if address is None or "sp" not in registers or registers.get("signal") != signal.SIGSEGV:
        return False
    return abs(address - registers["sp"]) < _NEAR_STACK
