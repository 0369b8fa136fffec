"""The functions of a linked WebAssembly module: their stack in its memory, and who calls whom."""

from __future__ import annotations

from pathlib import Path

from colibri.footprint.call_tree import Function, what_is_unknown
from colibri.footprint.machine_code import Code
from colibri.footprint.wasm_code import public_functions, read_functions

_HOST = Code(0, ())


class WasmTree:
    """Functions of a module; an address is a function's index. Those of the host take nothing of the module's stack.

    Attributes:
        public: names of functions that the package's objects define for others.
        reserve: bytes of the stack.

    Args:
        image: a module of the package.
        library: folder of the objects of the model and the runtime.
        stack: bytes that it was linked with.

    Raises:
        BadInput: module or objects cannot be read.
    """

    def __init__(self, image: Path, library: Path, stack: int) -> None:
        found = read_functions(image, stack)
        self._names, self._code = found.names, found.code
        self._indices = {name: index for index, name in found.names.items()}
        objects = sorted(library.rglob("*.o"))
        self.public = frozenset(self._indices) & frozenset().union(*map(public_functions, objects))
        self.reserve = stack

    def address(self, name: str) -> int | None:
        """Index of a function, or None."""
        return self._indices.get(name)

    def name(self, address: int) -> str:
        """What a function is called."""
        return self._names.get(address, f"function {address}")

    def function(self, address: int) -> Function:
        """The function of an index."""
        code = self._code.get(address, _HOST)
        return Function(self.name(address), code.depth, code.calls, what_is_unknown(code, None), False, None, code)
