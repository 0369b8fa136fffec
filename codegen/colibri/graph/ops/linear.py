"""Matrix product with the rows of a buffer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from colibri.graph.graph import BufferKind, Op, Product
from colibri.graph.interpret import product

if TYPE_CHECKING:
    from colibri.emit.c_module import CScope
    from colibri.graph.interpret import Run


@dataclass(frozen=True)
class Linear(Op):
    """``out[rows, n] = x[rows, k] W[n, k]^T + bias``; x is fp32 or quantised, as the weight's format asks.

    Attributes:
        slot: field of the C descriptor that holds the weight's place.
        keep_float: stays fp32 whatever the scheme.
        input_kind: kind of the buffer x.
    """

    slot: str
    x: str
    out: str
    weight: str
    n: int
    k: int
    bias: bool = False
    keep_float: bool = False
    input_kind: BufferKind = BufferKind.FLOAT

    def reads(self) -> tuple[str, ...]:
        return (self.x,)

    def writes(self) -> tuple[str, ...]:
        return (self.out,)

    def weights(self) -> dict[str, str]:
        return {self.slot: self.weight}

    def products(self) -> tuple[Product, ...]:
        return (Product(self.weight, self.x, self.input_kind),)

    def signature(self) -> tuple[object, ...]:
        return ("linear", self.slot, self.x, self.out, self.n, self.k, self.bias, self.input_kind)

    def reference(self, run: Run) -> None:
        floats = self.input_kind is BufferKind.FLOAT
        x = run.floats[self.x] if floats else run.quantised[self.x]
        run.floats[self.out] = product(run.matrix(self.weight), x)

    def emit(self, c: CScope) -> None:
        if self.input_kind is BufferKind.FLOAT:
            x, stride = c.floats(self.x), self.k
        else:
            q = c.quantised(self.x)
            x, stride = f"{q.integers}, {q.scale}", q.stride
        name = c.linear(c.matrix(self.slot), self.input_kind, c.rows, stride)
        c.line(f"{name}({c.floats(self.out)}, {c.weight(self.slot)}, {x});")
