"""Bytes of code and constants before any compiler runs: a sum over named amounts, with what was measured for each.

The coefficients are in `code_size.toml`, which `ci/code-size` writes: for each board of this folder it builds a set of
models, measures each function in the linked product, and fits.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import msgspec

from colibri.boards.profile import Board, BoardKind, Holds
from colibri.emit.module import Module
from colibri.footprint.code_traits import Kernel, Traits, constant_bytes, descriptor_bytes, kernels, program
from colibri.optimise import Optimise
from colibri.package import CodeEstimate, Package, Within

_UNKNOWN_KERNEL = 768  # bytes; more than most take
_UNKNOWN_PROGRAM = 8192  # beside the kernels, on a board like which none was measured
_UNKNOWN_LINUX = 768 << 10  # the same under Linux, where a C library is linked in: x86-64 has most, some 650 KB
TABLE = Path(__file__).with_name("code_size.toml")
OTHERS = "others"  # the key of bounds for schemes that have none of their own, and for several at once
# What the measurement of a board has that is like another.
OWN = ("compiler", "like", "arch", "kind", "kernels", "flags", "memory", "within", "fixed")


class Fixed(msgspec.Struct, frozen=True):
    """What every image of a kind of model has, in bytes: runtime core, port, program, C library."""

    code: float
    tables: float
    data: float


class Routine(msgspec.Struct, frozen=True):
    """A member of the compiler's library that not every image needs.

    Attributes:
        bytes: of code.
        kinds: any of these kinds of kernel needs it.
    """

    bytes: int
    kinds: tuple[str, ...]


class Measured(msgspec.Struct, frozen=True):
    """What one board's compiler makes of the amounts that `code_traits` counts, in bytes for each.

    Attributes:
        compiler: with which it was measured.
        like: board of the table whose amounts are taken, since its compiler makes nearly the same of a kernel: then
            only ``within`` and ``fixed`` were measured; empty for none.
        arch: with ``kind``, ``kernels``, ``flags`` and ``memory``, what of the board file decides.
        memory: of `memory_of`.
        within: by scheme, as gcc is steadier with some kernels than with others; `OTHERS` for those not named.
        fixed: by kind of model, ``tokens`` or ``samples``.
        program: of `code_traits.program`.
        kernel: by kind of kernel, of its traits.
        shared: by kind of kernel that becomes one function when there are several, of the traits of the first; a kind
            that is not in ``kernel`` is never inlined, and is one function always.
        wrapper: for the kinds in ``shared``, each kernel that calls that function.
        apart: kinds in ``shared`` that are not shared when those of a program differ in a constant that they pass on.
        table: of constants: ``kernels`` is for each kernel, ``twins`` for each that equals one of them, ``functions``
            for each function of a block.
        library: routines of the compiler, and functions of the runtime that several kinds of kernel share.
        buffers: 1 where the program's own variables count as data; 0 where the linker has them in one piece with the
            model's memory.
        folds: 1 where the compiler makes one function of equal kernels; 0 where each is one of its own.
    """

    compiler: str
    arch: str
    kind: BoardKind
    kernels: tuple[str, ...]
    flags: tuple[str, ...]
    memory: tuple[str, ...]
    within: dict[str, Within]
    like: str = ""
    fixed: dict[str, Fixed] = {}
    program: Traits = {}
    kernel: dict[str, Traits] = {}
    table: Traits = {}
    shared: dict[str, Traits] = {}
    wrapper: dict[str, Traits] = {}
    library: dict[str, Routine] = {}
    buffers: int = 1
    folds: int = 1
    apart: tuple[str, ...] = ()

    def knows(self, kind: str) -> bool:
        """Whether a kind of kernel was measured."""
        return kind in self.kernel or kind in self.shared


@dataclass(frozen=True)
class Sizes:
    """Predicted bytes of the product; ``kernels`` are part of ``code``, by C name."""

    code: int
    tables: int
    data: int
    kernels: dict[str, int]


@dataclass(frozen=True)
class Choice:
    """The measurement that holds for a board.

    Attributes:
        board: where its amounts were measured.
        own: whether it holds: same architecture, kernels, processor flags, and kinds of memory.
    """

    board: str
    measured: Measured
    own: bool


def estimate_code(module: Module, package: Package) -> CodeEstimate | None:
    """Predict the product's code, constants and variables.

    Returns:
        None when no board with this processor and these kernel folders was measured, or not a kernel of some kind.
    """
    choice = choose(package.board)
    if choice is None:
        return None
    measured = choice.measured
    if not all(measured.knows(kernel.kind) for kernel in kernels(module)):
        return None
    sizes = predict(module, package, measured)
    return CodeEstimate(
        code=sizes.code,
        tables=sizes.tables,
        data=sizes.data,
        kernels=sizes.kernels,
        board=choice.board,
        compiler=measured.compiler,
        within=_within(choice, package),
    )


def _within(choice: Choice, package: Package) -> Within | None:
    """Bounds for the package's scheme; None where the measurement is not of this board, compiler and kind of code."""
    if package.optimise is Optimise.SIZE or not (choice.own and _made_by(choice.measured, package)):
        return None
    return bound(choice.measured, package.scheme)


def bound(measured: Measured, schemes: str) -> Within | None:
    """Bounds of a measurement for what `Package.scheme` says; None where only the schemes with bounds were measured."""
    return measured.within.get(schemes, measured.within.get(OTHERS))


def _made_by(measured: Measured, package: Package) -> bool:
    """Whether the package names the compiler that was measured, with no options of the user's."""
    compiler = package.compiler
    own = compiler is None or compiler.cc[0] == measured.compiler.split()[0]
    return own and not package.board.toolchain.cflags


def expected_code(module: Module, package: Package) -> int:
    """Bytes of code and constants, rather too many: for kernels that were never measured something is assumed."""
    choice = choose(package.board)
    if choice is None or package.model.kind not in choice.measured.fixed:
        beside = _UNKNOWN_LINUX if package.board.kind is BoardKind.LINUX else _UNKNOWN_PROGRAM
        return beside + _UNKNOWN_KERNEL * len(module.instances) * (1 + len(package.board.levels))
    sizes = predict(module, package, choice.measured)
    within = _within(choice, package)
    return sizes.code + sizes.tables + (within.code + within.tables if within else 0)


def predict(module: Module, package: Package, measured: Measured) -> Sizes:
    """The product's sizes; a kind of kernel that the measurement does not know counts as `_UNKNOWN_KERNEL`."""
    used, fixed = kernels(module), measured.fixed[package.model.kind]
    sizes = _kernel_bytes(used, measured)
    return Sizes(
        code=round(fixed.code + dot(program(module), measured.program))
        + sum(sizes.values())
        + _library(used, measured),
        tables=round(fixed.tables + dot(table_traits(module), measured.table)) + table_bytes(module, package),
        data=round(fixed.data) + measured.buffers * program_buffers(package),
        kernels=sizes,
    )


def kernel_bytes(module: Module, board: Board) -> dict[str, int]:
    """Predicted bytes of each kernel, and of the runtime functions that several share, by C name.

    Returns:
        nothing when there is no measurement that holds for the board; a kernel of unknown kind is left out.
    """
    choice = choose(board)
    if choice is None:
        return {}
    known = [kernel for kernel in kernels(module) if choice.measured.knows(kernel.kind)]
    return _kernel_bytes(known, choice.measured)


def room_for_kernels(module: Module, board: Board) -> tuple[dict[str, int], int]:
    """What kernels need in a region of their own, rather too much: what is too large does not link.

    Returns:
        bytes of each kernel, `_UNKNOWN_KERNEL` for those of unknown kinds, and of the runtime functions that were
        measured apart; and what all of them together may take beyond that.
    """
    choice = choose(board)
    if choice is None:
        return {one.name: _UNKNOWN_KERNEL for one in module.instances}, 0
    used, measured = kernels(module), choice.measured
    within = bound(measured, OTHERS)
    return _kernel_bytes(used, measured) | _routines(used, measured), within.code if within else 0


def choose(board: Board) -> Choice | None:
    """The measurement that holds for the board, or that of the most similar board.

    Returns:
        None without a similar one, and for a board with several sets of instructions: its layers are there for each.
    """
    if board.levels:
        return None
    similar = [
        (name, measured)
        for name, measured in load_table().items()
        if (measured.arch, measured.kind, measured.kernels) == (board.cpu.arch, board.kind, board.kernels)
    ]
    if not similar:
        return None
    flags = set(board.toolchain.flags)

    def apart(one: tuple[str, Measured]) -> tuple[int, bool, bool, str]:
        name, measured = one
        return len(flags ^ set(measured.flags)), measured.memory != memory_of(board), name != board.id, name

    name, measured = best = min(similar, key=apart)
    return Choice(measured.like or name, measured, own=apart(best)[:2] == (0, False))


def memory_of(board: Board) -> tuple[str, ...]:
    """What of a board's regions is code in the product: `fast code` is copied at start-up, `hot weights` are a file."""
    weights = sum(Holds.WEIGHTS in region.holds for region in board.memory)
    fast = any(Holds.KERNELS in region.holds for region in board.memory)
    return (*(["fast code"] if fast else []), *(["hot weights"] if weights > 1 else []))


@cache
def load_table() -> dict[str, Measured]:
    """Board to its measurement; those that are like another one have its amounts."""
    table = msgspec.convert(tomllib.loads(TABLE.read_text(encoding="utf-8")), dict[str, Measured], strict=False)
    return {name: measured_like(one, table[one.like]) if one.like else one for name, one in table.items()}


def measured_like(one: Measured, other: Measured) -> Measured:
    """A measurement with the amounts of another."""
    return msgspec.structs.replace(other, **{name: getattr(one, name) for name in OWN})


def dot(amounts: Traits, coefficients: Traits) -> float:
    """Sum of amount times bytes for each; an amount without a coefficient was never seen to matter."""
    return sum(amount * coefficients.get(name, 0.0) for name, amount in amounts.items())


def table_traits(module: Module) -> Traits:
    """Amounts that constants grow with besides the tables themselves: unwinding tables, literals."""
    functions = sum(len(block.functions) for block in module.blocks)
    used = {one.name: one for one in kernels(module)}.values()
    twins = sum(bool(one.twin) for one in used)
    return {"kernels": float(len(used) - twins), "twins": float(twins), "functions": float(functions)}


def table_bytes(module: Module, package: Package) -> int:
    """Constants whose size is known: descriptors, arrays, experts of each layer (16 bits each), the model's name."""
    known = descriptor_bytes(module) + constant_bytes(module)
    return known + 2 * len(package.model.experts) + len(package.prefix) + 1


def program_buffers(package: Package) -> int:
    """Variables of `app/product.c`: prompt and logits, or inputs and outputs; words of 4 bytes."""
    model = package.model
    tokens = model.kind == "tokens"
    return 4 * (package.context + model.outputs if tokens else package.batch * (model.inputs + model.outputs))


def _kernel_bytes(used: list[Kernel], measured: Measured) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for kernel in used:
        shares = kernel.kind in measured.shared and not (kernel.alone and kernel.kind in measured.kernel)
        shares = shares and not (kernel.varied and kernel.kind in measured.apart)
        if shares:
            sizes.setdefault(kernel.runtime, _bytes(kernel, measured.shared))
        folded = kernel.twin and measured.folds
        sizes[kernel.name] = 0 if folded else _bytes(kernel, measured.wrapper if shares else measured.kernel)
    return sizes


def _bytes(kernel: Kernel, coefficients: dict[str, Traits]) -> int:
    if kernel.kind not in coefficients:
        return _UNKNOWN_KERNEL
    return max(0, round(dot(kernel.traits, coefficients[kernel.kind])))


def _library(used: list[Kernel], measured: Measured) -> int:
    return sum(_routines(used, measured).values())


def _routines(used: list[Kernel], measured: Measured) -> dict[str, int]:
    kinds = {kernel.kind for kernel in used}
    return {name: routine.bytes for name, routine in measured.library.items() if kinds & set(routine.kinds)}
