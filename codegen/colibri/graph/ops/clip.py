"""Bound every value, in place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from colibri.graph.graph import Op

if TYPE_CHECKING:
    from colibri.emit.c_module import CScope
    from colibri.graph.interpret import Run


@dataclass(frozen=True)
class Clip(Op):
    """``x = min(max(x, -limit), limit)``; x is ``[rows, width]``. NaN becomes ``-limit``."""

    x: str
    width: int
    limit: float

    def reads(self) -> tuple[str, ...]:
        return (self.x,)

    def writes(self) -> tuple[str, ...]:
        return (self.x,)

    def signature(self) -> tuple[object, ...]:
        return ("clip", self.x, self.width, self.limit)

    def reference(self, run: Run) -> None:
        limit = np.float32(self.limit)
        x = np.where(run.floats[self.x] > -limit, run.floats[self.x], -limit)
        run.floats[self.x] = np.where(x < limit, x, limit)

    def emit(self, c: CScope) -> None:
        c.kernel("clip")
        count, literal = c.values(c.each, self.width, "int"), c.float_literal(self.limit)
        name = c.instance(
            f"clip_{count}",
            f"x[{count}] within +-{literal}",
            "float *x",
            [f"colibri_clip(x, {literal}, {count});"],
        )
        c.line(f"{name}({c.floats(self.x)});")
