"""Elementwise activation, in place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from colibri.graph.float32 import ACTIVATIONS
from colibri.graph.graph import Op

if TYPE_CHECKING:
    from colibri.emit.c_module import CScope
    from colibri.graph.interpret import Run


@dataclass(frozen=True)
class Activation(Op):
    """``x = function(x)``; x is ``[rows, width]``."""

    x: str
    width: int
    function: str

    def reads(self) -> tuple[str, ...]:
        return (self.x,)

    def writes(self) -> tuple[str, ...]:
        return (self.x,)

    def signature(self) -> tuple[object, ...]:
        return ("activation", self.x, self.width, self.function)

    def reference(self, run: Run) -> None:
        run.floats[self.x] = ACTIVATIONS[self.function](run.floats[self.x])

    def emit(self, c: CScope) -> None:
        c.line(f"{c.activate(self.function, c.values(c.each, self.width))}({c.floats(self.x)});")
