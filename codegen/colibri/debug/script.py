"""The gdb script of a package: commands for its buffers, stops at its ops. Plain gdb, without Python in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

from colibri.boards.profile import Emulator
from colibri.debug.ops import NamedOp, chosen, named_ops
from colibri.debug.places import CallPlace, op_places
from colibri.emit.literals import comment_text
from colibri.emit.templates import render
from colibri.emulate.symbols import Symbols
from colibri.errors import BadInput
from colibri.package import TYPE_BYTES, Package, Span, View

# Registers of the first arguments: procedure call standards of Arm (AAPCS, AAPCS64), RISC-V (psABI), x86-64 (System V).
_ARGUMENTS = {
    "arm": ("r0", "r1", "r2", "r3"),
    "aarch64": tuple(f"x{number}" for number in range(8)),
    "riscv32": tuple(f"a{number}" for number in range(8)),
    "riscv64": tuple(f"a{number}" for number in range(8)),
    "x86_64": ("rdi", "rsi", "rdx", "rcx", "r8", "r9"),
}

# gdb has no floats of 16 bits here: their bits
_FORMS = {"f32": "fw", "f16": "xh", "bf16": "xh", "int8": "db", "int16": "dh", "int32": "dw", "index": "uw"}
_SIZES = {1: "b", 2: "h", 4: "w"}
_SHOWN = 1024  # elements, whole rows of which are shown when no row is asked for


@dataclass(frozen=True)
class Array:
    """An array that has a name in the debugger.

    Attributes:
        count: elements shown without a row.
        form: gdb's letters for elements as numbers, after ``x/``.
        size: gdb's letter for their size.
        doc: type and shape.
        alive: when its bytes matter.
    """

    name: str
    address: str
    width: int
    count: int
    row_bytes: int
    form: str
    size: str
    doc: str
    alive: str


@dataclass(frozen=True)
class _Place:
    """A breakpoint: where, and when it stops."""

    address: str
    condition: str


@dataclass(frozen=True)
class _Stop:
    """The breakpoints of an op."""

    name: str
    number: int
    places: list[_Place]


@dataclass(frozen=True)
class _Anchor:
    """A call that gets the weights of its layer in a register."""

    address: str
    register: str


def gdb_script(
    folder: Path, package: Package, image: Path, emulator: Emulator, stops: Sequence[str], start: Sequence[str]
) -> str:
    """Return the script.

    Args:
        folder: of the package.
        image: built in it, for the emulator.
        stops: names of ops.
        start: commands that bring the program to its first instruction.

    Raises:
        BadInput: image and package do not belong together.
        ToolMissing: no disassembler.
        UsageError: there is no such op.
    """
    arrays = named_arrays(package, image)
    ops = named_ops(package)
    wanted = list(chosen(ops, stops))
    places = op_places(folder, package, image) if wanted else {}
    values = Symbols.of(image).values
    anchors: dict[str, _Anchor] = {}
    found = [_stop(package, op, ops, places, values, anchors) for op in wanted]
    return render(
        "debug/script.gdb.j2",
        {
            "title": comment_text(package.name),
            "emulator": comment_text(emulator.name),
            "arrays": arrays,
            "table": _table(arrays),
            "start": "\n".join(start),
            "anchors": list(anchors.values()),
            "stops": found,
        },
    )


def named_arrays(package: Package, image: Path) -> list[Array]:
    """Every array of the model's memory, at its address in an image.

    Raises:
        BadInput: the image is not of the package.
    """
    values = Symbols.of(image).values
    found = []
    for block in package.memory.blocks:
        symbol = f"{package.prefix}_{block.name}"
        if symbol not in values:
            raise BadInput(f"has no {symbol}", where=str(image), hint="build the package again")
        found += [_array(span, view, values[symbol]) for span in block.spans for view in span.views]
    return sorted(found, key=lambda array: (int(array.address, 16), array.name))


def _array(span: Span, view: View, start: int) -> Array:
    size, width = TYPE_BYTES[view.type], prod(view.shape[1:])
    rows = min(view.shape[0], max(1, _SHOWN // width))
    spans = [f"{first}" if first == last else f"{first}-{last}" for first, last in span.live]
    return Array(
        name=f"{span.name}.{view.name}" if view.name else span.name,
        address=f"{start + view.offset:#x}",
        width=width,
        count=rows * width,
        row_bytes=size * width,
        form=_FORMS[view.type],
        size=_SIZES[size],
        doc=f"{view.type} {''.join(f'[{extent}]' for extent in view.shape)}",
        alive=f"ops {', '.join(spans)}" if spans else "always",
    )


def _table(arrays: Sequence[Array]) -> list[str]:
    """Lines for gdb's `echo`."""
    wide = max((len(array.name) for array in arrays), default=0)
    deep = max((len(array.doc) for array in arrays), default=0)
    return [f"{one.address:<12}{one.name:<{wide + 2}}{one.doc:<{deep + 2}}{one.alive}" for one in arrays]


def _stop(
    package: Package,
    op: NamedOp,
    ops: Sequence[NamedOp],
    places: dict[tuple[str, int], list[CallPlace]],
    values: dict[str, int],
    anchors: dict[str, _Anchor],
) -> _Stop:
    """Stop before an op of one layer, once in a pass; what that needs is added to the anchors.

    An op with weights of its own is known by their address. Any other runs next after the nearest one before it that
    has some, and may be called for several rows or experts.
    """
    registers = _ARGUMENTS[package.board.cpu.arch]

    def calls(one: NamedOp) -> list[CallPlace]:
        found = places.get((package.ops[one.index].block, one.within), [])
        if not found:
            raise BadInput(f"the image does not call {one.name}", where=package.name, hint="build the package again")
        return found

    def weights(one: NamedOp) -> int:
        symbol, offset = one.weights or ("", 0)
        return values[f"{package.prefix}_{symbol}"] + offset

    def own(one: NamedOp) -> bool:
        return one.weights is not None and all(0 <= call.weights < len(registers) for call in calls(one))

    if own(op):
        conditions = {
            call.address: f"(unsigned long)${registers[call.weights]} == {weights(op):#x}" for call in calls(op)
        }
    else:
        before = next((one for one in reversed(ops[: op.index]) if own(one)), None)
        seen = f"$colibri_seen_{op.index}"
        once = f"{seen} != $colibri_count && ({seen} = $colibri_count) == $colibri_count"
        condition = f"$colibri_weights == {weights(before):#x} && {once}" if before else ""
        conditions = {call.address: condition for call in calls(op)}
        for call in calls(before) if before else ():
            anchors.setdefault(f"{call.address:#x}", _Anchor(f"{call.address:#x}", registers[call.weights]))
    return _Stop(op.name, op.index, [_Place(f"{address:#x}", text) for address, text in sorted(conditions.items())])
