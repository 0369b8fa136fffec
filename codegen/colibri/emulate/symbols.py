"""Names for addresses of an image."""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from pathlib import Path

from colibri.symbol_table import SymbolKind, symbols_of


@dataclass(frozen=True)
class Symbols:
    """The symbol table of an ELF file.

    Attributes:
        functions: (start, size in bytes, name), ascending; the Thumb bit is removed.
        values: address by name, of functions, variables and linker symbols.
    """

    functions: tuple[tuple[int, int, str], ...]
    values: dict[str, int]

    @classmethod
    def of(cls, image: Path) -> Symbols:
        """Read the symbol table; a stripped image has an empty one.

        Raises:
            BadInput: not an ELF file.
        """
        functions: set[tuple[int, int, str]] = set()
        values: dict[str, int] = {}
        table, thumb = symbols_of(image)
        for symbol in table:
            address = symbol.value
            if symbol.kind is SymbolKind.FUNCTION:
                address &= ~int(thumb)
                functions.add((address, symbol.bytes, symbol.name))
            values.setdefault(symbol.name, address)
        return cls(tuple(sorted(functions)), values)

    def function_at(self, address: int) -> str | None:
        """Name of the function that the address lies in, or None."""
        found = self._find(address)
        return found[2] if found else None

    def describe(self, address: int) -> str | None:
        """``name+0x12`` for an address in a function, or None."""
        found = self._find(address)
        if found is None:
            return None
        offset = address - found[0]
        return f"{found[2]}+0x{offset:x}" if offset else found[2]

    def range_of(self, name: str) -> tuple[int, int]:
        """First address of a function and the one behind its last.

        Raises:
            KeyError: no such function.
        """
        for start, size, function in self.functions:
            if function == name:
                return start, start + size
        raise KeyError(name)

    def _find(self, address: int) -> tuple[int, int, str] | None:
        """The last function that starts at or before the address, if it reaches so far.

        A function without a size (assembly) reaches to the next one.
        """
        at = bisect.bisect_right(self.functions, (address, 2**64, "")) - 1
        if at < 0:
            return None
        found = self.functions[at]
        return found if found[1] == 0 or address < found[0] + found[1] else None
