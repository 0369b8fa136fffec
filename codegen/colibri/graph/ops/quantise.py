"""Dynamic quantisation of activations: one scale a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from colibri.graph.float32 import quantise
from colibri.graph.graph import BufferKind, Op
from colibri.graph.interpret import Quantised

if TYPE_CHECKING:
    from colibri.emit.c_module import CScope
    from colibri.graph.interpret import Run


@dataclass(frozen=True)
class Quantise(Op):
    """``out = round(x / scale)`` with ``scale = max|x| / qmax``, row by row; see `float32.quantise`.

    With ``pieces`` above 1 each row has so many pieces of ``width`` values, with a scale each.
    """

    x: str
    out: str
    width: int
    kind: BufferKind
    qmax: int
    pieces: int = 1

    def reads(self) -> tuple[str, ...]:
        return (self.x,)

    def writes(self) -> tuple[str, ...]:
        return (self.out,)

    def signature(self) -> tuple[object, ...]:
        return ("quantise", self.x, self.out, self.width, self.kind, self.qmax, self.pieces)

    def reference(self, run: Run) -> None:
        run.quantised[self.out] = Quantised(*quantise(run.floats[self.x].reshape(-1, self.width), self.qmax))

    def emit(self, c: CScope) -> None:
        out = c.quantised(self.out)
        name = c.quantise(self.width, out.stride, self.kind, self.qmax, c.loop(self.pieces))
        c.line(f"{name}({out.integers}, {out.scale}, {c.floats(self.x)});")
