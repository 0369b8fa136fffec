"""Keep the last row of a call: only its logits are asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from colibri.graph.graph import Op

if TYPE_CHECKING:
    from colibri.emit.c_module import CScope
    from colibri.graph.interpret import Run


@dataclass(frozen=True)
class LastRow(Op):
    """``out[1, width] = x[rows - 1]``; every op behind it runs on one row."""

    x: str
    out: str
    width: int

    def reads(self) -> tuple[str, ...]:
        return (self.x,)

    def writes(self) -> tuple[str, ...]:
        return (self.out,)

    def signature(self) -> tuple[object, ...]:
        return ("last_row", self.x, self.out, self.width)

    def reference(self, run: Run) -> None:
        x = run.floats[self.x]
        if not run.all_rows:
            x = np.ascontiguousarray(x.reshape(run.sequences, run.length, -1)[:, -1])
        run.floats[self.out] = x

    def emit(self, c: CScope) -> None:
        c.kernel("last_row")
        name = c.instance(
            f"last_row_{self.width}",
            f"out[{self.width}] = x[last][{self.width}]",
            "float *restrict out, const float *restrict x, uint32_t last",
            [f"colibri_last_row(out, x, last, {self.width});"],
        )
        c.line(f"{name}({c.floats(self.out)}, {c.floats(self.x)}, last_row);")
