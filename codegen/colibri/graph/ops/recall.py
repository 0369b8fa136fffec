"""Take the rows of a call out of a state: a new pass begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from colibri.graph.graph import Op

if TYPE_CHECKING:
    from colibri.emit.c_module import CScope
    from colibri.graph.interpret import Run


@dataclass(frozen=True)
class Recall(Op):
    """``out[row] = state[position + row]``, fp32. Every row of the call has ended what stands before it."""

    slot: str
    out: str
    state: str
    width: int

    starts_pass: ClassVar[bool] = True

    def reads(self) -> tuple[str, ...]:
        return ()

    def writes(self) -> tuple[str, ...]:
        return (self.out,)

    def states(self) -> dict[str, str]:
        return {self.slot: self.state}

    def signature(self) -> tuple[object, ...]:
        return ("recall", self.slot, self.out, self.width)

    def reference(self, run: Run) -> None:
        rows = run.states[self.state][:, run.position : run.position + run.length]
        run.floats[self.out] = np.array(rows, np.float32).reshape(-1, self.width)

    def emit(self, c: CScope) -> None:
        c.kernel("recall")
        width = c.number("width", self.width)
        name = c.instance(
            f"recall_{c.rows}x{width}",
            f"x[{c.rows}][{width}] = state[position...][{width}]",
            "float *restrict x, const float *restrict state, uint32_t position",
            [f"colibri_recall(x, state + position * {width}, {c.values(c.each, self.width)});"],
        )
        c.line(f"{name}({c.floats(self.out)}, {c.state(self.slot)}, {c.position()});")
