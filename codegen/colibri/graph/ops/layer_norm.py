"""Layer normalisation."""

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
class LayerNorm(Op):
    """``out = ((x - mean) * (1 / sqrt(mean((x - mean)^2) + eps))) * weight + bias``, row by row; sums in 8 lanes.

    Source: arXiv 1607.06450.
    """

    slot: str
    x: str
    out: str
    weight: str
    bias: str
    width: int
    eps: float

    def reads(self) -> tuple[str, ...]:
        return (self.x,)

    def writes(self) -> tuple[str, ...]:
        return (self.out,)

    def weights(self) -> dict[str, str]:
        return {self.slot: self.weight, f"{self.slot}_bias": self.bias}

    def signature(self) -> tuple[object, ...]:
        return ("layer_norm", self.slot, self.x, self.out, self.width, self.eps)

    def reference(self, run: Run) -> None:
        x, width = run.floats[self.x], np.float32(self.width)
        centred = x - (lane_sum(x) / width)[:, None]
        factor = np.float32(1.0) / np.sqrt(lane_sum(centred * centred) / width + np.float32(self.eps))
        run.floats[self.out] = (centred * factor[:, None]) * run.vector(self.weight) + run.vector(self.bias)

    def emit(self, c: CScope) -> None:
        c.kernel("layer_norm")
        each, width = c.loop(), c.number("width", self.width, "int")
        name = c.instance(
            f"layer_norm_{c.rows}x{width}",
            f"y[{c.rows}][{width}] = (x - mean) / deviation * w[{width}] + b[{width}]",
            "float *restrict y, const float *restrict x, const uint8_t *restrict w, const uint8_t *restrict b",
            each.loop(
                [
                    f"colibri_layer_norm({each.at('y', width)}, {each.at('x', width)}, "
                    f"{c.as_floats('w', 0)}, {c.as_floats('b', 0)}, {width}, {c.float_literal(self.eps)});"
                ]
            ),
        )
        weights = f"{c.weight(self.slot)}, {c.weight(f'{self.slot}_bias')}"
        c.line(f"{name}({c.floats(self.out)}, {c.floats(self.x)}, {weights});")
