"""A bound of the stack, from what the compiler says of frames and what the linked machine code calls.

Covered: every direct call and jump of the image, those into the compiler's and the C library included, and on Arm's
M profile the frame that the core itself pushes when it takes an exception. Refused, with the reason: recursion, calls
through pointers, frames whose size only the run knows. Not covered: interrupt handlers that an application adds; the
port's own fault handlers have a stack of their own. Of WebAssembly it is the stack in the module's memory; that of the
engine, with return addresses and most local variables, is the engine's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import msgspec

from colibri.boards.profile import Board, BoardKind
from colibri.errors import BadInput, ToolMissing
from colibri.footprint.call_tree import CallTree, Function
from colibri.footprint.compiler_frames import CompilerFrames
from colibri.footprint.wasm_tree import WasmTree
from colibri.package import Package
from colibri.toolchain.places import disassembler

ALIGNMENT = 64
_LEAST_MARGIN = 256
_ROOTS = {
    BoardKind.BARE: "port_start",
    BoardKind.WASM: "_start",
}  # where the whole of a stack of the image's own begins
_BASIC_FRAME, _FLOAT_FRAME, _REALIGNED = 32, 104, 4  # ArmV7-M Architecture Reference Manual, B1.5.6


class Tree(Protocol):
    """The functions of an image, by their addresses."""

    public: frozenset[str]
    reserve: int

    def address(self, name: str) -> int | None:
        """Of a function, or None."""

    def name(self, address: int) -> str:
        """What a function is called."""

    def function(self, address: int) -> Function:
        """The function that starts there."""


class StackFrame(msgspec.Struct, frozen=True):
    """A function on the deepest path, and the bytes of its own above the next one's (of the last one: all)."""

    function: str
    bytes: int


class StackBound(msgspec.Struct, frozen=True):
    """Stack that a function and all that it calls take at most.

    Attributes:
        bytes: below the stack pointer at its call (on x86-64 with the return address); None when there is no bound.
        unknown: why not; empty when there is one.
        path: the deepest path, or the one to what is not known.
    """

    name: str
    bytes: int | None
    unknown: str = ""
    path: tuple[StackFrame, ...] = ()


class StackUse(msgspec.Struct, frozen=True):
    """The stack of an image. All sizes in bytes.

    Attributes:
        program: from the start of the program on, all of it.
        exception: what the core itself pushes when it takes an exception.
        margin: kept on top, for interrupts of the application; 0 when the program has no bound, and in WebAssembly.
        needed: sum of the three, rounded up to a multiple of 64; None when the program has no bound.
        reserve: what the image has; 0 under Linux and Windows, where the system gives more as it is needed.
        entries: the public functions in the image, by name.
    """

    program: StackBound
    exception: int
    margin: int
    needed: int | None
    reserve: int
    entries: tuple[StackBound, ...]

    @property
    def overflows(self) -> bool:
        """Whether the bound and an exception are more than the reserve."""
        return 0 < self.reserve < (self.program.bytes or 0) + (self.exception if self.program.bytes else 0)

    @property
    def short(self) -> int:
        """Bytes that the reserve lacks; 0 when it is enough, or nothing is known."""
        return max(0, (self.needed or 0) - self.reserve) if self.reserve else 0


class ObservedEntry(msgspec.Struct, frozen=True):
    """One function, over all golden inputs. All sizes in bytes.

    Attributes:
        bound: see `StackBound.bytes`.
        observed: from the stack pointer at its call down to the lowest address that it or its callees wrote; None when
            the test program reaches it in more ways than one.
    """

    name: str
    bound: int | None
    observed: int | None

    @property
    def ratio(self) -> float | None:
        """Observed in units of the bound; None when one of them is not known, or is nothing."""
        return self.observed / self.bound if self.observed is not None and self.bound else None


class ObservedPages(msgspec.Struct, frozen=True):
    """What a run touched, in pages of 4,096 bytes at multiples of 4,096.

    Attributes:
        pages: of which at least one byte was read or written.
        of_pages: all in which something lies.
    """

    pages: int
    of_pages: int


class ObservedBlock(msgspec.Struct, frozen=True):
    """What a run touched of a block of the model's memory.

    Attributes:
        high_water: bytes from its start to the end of the last touched one.
        pages: of 4,096 bytes at multiples of 4,096, of which at least one byte was read or written.
        of_pages: all in which the block lies.
    """

    region: str
    high_water: int
    pages: int
    of_pages: int = 0


class Observed(msgspec.Struct, frozen=True):
    """A run of the test program over all golden inputs. All sizes in bytes.

    Attributes:
        program: bound and depth of the whole test program; under Linux of all that answers a request.
        entries: public functions that the test program calls, in the order of its calls.
        memory: for each block of the model's memory, what was touched in it.
        weights: pages of `model.bin`, as it is linked in, that initialisation and inference read; the check of its
            checksums, which reads all, is left out. None when it was not watched, or not all that reads it is seen.
    """

    emulator: str
    program: ObservedEntry
    entries: tuple[ObservedEntry, ...]
    memory: tuple[ObservedBlock, ...]
    weights: ObservedPages | None = None

    @property
    def pages_text(self) -> str:
        """Pages touched: ``weights 309 of 321, memory in dtcm 8 of 8``; empty when none were counted."""
        parts = [("weights", self.weights.pages, self.weights.of_pages)] if self.weights else []
        parts += [(f"memory in {block.region}", block.pages, block.of_pages) for block in self.memory]
        return ", ".join(f"{name} {pages:,} of {of_pages:,}" for name, pages, of_pages in parts)


def stack_use(folder: Path, package: Package, image: Path) -> StackUse:
    """Bound the stack of an image of a package; when it cannot be read, the reason is that of a missing bound."""
    kind = package.board.kind
    root = _ROOTS.get(kind, "main")
    try:
        tree = tree_of(folder, package, image)
    except (BadInput, ToolMissing) as error:
        reserve = package.board.stack
        return StackUse(StackBound(root, None, error.what), exception_frame(package.board), 0, None, reserve, ())
    bounds = Bounds(tree)
    program = bounds.of(root)
    exception = exception_frame(package.board)
    margin = 0 if program.bytes is None or kind is BoardKind.WASM else margin_of(program.bytes)
    needed = None if program.bytes is None else _rounded(program.bytes + exception + margin)
    return StackUse(
        program=program,
        exception=exception,
        margin=margin,
        needed=needed,
        reserve=tree.reserve if kind in _ROOTS else 0,
        entries=tuple(bounds.of(name) for name in entry_points(tree, package)),
    )


def tree_of(folder: Path, package: Package, image: Path) -> Tree:
    """The functions of an image of a package: a module, or machine code.

    Raises:
        BadInput: the image or its map cannot be read.
        ToolMissing: no disassembler.
    """
    if package.board.kind is BoardKind.WASM:
        return WasmTree(image, folder / "build/library", package.board.stack)
    return open_tree(folder, package, image)


def open_tree(folder: Path, package: Package, image: Path) -> CallTree:
    """The functions of an image of a package that is machine code.

    Raises:
        BadInput: the image or its map cannot be read.
        ToolMissing: no disassembler.
    """
    return CallTree(image, CompilerFrames(folder / "build"), package.board.cpu.arch, disassembler(folder))


def entry_points(tree: Tree, package: Package) -> list[str]:
    """Public functions of the model and the runtime that are in an image."""
    return sorted(name for name in tree.public if name.startswith((f"{package.prefix}_", "colibri_")))


def exception_frame(board: Board) -> int:
    """Bytes that the core pushes onto the interrupted program's stack; RISC-V cores push nothing."""
    if board.kind is not BoardKind.BARE or board.cpu.arch != "arm":
        return 0
    return (_FLOAT_FRAME if board.cpu.fpu else _BASIC_FRAME) + _REALIGNED


def margin_of(bound: int) -> int:
    """A quarter of the bound, at least 256 bytes."""
    return max(_LEAST_MARGIN, -(-bound // 4))


def _rounded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


class Bounds:
    """Bounds of the functions of an image, each worked out once."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._done: dict[int, StackBound] = {}
        self._open: list[int] = []

    def of(self, name: str) -> StackBound:
        """The bound of a function that the program or its start-up enters from outside."""
        address = self._tree.address(name)
        if address is None:
            return StackBound(name, None, "it is not in the image")
        return msgspec.structs.replace(self._at(address, outermost=True), name=name)

    def _at(self, address: int, *, outermost: bool = False) -> StackBound:
        if address in self._open:
            names = [self._tree.name(one) for one in self._open[self._open.index(address) :]]
            return StackBound(self._tree.name(address), None, f"recursion: {' → '.join([*names, names[0]])}")
        if address not in self._done:
            self._open.append(address)
            self._done[address] = self._work_out(address, outermost)
            self._open.pop()
        return self._done[address]

    def _work_out(self, address: int, outermost: bool) -> StackBound:
        function = self._tree.function(address)
        reason = function.unknown
        if function.switches and not outermost:
            reason = reason or "it sets the stack pointer"
        if reason:
            return StackBound(function.name, None, f"{function.name}: {reason}", (StackFrame(function.name, 0),))
        deepest = function.bytes
        path: tuple[StackFrame, ...] = (StackFrame(function.name, function.bytes),)
        for call in function.calls:
            callee = self._at(call.target)
            if callee.bytes is None:
                way = (StackFrame(function.name, call.depth), *callee.path)
                return StackBound(function.name, None, callee.unknown, way)
            if call.depth + callee.bytes > deepest:
                deepest = call.depth + callee.bytes
                path = (StackFrame(function.name, call.depth), *callee.path)
        return StackBound(function.name, deepest, "", path)
