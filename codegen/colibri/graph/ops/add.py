"""Residual addition, in place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from colibri.graph.graph import Op

if TYPE_CHECKING:
    from colibri.emit.c_module import CScope
    from colibri.graph.interpret import Run


@dataclass(frozen=True)
class Add(Op):
    """``x = x + y``; both ``[rows, width]``."""

    x: str
    y: str
    width: int

    def reads(self) -> tuple[str, ...]:
        return (self.x, self.y)

    def writes(self) -> tuple[str, ...]:
        return (self.x,)

    def signature(self) -> tuple[object, ...]:
        return ("add", self.x, self.y, self.width)

    def reference(self, run: Run) -> None:
        run.floats[self.x] = run.floats[self.x] + run.floats[self.y]

    def emit(self, c: CScope) -> None:
        c.kernel("add")
        count = c.values(c.each, self.width, "int")
        name = c.instance(
            f"add_{count}",
            f"x[{count}] += y[{count}]",
            "float *restrict x, const float *restrict y",
            [f"colibri_add(x, y, {count});"],
        )
        c.line(f"{name}({c.floats(self.x)}, {c.floats(self.y)});")
