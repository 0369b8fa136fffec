"""Multiply rows by a factor of their position, in place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from colibri.graph.graph import Op

if TYPE_CHECKING:
    from colibri.emit.c_module import CScope
    from colibri.graph.interpret import Run


@dataclass(frozen=True)
class PositionScale(Op):
    """``x = x * factor[position]``; x is ``[rows, width]``, factor ``[context]``."""

    x: str
    factor: str
    width: int

    def reads(self) -> tuple[str, ...]:
        return (self.x,)

    def writes(self) -> tuple[str, ...]:
        return (self.x,)

    def weights(self) -> dict[str, str]:
        return {"position_factor": self.factor}

    def signature(self) -> tuple[object, ...]:
        return ("position_scale", self.x, self.width)

    def reference(self, run: Run) -> None:
        run.floats[self.x] = run.floats[self.x] * run.vector(self.factor)[run.positions()][:, None]

    def emit(self, c: CScope) -> None:
        c.kernel("position_scale")
        each, width = c.each, c.number("width", self.width, "int")
        name = c.instance(
            f"position_scale_{c.rows}x{width}",
            f"x[{c.rows}][{width}] *= factor[position]",
            "float *restrict x, const uint8_t *restrict factor, uint32_t position",
            each.loop(
                [
                    f"colibri_position_scale({each.at('x', width)}, {c.as_floats('factor', 0)}, "
                    f"{each.offset('position')}, {width});"
                ]
            ),
        )
        c.line(f"{name}({c.floats(self.x)}, {c.weight('position_factor')}, {c.position()});")
