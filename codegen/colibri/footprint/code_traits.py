"""What of a module decides how many bytes a compiler makes of it: named amounts, counted before any compiler runs."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from colibri.emit.c_block import Block
from colibri.emit.c_shapes import Instance
from colibri.emit.module import Module

Traits = dict[str, float]

# The runtime function that an instance is built around; what only reads or stores is not it.
_CALLEE = re.compile(r"\bcolibri_(?!floats\b|part_of\b|shorts\b|at\b|store|gather|tail|sum_groups)(\w+)\(")
_PLANES = re.compile(r"\bcolibri_dot_planes_a\d+\(sum, [^,]+, [^,]+, ([^,]+), .*, (\d), \d+\);")
_SHAPE = re.compile(r"_(\d+(?:x\d+)*)(?:_|$)")
_TILES = re.compile(r"\bn < (\d+); n \+= (\d+)")
_LOOP = re.compile(r"for \(uint32_t i = 0; i < (\d+); i \+= (\d+)\)")
_ONE = re.compile(r", 1(?=[,)])")
_CONSTANT = re.compile(r", (-?[\d.][\w.+-]*)(?=[,)])")
_PADDED = re.compile(r"_in_\d+_to_")
_FLAG = re.compile(r"\b(?:true|false)\b")
_ARRAY = re.compile(r"\bstatic const uint32_t \w+\[(\d+)\]")
_MEMBER = re.compile(r"\bl->(\w+)")
_BUFFER = re.compile(r"\bAT_\w+")
_FAR = 4096  # bytes; Thumb-2 and AArch64 add less with one instruction
_WIDE = 65536  # bytes; more than one instruction on most processors
_GROUP = 32  # columns of a group of 4-bit weights
_LANES = 8  # fp32 values in the widest vector register of the boards
_MEMBER_BYTES = 4  # members of descriptors and elements of arrays are uint32_t


@dataclass(frozen=True)
class Kernel:
    """A kernel instance.

    Attributes:
        name: of the C function.
        kind: the runtime function that it is built around, e.g. ``dot_w4a8``; ``silu_times`` takes a second factor.
        traits: ``each`` is 1; others say what the instance has (1) or has not (absent). ``null`` is a pointer that the
            runtime function does without, ``bits3`` and the like are the planes that a dot kernel reads, ``zero`` its
            zero points, ``outliers`` a tail of columns; ``flag1``, ``flag2``, … are those of its flags that are true,
            ``twice`` tells of a loop of two turns, which compilers unroll; ``ones`` counts its arguments that are 1, as
            for a loop of one turn, ``loops`` its own loops, ``stores`` the places where it stores sums.
        twin: instance with the same parameters and statements, which most compilers keep instead; empty for none.
        alone: whether it is the only one of its kind, apart from twins.
        varied: whether those of its kind differ in a constant that they pass on, such as the width of a norm.
    """

    name: str
    kind: str
    traits: Traits
    twin: str
    alone: bool
    varied: bool = False

    @property
    def runtime(self) -> str:
        """The runtime function's name; the compiler keeps it as a function of its own when several kernels share it."""
        return f"colibri_{self.kind.removesuffix('_times')}"


def kernels(module: Module) -> list[Kernel]:
    """The kernel instances of a module, in its order."""
    first: dict[tuple[str, tuple[str, ...]], str] = {}
    for one in module.instances:
        first.setdefault((one.params, one.body), one.name)
    used = Counter(_kind(one) for one in module.instances if first[one.params, one.body] == one.name)
    constants: dict[str, set[tuple[str, ...]]] = {}
    for one in module.instances:
        constants.setdefault(_kind(one), set()).add(tuple(_CONSTANT.findall("\n".join(one.body))))
    found = []
    for one in module.instances:
        kind, keeps = _kind(one), first[one.params, one.body]
        twin = "" if keeps == one.name else keeps
        found.append(Kernel(one.name, kind, _traits(one), twin, used[kind] == 1, len(constants[kind]) > 1))
    return found


def program(module: Module) -> Traits:
    """Amounts of everything in `model.c` but the kernels: functions of blocks, and the public ones around them.

    ``functions``, their pointers to ``buffers`` (``far`` ones beyond what most instructions add), their ``loops`` and
    the ``arguments`` that they pass on count over all blocks and numbers of rows. ``layers`` counts functions that run
    for more than one row of their table; what others read of theirs stands in the code, ``wide`` are those of more than
    16 bits. ``apart`` counts functions that are called in several places, which the compiler puts into none of them.
    """
    amounts: Counter[str] = Counter()
    offsets = {entry.name: entry.offset for arena in module.arenas for entry in arena.entries}
    places = Counter(step.block.name for step in module.steps)
    for block in module.blocks:
        table = len(block.rows_of) > 1
        for function in block.functions.values():
            text = "\n".join(function.lines)
            amounts["functions"] += 1
            amounts["buffers"] += len(function.declarations)
            amounts["far"] += sum(
                offsets[name] >= _FAR for one in function.declarations.values() for name in _BUFFER.findall(one)
            )
            amounts["loops"] += sum("for (" in line for line in function.lines)
            amounts["arguments"] += text.count(",")
            amounts["layers"] += table
            amounts["wide"] += (
                0 if table else sum(_is_wide(block.rows_of[0].get(name)) for name in _MEMBER.findall(text))
            )
            amounts["apart"] += places[block.name] > 1
    return {name: float(amount) for name, amount in sorted(amounts.items()) if amount}


def _is_wide(offset: object) -> bool:
    return isinstance(offset, int) and offset >= _WIDE


def descriptor_bytes(module: Module) -> int:
    """Bytes of the tables of offsets; one without array and further rows becomes constants in the code."""
    return sum(_MEMBER_BYTES * _members(block) * len(block.rows_of) for block in module.blocks if _is_table(block))


def constant_bytes(module: Module) -> int:
    """Bytes of the arrays of constants that kernels bring along."""
    texts = ["\n".join(one.body) for one in module.instances]
    return sum(_MEMBER_BYTES * int(count) for text in texts for count in _ARRAY.findall(text))


def _is_table(block: Block) -> bool:
    return len(block.rows_of) > 1 or any(member.count for member in block.members.values())


def _members(block: Block) -> int:
    return sum(member.count or 1 for member in block.members.values())


def _kind(instance: Instance) -> str:
    match = _CALLEE.search("\n".join(instance.body))
    callee = match[1] if match else instance.name
    return f"{callee}_times" if instance.name.startswith(f"{callee}_times_") else callee


def _traits(instance: Instance) -> Traits:
    text = "\n".join(instance.body)
    shape = _SHAPE.search(instance.name)
    inner = int(shape[1].split("x")[-1]) if shape else 0
    tiles = _TILES.search(text)
    once = tiles is not None and int(tiles[1]) <= int(tiles[2])
    has = {
        "each": True,
        "rows": "row <" in text,
        "bias": instance.name.endswith("_bias"),
        "padded": bool(_PADDED.search(instance.name)),
        "once": once,
        "tail": " ? " in text and not once,
        "null": "NULL" in text,
        **{f"flag{number}": flag == "true" for number, flag in enumerate(_FLAG.findall(text), 1)},
        "lanes": inner % _LANES == 0,
        "short": inner <= _GROUP,
        "twice": any(int(end) == 2 * int(step) for end, step in _LOOP.findall(text)),
    }
    if planes := _PLANES.search(text):
        has |= {f"bits{planes[2]}": True, "zero": planes[1] != "NULL"}
    has["outliers"] = "colibri_gather" in text
    counts = {"ones": len(_ONE.findall(text)), "loops": text.count("for ("), "stores": text.count("colibri_store")}
    amounts = {name: float(count) for name, count in counts.items() if count}
    return {name: 1.0 for name, present in has.items() if present} | amounts
