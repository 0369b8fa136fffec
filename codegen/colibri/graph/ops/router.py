"""Choose experts: fp32 scores, softmax, top-k."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from colibri.graph.float32 import Float, Int, exp, softmax_terms
from colibri.graph.graph import Buffer, BufferKind, Op, Product, TensorClass
from colibri.graph.interpret import Route

if TYPE_CHECKING:
    from colibri.emit.c_module import CScope
    from colibri.graph.interpret import Run


def top_k(scores: Float, k: int) -> Int:
    """Indices of the k largest of ``scores[rows, n]``, ascending by index; ties go to the lower index."""
    order = np.argsort(-np.where(np.isnan(scores), np.float32(-np.inf), scores), axis=-1, kind="stable")
    return np.sort(order[:, :k], axis=-1).astype(np.int32)


@dataclass(frozen=True)
class Router(Op):
    """``route = top_k(softmax(x W^T + bias))``; the matrix is fp32 unless a rule asks for less.

    The k largest scores are chosen (ties: lower index; NaN counts as the smallest). An expert's weight is its softmax
    probability over all experts kept; with ``renormalise`` over the chosen, whose terms are added in ascending index.
    That is the probability over all, divided by the sum of the chosen, but experts that are not chosen have no part in
    it: one that never is can go, and no bit changes. Source: transformers' `MixtralTopKRouter`.

    Attributes:
        estimated: the C computes scores of those experts alone that an estimate cannot rule out; no bit depends on it.
    """

    x: str
    route: str
    weight: str
    num_experts: int
    k: int
    top_k: int
    renormalise: bool
    bias: bool
    input_kind: BufferKind = BufferKind.FLOAT
    estimated: bool = False

    def reads(self) -> tuple[str, ...]:
        return (self.x,)

    def writes(self) -> tuple[str, ...]:
        return (self.route,)

    def scratch(self) -> tuple[Buffer, ...]:
        scores = Buffer("router_scores", BufferKind.FLOAT, self.num_experts)
        return (
            (scores, Buffer("router_inputs", BufferKind.INT32, self.k, fixed_rows=1)) if self.estimated else (scores,)
        )

    def weights(self) -> dict[str, str]:
        return {"router": self.weight}

    def products(self) -> tuple[Product, ...]:
        return (Product(self.weight, self.x, self.input_kind),)

    def tensor_class(self) -> TensorClass:
        return TensorClass.ROUTER

    def signature(self) -> tuple[object, ...]:
        shape = (self.num_experts, self.k, self.top_k, self.renormalise, self.bias)
        return ("router", self.x, self.route, *shape, self.input_kind, self.estimated)

    def reference(self, run: Run) -> None:
        scores = run.product(self.weight, run.operand(self.x, self.input_kind))
        chosen = top_k(scores, self.top_k)
        if self.renormalise:
            best = np.take_along_axis(scores, chosen, axis=-1)
            weights = exp(best - np.fmax.reduce(best, axis=-1, initial=np.float32(-np.inf))[:, None])
            total = weights[:, 0]
            for i in range(1, self.top_k):
                total = total + weights[:, i]
            weights = weights / total[:, None]
        else:
            terms, inverse = softmax_terms(scores)
            weights = np.take_along_axis(terms * inverse, chosen, axis=-1)
        run.floats["router_scores"] = scores
        run.routes[self.route] = Route(chosen, weights)

    def emit(self, c: CScope) -> None:
        c.kernel("router")
        if self.estimated:
            self._emit_estimated(c)
            return
        each, scores, route = c.each, c.floats("router_scores"), c.route(self.route)
        count = c.number("experts", self.num_experts)
        c.multiply("router", self.x, self.input_kind, self.k, "router_scores")
        how = "renormalised" if self.renormalise else "as they are"
        name = c.instance(
            f"top{self.top_k}_of_{c.rows}x{count}",
            f"index and weight[{c.rows}][{self.top_k}] of the largest of scores[{c.rows}][{count}], {how}",
            "uint32_t *restrict index, float *restrict weight, float *restrict scores",
            each.loop(
                [
                    f"colibri_router({each.at('index', self.top_k)}, {each.at('weight', self.top_k)}, "
                    f"{each.at('scores', count)}, {count}, {self.top_k}, "
                    f"{'true' if self.renormalise else 'false'});"
                ]
            ),
        )
        c.line(f"{name}({route.index}, {route.weight}, {scores});")

    def _emit_estimated(self, c: CScope) -> None:
        c.kernel("route")
        each, scores, route = c.each, c.floats("router_scores"), c.route(self.route)
        shape = f"{self.num_experts}x{self.k}"
        operands = (each.at("index", self.top_k), each.at("weight", self.top_k), each.at("scores", self.num_experts))
        w = c.as_floats("w", c.matrix("router").data)
        sizes = f"{self.num_experts}, {self.k}, {self.top_k}"
        name = c.instance(
            f"top{self.top_k}_of_{c.rows}x{shape}",
            f"index and weight[{c.rows}][{self.top_k}] of the largest of x[{c.rows}][{self.k}] "
            f"W[{self.num_experts}][{self.k}]^T, renormalised",
            "uint32_t *restrict index, float *restrict weight, float *restrict scores, int32_t *restrict inputs, "
            "const uint8_t *restrict w, const float *restrict x",
            each.loop([f"colibri_route({', '.join(operands)}, inputs, {w}, {each.at('x', self.k)}, {sizes});"]),
        )
        x, inputs = c.floats(self.x), c.integers("router_inputs")
        c.line(f"{name}({route.index}, {route.weight}, {scores}, {inputs}, {c.weight('router')}, {x});")
