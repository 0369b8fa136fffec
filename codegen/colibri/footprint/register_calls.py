"""Calls through a register whose value the code itself loads.

Where a block calls one function three times or more, clang's -Oz loads its address and calls that, which is shorter
(LLVM, ARMISelLowering.cpp, LowerCall). They are direct calls all the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from colibri.footprint.stack_effects import Decode, Flow, Instruction

_HEAD = re.compile(r"^([0-9a-f]+) <([^>]*)>:$", re.MULTILINE)
_WORD = re.compile(r"^\s*([0-9a-f]+):\s*\t\.(?:word|long)\t0x([0-9a-f]+)", re.MULTILINE)
_REGISTER = re.compile(r"\b(?:r\d+|sb|sl|fp|ip|lr)\b")
_LITERAL = re.compile(r"(r\d+|sb|sl|fp|ip|lr), \[pc, #\d+\]")
_ADDRESS = re.compile(r"\(?(?:0x)?([0-9a-f]+)\b")
_KEPT = frozenset(("r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11", "sb", "sl", "fp"))  # by a callee: AAPCS32
_DIRECT = {"blx": "bl", "bx": "b.w"}  # and the jump that ends a function with a call
_WRITES_UNSEEN = ("svc", "bkpt", "hvc", "smc")


def direct_calls(instructions: list[Instruction], text: str, decode: Decode) -> list[Instruction]:
    """The same instructions of an Arm image, with a direct call for each one to an address that is known there.

    Known is what a load from the constants beside the code, or a copy of it, has put there, with no way in between: no
    target of a jump, and in a function with a table of jumps nothing. What touches a register otherwise forgets it.

    Args:
        instructions: of the whole image, ascending, as `parse_disassembly` has them.
        text: what they were read from.
    """
    words = {int(address, 16): int(value, 16) for address, value in _WORD.findall(text)}
    names = {int(address, 16): name for address, name in _HEAD.findall(text)}
    found: list[Instruction] = []
    for function in _functions(instructions, names):
        through = any(
            one.name in _DIRECT and one.operands != "lr" and _REGISTER.fullmatch(one.operands) for one in function
        )
        resolved = _resolved(function, words, decode) if through else {}
        found += [_call(one, resolved[one.address], names) if one.address in resolved else one for one in function]
    return found


def _call(one: Instruction, target: int, names: dict[int, str]) -> Instruction:
    return Instruction(one.address, _DIRECT[one.name], f"{target:x}", names.get(target, ""), one.comment)


def _functions(instructions: list[Instruction], names: dict[int, str]) -> Iterator[list[Instruction]]:
    function: list[Instruction] = []
    for one in instructions:
        if one.address in names and function:
            yield function
            function = []
        function.append(one)
    yield function


def _resolved(function: list[Instruction], words: dict[int, int], decode: Decode) -> dict[int, int]:
    """Address of a call through a register to where it goes."""
    effects = [decode(one) for one in function]
    jumps = [effect for effect in effects if effect.flow in (Flow.JUMP, Flow.BRANCH)]
    # A call into the function itself is a far jump.
    entries = {effect.target for effect in (*jumps, *(effect for effect in effects if effect.flow is Flow.CALL))}
    found: dict[int, int] = {}
    known: dict[str, int] = {}
    for one, effect in zip(function, effects, strict=True):
        if one.address in entries:
            known = {}
        if one.name in _DIRECT and one.operands in known:
            found[one.address] = known[one.operands]
        elif effect.flow in (Flow.JUMP, Flow.BRANCH) and effect.target is None:
            return {}  # perhaps a table of jumps
        known = {} if effect.flow in (Flow.JUMP, Flow.STOP) else _behind(one, effect.flow, known, words)
    return found


def _behind(one: Instruction, flow: Flow, known: dict[str, int], words: dict[int, int]) -> dict[str, int]:
    """What is known of registers behind an instruction."""
    if flow is Flow.CALL or one.name.startswith(_WRITES_UNSEEN):
        return {register: value for register, value in known.items() if register in _KEPT}
    if "-" in one.operands and "{" in one.operands:
        return {}  # a range of registers
    touched = set(_REGISTER.findall(one.operands))
    left = {register: value for register, value in known.items() if register not in touched}
    literal = _LITERAL.fullmatch(one.operands) if one.name in ("ldr", "ldr.n", "ldr.w") else None
    at = _ADDRESS.match(one.comment) if literal else None
    if literal and at and words.get(int(at[1], 16), 0) & 1:  # an address of Thumb code is odd
        left[literal[1]] = words[int(at[1], 16)] & ~1
    if one.name == "mov" and len(touched) == 2:
        copy, _, source = one.operands.partition(", ")
        left |= {register: known[source] for register in (copy, source) if source in known}
    return left
