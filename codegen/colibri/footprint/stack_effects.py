"""What an instruction does with the stack pointer and with the flow, read from objdump's text.

One reader for each instruction set; each knows the ways in which compilers and their libraries move the stack.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

_LINE = re.compile(r"^\s*([0-9a-f]+):[ ]*\t([^\n]*)$", re.MULTILINE)  # GNU objdump, and LLVM's with its spaces
_UNREAD = (".2byte", ".4byte", ".insn", ".inst", "<unknown>", ";")  # how disassemblers show what they do not know
_LABEL = re.compile(r"<([^>]*)>")


class Flow(Enum):
    """Where the processor goes on."""

    NEXT = auto()
    BRANCH = auto()  # to the target, or on
    JUMP = auto()
    CALL = auto()
    STOP = auto()  # returns, or traps


class Instruction(NamedTuple):
    """One line of the disassembly; a program with a C library has a hundred thousand.

    Attributes:
        name: mnemonic.
        operands: without the comment.
        label: what objdump calls the address in the line; empty when there is none.
    """

    address: int
    name: str
    operands: str
    label: str
    comment: str

    @property
    def text(self) -> str:
        """As objdump writes it."""
        return f"{self.name} {self.operands}".strip()


@dataclass(frozen=True)
class Effect:
    """What one instruction does.

    Attributes:
        change: bytes that the stack grows by; negative when it shrinks.
        target: of a jump or call; None when a register or memory has it.
        unsteady: it moves the stack pointer by a number that is not in the instruction.
        switches: it sets the stack pointer to an address.
        reach: bytes that it uses below the stack pointer without moving it.
        padding: it may stand between functions only to fill.
    """

    flow: Flow = Flow.NEXT
    change: int = 0
    target: int | None = None
    unsteady: bool = False
    switches: bool = False
    reach: int = 0
    padding: bool = False


Decode = Callable[[Instruction], Effect]

_PLAIN = Effect()


def parse_disassembly(text: str, comment: str) -> list[Instruction]:
    """The instructions in the output of ``objdump -d --no-show-raw-insn``, in its order.

    Args:
        comment: what begins a comment: ``@``, ``#`` or ``//``.
    """
    found: list[Instruction] = []
    for address, line in _LINE.findall(text):
        body, _, rest = line.partition(comment)
        name, _, operands = body.strip().partition("\t")
        if name == ".word" and found and (found[-1].name, found[-1].operands) == ("ldr.w", "pc, [pc]"):
            # How GNU ld reaches code that is too far for a branch: the word behind the load is the target.
            target = f"{int(operands.strip(), 16) & ~1:x}"
            found[-1] = Instruction(found[-1].address, "b.w", target, "", found[-1].comment)
        if not name or (name.startswith(".") and not name.startswith(_UNREAD)):
            continue
        if " " in name:
            name, _, more = name.partition(" ")
            operands = f"{more} {operands}"
        if (name, operands.strip()) in (("bx", "ip"), ("bx", "r12")) and (far := _thunk_target(found[-2:])) is not None:
            name, operands = "b.w", f"{far:x}"
        if name == "mov" and (step := _by_register(found[-2:], operands.strip())):
            name, operands = step
        label = _LABEL.search(line) if "<" in line else None
        found.append(Instruction(int(address, 16), name, operands.strip(), label[1] if label else "", rest.strip()))
    return found


def _thunk_target(halves: list[Instruction]) -> int | None:
    """Where lld goes with ``bx ip`` behind ``movw`` and ``movt``, when code is too far for a branch."""
    found = [re.fullmatch(r"(?:ip|r12), #(\d+)", half.operands) for half in halves]
    if [half.name for half in halves] != ["movw", "movt"] or not all(found):
        return None
    low, high = (int(match[1]) for match in found if match)
    return (high << 16 | low) & ~1


def _by_register(before: list[Instruction], operands: str) -> tuple[str, str] | None:
    """What clang means by ``mov sp, rN``: it makes an address in a register, as Thumb cannot clear bits of sp itself.

    >>> frame = [Instruction(0, "sub.w", "r4, sp, #8", "", ""), Instruction(4, "bfc", "r4, #0, #4", "", "")]
    >>> _by_register(frame, "sp, r4")
    ('sub', 'sp, #20')
    """
    target = re.fullmatch(r"sp, (r\d+)", operands)
    if target is None or not before:
        return None
    register = target[1]
    up = re.fullmatch(rf"{register}, (r7|fp), #\d+", before[-1].operands)
    if before[-1].name in ("sub", "sub.w", "subw", "subs") and up:
        return "mov", f"sp, {up[1]}"  # a frame pointer less what was pushed above it: back up
    bits = re.fullmatch(rf"{register}, #0, #(\d+)", before[-1].operands)
    start = re.fullmatch(rf"{register}, sp(?:, #(\d+))?", before[0].operands)
    if before[-1].name != "bfc" or bits is None or start is None or not before[0].name.startswith(("mov", "sub")):
        return None
    return "sub", f"sp, #{int(start[1] or 0) + (1 << int(bits[1])) - 4}"  # from a multiple of 4, at most


def _first_hex(text: str) -> int | None:
    match = re.search(r"(?:^|[\s,])(?:0x)?([0-9a-f]+)\s*(?:<|$)", text)
    return int(match[1], 16) if match else None


def unread(one: Instruction) -> Effect | None:
    """What an instruction does that the disassembler does not know; None when it knows it.

    GNU's takes the extensions of RISC-V from the image's attributes: code may have more of them, as start-up code reads
    a control register. Those write the register in bits 7 to 11 (RISC-V unprivileged ISA, opcode SYSTEM), 2 being sp.
    """
    if not one.name.startswith(_UNREAD):
        return None
    word = re.search(r"0x([0-9a-f]+)$", one.operands)
    code = int(word[1], 16) if word and one.name in (".4byte", ".insn") else 0
    control = code & 0x7F == 0x73 and code >> 12 & 7 and code >> 7 & 31 != 2
    return Effect(padding=not control, unsteady=not control)


# ---- Arm, Thumb and A32 --------------------------------------------------------------------------------------

_THUMB_CONDITION = r"(?:eq|ne|cs|cc|hs|lo|mi|pl|vs|vc|hi|ls|ge|lt|gt|le)"
_THUMB_NAME = re.compile(
    rf"^(push|pop|stmdb|ldmia|vpush|vpop|vstmdb|vldmia|sub|add|subw|addw|str|strd|ldr|ldrd|mov|msr|bl|blx|bx|b|tbb|tbh|"
    rf"cbz|cbnz|udf|bkpt|nop)({_THUMB_CONDITION})?(?:\.([nw]))?$"
)
_THUMB_REGISTERS = re.compile(r"\{([^}]*)\}")
_POST_OR_PRE = re.compile(r"\[sp, #(-?\d+)\]!|\[sp\], #(-?\d+)")
_LIST = re.compile(rf"^v?(?:ldm|stm)(?:ia|ib|da|db)?({_THUMB_CONDITION})?(?:\.[nw])?$")


def thumb(one: Instruction) -> Effect:
    """Thumb-2 as Arm M-profile cores execute it, and A32, which is written alike."""
    if "wfi" in one.name or one.name.startswith("udf"):
        return Effect(Flow.STOP)
    match = _THUMB_NAME.match(one.name)
    if match is None:
        listed = _LIST.match(one.name)
        if listed and not one.operands.startswith("sp!"):
            return _list(one, conditional=listed[1] is not None)
        if step := _POST_OR_PRE.search(one.operands):  # of vectors, and what else a disassembler takes them for
            return Effect(change=-int(step[1] or step[2]))
        writes = re.match(r"^(sp|msp|psp)\b", one.operands) and not one.name.startswith(("cmp", "tst", "vstr", "vldr"))
        return Effect(unsteady=True) if writes else _PLAIN
    name, condition, _ = match.groups()
    operands = one.operands
    if name in ("b", "cbz", "cbnz", "bl", "blx", "bx", "tbb", "tbh"):
        return _thumb_branch(name, condition, operands)
    effect = _thumb_stack(name, operands)
    if condition and effect.flow is Flow.STOP:
        return _PLAIN  # returns under a condition: what follows runs with the stack as it is
    if condition and effect.flow is Flow.JUMP:
        return Effect(Flow.BRANCH)
    # Under a condition the stack may stay as it is: only what makes it deeper counts.
    return Effect(change=max(0, effect.change), unsteady=effect.unsteady) if condition else effect


def _thumb_branch(name: str, condition: str | None, operands: str) -> Effect:
    if name in ("tbb", "tbh"):
        return Effect(Flow.JUMP)
    if name == "bx":
        flow = Flow.STOP if operands == "lr" else Flow.JUMP
        return _PLAIN if condition and flow is Flow.STOP else Effect(Flow.BRANCH if condition else flow)
    target = _first_hex(operands)
    if name in ("bl", "blx"):
        return Effect(Flow.CALL, target=target)
    return Effect(Flow.BRANCH if condition or name != "b" else Flow.JUMP, target=target)


def _thumb_stack(name: str, operands: str) -> Effect:
    if name in ("push", "vpush") or (name in ("stmdb", "vstmdb") and operands.startswith("sp!")):
        return Effect(change=_register_bytes(operands))
    if name in ("pop", "vpop") or (name in ("ldmia", "vldmia") and operands.startswith("sp!")):
        listed = _THUMB_REGISTERS.search(operands)
        returns = listed is not None and re.search(r"\bpc\b", listed[1]) is not None
        return Effect(Flow.STOP if returns else Flow.NEXT, change=-_register_bytes(operands))
    if name in ("sub", "subw", "add", "addw") and re.match(r"^sp\b", operands):
        sign = 1 if name.startswith("sub") else -1
        step = re.fullmatch(r"sp(?:, sp)?, #(-?\d+)", operands)
        if step:
            return Effect(change=sign * int(step[1]))
        # From a frame pointer it only goes back up.
        return _PLAIN if re.match(r"^sp, (?:r7|fp), #", operands) else Effect(unsteady=True)
    if name in ("str", "strd", "ldr", "ldrd") and "[sp" in operands:
        step = _POST_OR_PRE.search(operands)
        change = -int(step[1] or step[2]) if step else 0
        return Effect(Flow.STOP if name == "ldr" and operands.startswith("pc") else Flow.NEXT, change=change)
    if name in ("ldr", "add") and operands.startswith("pc"):
        return Effect(Flow.JUMP)
    if name == "mov":
        if operands.startswith("pc"):
            return Effect(Flow.STOP if operands.endswith("lr") else Flow.JUMP)
        return _PLAIN if not operands.startswith("sp,") or operands in ("sp, r7", "sp, fp") else Effect(unsteady=True)
    if (name == "ldr" and operands.startswith("sp,")) or (name == "msr" and re.match(r"MSP\b", operands.upper())):
        return Effect(switches=True)
    return Effect(padding=name == "nop")


def _list(one: Instruction, *, conditional: bool) -> Effect:
    """Registers loaded or stored by way of a pointer that stays, or is not the stack's."""
    base = one.operands.partition(",")[0]
    loaded = _THUMB_REGISTERS.search(one.operands) if one.name.startswith("ldm") else None
    registers = re.split(r",\s*", loaded[1]) if loaded else []
    # With the stack pointer from a frame pointer it only goes back up.
    return Effect(
        flow=Flow.STOP if "pc" in registers and not conditional else Flow.NEXT,
        unsteady="sp" in registers and base not in ("sp", "fp"),
    )


def _register_bytes(operands: str) -> int:
    """Bytes of a register list.

    >>> _register_bytes("sp!, {r4, r5, lr}"), _register_bytes("{d8-d10}"), _register_bytes("{s16}")
    (12, 24, 4)
    """
    listed = _THUMB_REGISTERS.search(operands)
    total = 0
    for part in listed[1].split(",") if listed else ():
        low, _, high = part.strip().partition("-")
        count = int(high[1:]) - int(low[1:]) + 1 if high else 1
        total += count * (8 if low.startswith("d") else 4)
    return total


# ---- RISC-V --------------------------------------------------------------------------------------------------

_RISCV_BRANCHES = re.compile(r"^(?:c\.)?b(?:eq|ne|lt|ge|gt|le|ltu|geu|gtu|leu)z?$")


def riscv(one: Instruction) -> Effect:
    """RV32 and RV64, compressed instructions included."""
    name, operands = one.name.removeprefix("c."), one.operands
    if name in ("ret", "mret", "unimp", "ebreak") and name != "ebreak":
        return Effect(Flow.STOP)
    if _RISCV_BRANCHES.match(name):
        return Effect(Flow.BRANCH, target=_first_hex(operands.rsplit(",", 1)[-1]))
    if name in ("j", "tail"):
        return Effect(Flow.JUMP, target=_first_hex(operands))
    if name in ("jal", "call"):
        # With a return register other than ra it is a millicode call, which comes back as well.
        return Effect(Flow.CALL, target=_first_hex(operands.rsplit(",", 1)[-1]))
    if name in ("jalr", "jr"):
        target = _first_hex(one.comment) if one.comment else None
        zero = name == "jr" or operands.startswith("zero,")
        return Effect(Flow.JUMP if zero else Flow.CALL, target=target)
    if name in ("add", "addi", "addi16sp", "addiw") and operands.startswith("sp,"):
        step = re.fullmatch(r"sp,(?:sp,)?(-?\d+)", operands)
        # `la sp` is two instructions: the second adds the lower bits of an address, which objdump then names.
        if one.label:
            return Effect(switches=True)
        if step:
            return Effect(change=-int(step[1]))
        return _PLAIN if re.match(r"^sp,s0,", operands) else Effect(unsteady=True)
    if name in ("auipc", "lui", "la") and operands.startswith("sp,"):
        return Effect(switches=True)
    if name in ("mv", "sub", "csrr", "csrrw", "li", "lw", "ld", "and", "andi") and operands.startswith("sp,"):
        return Effect(unsteady=True)
    return Effect(padding=name in ("nop", "unimp"))


# ---- AArch64 -------------------------------------------------------------------------------------------------


def aarch64(one: Instruction) -> Effect:
    """AArch64, with SVE's scalable frames named as not steady."""
    name, operands = one.name, one.operands
    if name in ("ret", "retaa", "retab", "brk", "udf", "hlt"):
        return Effect(Flow.STOP, padding=name == "udf")
    if name == "b":
        return Effect(Flow.JUMP, target=_first_hex(operands))
    if name.startswith("b.") or name in ("cbz", "cbnz", "tbz", "tbnz"):
        return Effect(Flow.BRANCH, target=_first_hex(operands.rsplit(",", 1)[-1]))
    if name == "bl":
        return Effect(Flow.CALL, target=_first_hex(operands))
    if name.startswith("blr"):
        return Effect(Flow.CALL)
    if name.startswith("br"):
        return Effect(Flow.JUMP)
    if step := re.search(r"\[sp, #(-?\d+)\]!|\[sp\], #(-?\d+)", operands):
        return Effect(change=-int(step[1] or step[2]))
    if re.match(r"^sp, ", operands):
        step = re.fullmatch(r"sp, sp, #(0x[0-9a-f]+)(?:, lsl #(\d+))?", operands)
        if name in ("sub", "add") and step:
            amount = int(step[1], 16) << int(step[2] or 0)
            return Effect(change=amount if name == "sub" else -amount)
        restores = (name == "mov" and operands == "sp, x29") or (name in ("add", "sub") and "sp, x29, #" in operands)
        return _PLAIN if restores else Effect(unsteady=name not in ("cmp", "tst"))
    return Effect(padding=name == "nop")


# ---- x86-64 --------------------------------------------------------------------------------------------------

_X86_PREFIXES = re.compile(r"^(?:(?:notrack|bnd|lock|rep|repz|repnz|data16|cs|ds|addr32)\s+)+")


def x86_64(one: Instruction) -> Effect:
    """x86-64 in AT&T's syntax. Code that is known to use the red zone below the stack pointer counts it."""
    text = _X86_PREFIXES.sub("", one.text)
    name, _, operands = text.partition(" ")
    operands = operands.strip()
    if name.startswith("ret") or name in ("ud2", "hlt", "int3"):
        return Effect(Flow.STOP, padding=name in ("int3", "hlt"))
    if name.startswith("call"):
        return Effect(Flow.CALL, target=None if operands.startswith("*") else _first_hex(operands))
    if name.startswith("jmp"):
        return Effect(Flow.JUMP, target=None if operands.startswith("*") else _first_hex(operands))
    if name.startswith("j") or name.startswith("loop"):
        return Effect(Flow.BRANCH, target=_first_hex(operands))
    if name in ("push", "pushq", "pushf", "pushfq"):
        return Effect(change=8)
    if name in ("pop", "popq", "popf", "popfq"):
        return Effect(change=-8)
    if name in ("leave", "leaveq", "enter"):
        return Effect(change=-8) if name != "enter" else Effect(unsteady=True)
    reach = [int(number, 16) for number in re.findall(r"-0x([0-9a-f]+)\(%rsp\)", operands)]
    if operands.endswith(",%rsp"):
        return _x86_stack(name, operands)
    nop = name.startswith("nop") or (name in ("xchg", "lea") and re.search(r"^(%ax,%ax|0x0\()", operands) is not None)
    return Effect(reach=max(reach, default=0), padding=nop)


def _x86_stack(name: str, operands: str) -> Effect:
    step = re.match(r"^\$(0x[0-9a-f]+),%rsp$", operands)
    amount = int(step[1], 16) if step else None
    if amount is not None and amount >= 1 << 63:
        amount -= 1 << 64
    if name in ("sub", "add") and amount is not None:
        return Effect(change=amount if name == "sub" else -amount)
    if name == "and" and amount is not None and amount < 0:
        return Effect(change=-amount - 8)  # what it takes at most, from an address that is a multiple of 8
    if name == "lea":
        step = re.match(r"^(-?)(0x[0-9a-f]+)\(%rsp\),%rsp$", operands)
        if step:
            return Effect(change=int(step[2], 16) * (1 if step[1] else -1))
        return _PLAIN if re.match(r"^-?0x[0-9a-f]+\(%(rbp|r10)\),%rsp$", operands) else Effect(unsteady=True)
    if name in ("mov", "movq") and operands == "%rbp,%rsp":
        return _PLAIN
    if name in ("cmp", "test", "cmpq"):
        return _PLAIN
    return Effect(unsteady=True)


READERS: dict[str, tuple[Decode, str, int]] = {
    "arm": (thumb, "@", 0),
    "riscv32": (riscv, "#", 0),
    "riscv64": (riscv, "#", 0),
    "aarch64": (aarch64, "//", 0),
    "x86_64": (x86_64, "#", 8),
}
"""Architecture (as the board file names it) to its reader, what begins a comment, and what a call itself pushes."""
