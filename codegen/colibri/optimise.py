"""What the code of a package is made for, and how compilers are told."""

from __future__ import annotations

from enum import StrEnum

from colibri.boards.profile import CompilerFamily


class Optimise(StrEnum):
    """``speed``: kernels with constant shapes. ``size``: as few bytes of code as possible. The bits are the same."""

    SPEED = "speed"
    SIZE = "size"

    @property
    def level(self) -> str:
        """Level of optimisation that every compiler knows."""
        return "-O2" if self is Optimise.SPEED else "-Os"

    def level_of(self, family: CompilerFamily) -> str:
        """Level of optimisation of a compiler that is known: the -Os of LLVM still unrolls, its -Oz does not."""
        return "-Oz" if self is Optimise.SIZE and family is not CompilerFamily.GCC else self.level
