"""Matrix product head by head: each has a matrix of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from colibri.graph.graph import BufferKind, Op, Product, TensorClass
from colibri.graph.interpret import Quantised, product
from colibri.graph.weights import Matrix

if TYPE_CHECKING:
    from colibri.emit.c_module import CScope
    from colibri.graph.interpret import Run


@dataclass(frozen=True)
class HeadLinear(Op):
    """``out[row, h, n] = x[row, h, k] W_h[n, k]^T`` for each head h; x is fp32, or quantised with a scale a head.

    Attributes:
        weight: matrix ``[heads * n, k]`` in ``heads`` parts.
        input_kind: kind of the buffer x.
    """

    slot: str
    x: str
    out: str
    weight: str
    heads: int
    n: int
    k: int
    input_kind: BufferKind = BufferKind.FLOAT

    def reads(self) -> tuple[str, ...]:
        return (self.x,)

    def writes(self) -> tuple[str, ...]:
        return (self.out,)

    def weights(self) -> dict[str, str]:
        return {self.slot: self.weight}

    def products(self) -> tuple[Product, ...]:
        return (Product(self.weight, self.x, self.input_kind),)

    def tensor_class(self) -> TensorClass:
        return TensorClass.ATTENTION

    def signature(self) -> tuple[object, ...]:
        return ("head_linear", self.slot, self.x, self.out, self.heads, self.n, self.k, self.input_kind)

    def reference(self, run: Run) -> None:
        matrix = run.matrix(self.weight)
        parts = matrix.split if isinstance(matrix, Matrix) else matrix.blocks(self.n)
        if self.input_kind is BufferKind.FLOAT:
            x = run.floats[self.x].reshape(-1, self.heads, self.k)
            run.seen(self.weight, x.reshape(-1, self.k))
            outs = [product(part, np.ascontiguousarray(x[:, head])) for head, part in enumerate(parts)]
        else:
            whole = run.quantised[self.x]
            integers, scale = whole.integers.reshape(-1, self.heads, self.k), whole.scale.reshape(-1, self.heads)
            run.seen(self.weight, Quantised(whole.integers.reshape(-1, self.k), whole.scale.reshape(-1)))
            outs = [product(part, Quantised(integers[:, head], scale[:, head])) for head, part in enumerate(parts)]
        run.floats[self.out] = np.stack(outs, axis=1).reshape(-1, self.heads * self.n)

    def emit(self, c: CScope) -> None:
        layout = c.matrix(self.slot)
        head = f"i % {self.heads}" if c.here.end else "i"
        if self.input_kind is BufferKind.FLOAT:
            x, stride = f"{c.floats(self.x)} + i * {self.k}", self.k
        else:
            q = c.quantised(self.x)
            x, stride = f"{q.integers} + i * {q.stride}, {q.scale} + i", q.stride
        name = c.linear(layout, self.input_kind, c.once, stride)
        c.line(f"for (uint32_t i = 0; i < {c.here.times(self.heads)}; i++) {{")
        c.line(
            f"    {name}({c.floats(self.out)} + i * {self.n}, {c.weight(self.slot)} + {head} * {layout.stride}, {x});"
        )
        c.line("}")
