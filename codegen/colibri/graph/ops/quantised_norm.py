"""A norm and the quantisation of what it makes, in one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from colibri.graph.graph import Op
from colibri.graph.ops.quantise import Quantise
from colibri.graph.ops.rms_norm import RmsNorm

if TYPE_CHECKING:
    from colibri.emit.c_module import CScope
    from colibri.graph.interpret import Run


@dataclass(frozen=True)
class QuantisedNorm(Op):
    """A `RmsNorm` whose output a `Quantise` of 8 bits alone reads, so that kernels may estimate it.

    The norm's own buffer stays, for estimates; no other op may read it.
    """

    norm: RmsNorm
    quantise: Quantise

    def reads(self) -> tuple[str, ...]:
        return self.norm.reads()

    def writes(self) -> tuple[str, ...]:
        return (*self.norm.writes(), *self.quantise.writes())

    def weights(self) -> dict[str, str]:
        return self.norm.weights()

    def signature(self) -> tuple[object, ...]:
        return ("quantised_norm", self.norm.signature(), self.quantise.signature())

    def reference(self, run: Run) -> None:
        self.norm.reference(run)
        self.quantise.reference(run)

    def emit(self, c: CScope) -> None:
        c.kernel("rms_norm_int8")
        each, out, width, qmax = c.each, c.quantised(self.quantise.out), self.norm.width, self.quantise.qmax
        padded = "" if out.stride == width else f"_in_{out.stride}"
        operands = (each.at("y", out.stride), each.at("scale", 1), each.at("values", width), each.at("x", width))
        name = c.instance(
            f"rms_norm_int8_{c.rows}x{width}{padded}_to_{qmax}",
            f"y[{c.rows}][{out.stride}] = x / rms(x) * w[{width}] / scale[{c.rows}], within +-{qmax}",
            "int8_t *restrict y, float *restrict scale, float *restrict values, const float *restrict x, "
            "const uint8_t *restrict w",
            each.loop(
                [
                    f"colibri_rms_norm_int8({', '.join(operands)}, {c.as_floats('w', 0)}, {width}, {out.stride}, "
                    f"{c.float_literal(self.norm.eps)}, {qmax}.0f);"
                ]
            ),
        )
        values, x = c.floats(self.norm.out), c.floats(self.norm.x)
        c.line(f"{name}({out.integers}, {out.scale}, {values}, {x}, {c.weight(self.norm.slot)});")
