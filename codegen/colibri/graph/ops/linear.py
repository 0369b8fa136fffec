"""Matrix product with the rows of a buffer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from colibri.graph.graph import BufferKind, Op, Product, TensorClass

if TYPE_CHECKING:
    from colibri.emit.c_module import CScope
    from colibri.graph.interpret import Run


@dataclass(frozen=True)
class Linear(Op):
    """``out[rows, n] = x[rows, k] W[n, k]^T + bias``; x is fp32 or quantised, as the weight's format asks.

    Attributes:
        slot: field of the C descriptor that holds the weight's place.
        keep_float: stays fp32 unless a rule asks for more.
        input_kind: kind of the buffer x.
        role: class of the matrix.
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
    role: TensorClass = TensorClass.DENSE

    can_share: ClassVar[bool] = True

    def reads(self) -> tuple[str, ...]:
        return (self.x,)

    def writes(self) -> tuple[str, ...]:
        return (self.out,)

    def weights(self) -> dict[str, str]:
        return {self.slot: self.weight}

    def products(self) -> tuple[Product, ...]:
        return (Product(self.weight, self.x, self.input_kind),)

    def tensor_class(self) -> TensorClass:
        return self.role

    def signature(self) -> tuple[object, ...]:
        return ("linear", self.slot, self.x, self.out, self.n, self.k, self.bias, self.input_kind)

    def reference(self, run: Run) -> None:
        run.floats[self.out] = run.product(self.weight, run.operand(self.x, self.input_kind))

    def emit(self, c: CScope) -> None:
        c.multiply(self.slot, self.x, self.input_kind, self.k, self.out)
