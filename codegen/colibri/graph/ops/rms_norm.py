"""Root mean square layer normalisation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from colibri.graph.float32 import lane_sum
from colibri.graph.graph import Op

if TYPE_CHECKING:
    from colibri.emit.c_module import CScope
    from colibri.graph.interpret import Run


@dataclass(frozen=True)
class RmsNorm(Op):
    """``out = (x * (1 / sqrt(mean(x^2) + eps))) * weight``, row by row; the sum runs in 8 lanes.

    With ``groups`` above 1 each row has so many pieces of ``width`` values, which are normalised one by one with the
    same weights: the heads of a query. Source: arXiv 1910.07467.
    """

    slot: str
    x: str
    out: str
    weight: str
    width: int
    eps: float
    groups: int = 1

    def reads(self) -> tuple[str, ...]:
        return (self.x,)

    def writes(self) -> tuple[str, ...]:
        return (self.out,)

    def weights(self) -> dict[str, str]:
        return {self.slot: self.weight}

    def signature(self) -> tuple[object, ...]:
        return ("rms_norm", self.slot, self.x, self.out, self.width, self.eps, self.groups)

    def reference(self, run: Run) -> None:
        whole = run.floats[self.x]
        x = whole.reshape(-1, self.width)
        mean = lane_sum(x * x) / np.float32(self.width)
        factor = np.float32(1.0) / np.sqrt(mean + np.float32(self.eps))
        run.floats[self.out] = ((x * factor[:, None]) * run.vector(self.weight)).reshape(whole.shape)

    def emit(self, c: CScope) -> None:
        c.kernel("rms_norm")
        each, width = c.loop(self.groups), c.number("width", self.width, "int")
        name = c.instance(
            f"rms_norm_{each.shown}x{width}",
            f"y[{each.shown}][{width}] = x / rms(x) * w[{width}]",
            "float *restrict y, const float *restrict x, const uint8_t *restrict w",
            each.loop(
                [
                    f"colibri_rms_norm({each.at('y', width)}, {each.at('x', width)}, {c.as_floats('w', 0)}, "
                    f"{width}, {c.float_literal(self.eps)});"
                ]
            ),
        )
        c.line(f"{name}({c.floats(self.out)}, {c.floats(self.x)}, {c.weight(self.slot)});")
