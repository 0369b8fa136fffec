"""Add rows, each times the sigmoid of its own score, in place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from colibri.graph.float32 import sigmoid
from colibri.graph.graph import Op

if TYPE_CHECKING:
    from colibri.emit.c_module import CScope
    from colibri.graph.interpret import Run


@dataclass(frozen=True)
class AddWeighted(Op):
    """``x = x + sigmoid(score) * y``; x and y ``[rows, width]``, score ``[rows, 1]``."""

    x: str
    y: str
    score: str
    width: int

    def reads(self) -> tuple[str, ...]:
        return (self.x, self.y, self.score)

    def writes(self) -> tuple[str, ...]:
        return (self.x,)

    def signature(self) -> tuple[object, ...]:
        return ("add_weighted", self.x, self.y, self.score, self.width)

    def reference(self, run: Run) -> None:
        run.floats[self.x] = run.floats[self.x] + sigmoid(run.floats[self.score]) * run.floats[self.y]

    def emit(self, c: CScope) -> None:
        c.kernel("add_weighted")
        each, width = c.loop(), c.number("width", self.width, "int")
        name = c.instance(
            f"add_weighted_{c.rows}x{width}",
            f"x[{c.rows}][{width}] += sigmoid(score[{c.rows}]) * y[{c.rows}][{width}]",
            "float *restrict x, const float *restrict y, const float *restrict score",
            each.loop(
                [
                    f"colibri_add_weighted({each.at('x', width)}, {each.at('y', width)}, "
                    f"{each.element('score')}, {width});"
                ]
            ),
        )
        c.line(f"{name}({c.floats(self.x)}, {c.floats(self.y)}, {c.floats(self.score)});")
