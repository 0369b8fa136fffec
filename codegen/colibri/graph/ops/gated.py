"""The product inside a gated MLP, in place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from colibri.graph.float32 import ACTIVATIONS
from colibri.graph.graph import Op

if TYPE_CHECKING:
    from colibri.emit.c_module import CScope
    from colibri.graph.interpret import Run


@dataclass(frozen=True)
class Gated(Op):
    """``up = function(gate) * up``; both ``[rows, width]``. Source: GLU variants, arXiv 2002.05202."""

    up: str
    gate: str
    width: int
    function: str

    def reads(self) -> tuple[str, ...]:
        return (self.up, self.gate)

    def writes(self) -> tuple[str, ...]:
        return (self.up,)

    def signature(self) -> tuple[object, ...]:
        return ("gated", self.up, self.gate, self.width, self.function)

    def reference(self, run: Run) -> None:
        run.floats[self.up] = ACTIVATIONS[self.function](run.floats[self.gate]) * run.floats[self.up]

    def emit(self, c: CScope) -> None:
        c.line(f"{c.gate(self.function, c.values(c.each, self.width))}({c.floats(self.up)}, {c.floats(self.gate)});")
