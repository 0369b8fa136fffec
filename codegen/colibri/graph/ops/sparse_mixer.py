"""Choose two experts, each by a softmax of its own over those that come near it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from colibri.graph.float32 import Float, Int, softmax_terms
from colibri.graph.graph import Buffer, BufferKind, Op, Product, TensorClass
from colibri.graph.interpret import Route

if TYPE_CHECKING:
    from colibri.emit.c_module import CScope
    from colibri.graph.interpret import Run

_LOWEST = np.float32(-np.inf)


@dataclass(frozen=True)
class SparseMixer(Op):
    """The largest score s wins; its weight is its softmax among those with ``(s - score) / max(|score|, s) <= width``.

    Then the winner is taken out and the second is found in the same way, with magnitudes of the original scores. The
    weights do not sum to 1. NaN counts as the smallest score, ties go to the lower index.

    Source: SparseMixer-v2 (arXiv 2409.12136); transformers' `sparsemixer`, as it is at inference.
    """

    x: str
    route: str
    weight: str
    num_experts: int
    k: int
    width: float
    input_kind: BufferKind = BufferKind.FLOAT

    def reads(self) -> tuple[str, ...]:
        return (self.x,)

    def writes(self) -> tuple[str, ...]:
        return (self.route,)

    def scratch(self) -> tuple[Buffer, ...]:
        return (
            Buffer("router_scores", BufferKind.FLOAT, self.num_experts),
            Buffer("router_near", BufferKind.FLOAT, self.num_experts, fixed_rows=1),
        )

    def weights(self) -> dict[str, str]:
        return {"router": self.weight}

    def products(self) -> tuple[Product, ...]:
        return (Product(self.weight, self.x, self.input_kind),)

    def tensor_class(self) -> TensorClass:
        return TensorClass.ROUTER

    def signature(self) -> tuple[object, ...]:
        return ("sparse_mixer", self.x, self.route, self.num_experts, self.k, self.width, self.input_kind)

    def reference(self, run: Run) -> None:
        scores = run.product(self.weight, run.operand(self.x, self.input_kind))
        scores = np.where(np.isnan(scores), _LOWEST, scores)
        first, first_weight = self._winner(scores, np.abs(scores))
        left = scores.copy()
        np.put_along_axis(left, first[:, None].astype(np.int64), _LOWEST, axis=1)
        second, second_weight = self._winner(left, np.abs(scores), first)
        index, weight = np.stack([first, second], axis=1), np.stack([first_weight, second_weight], axis=1)
        order = np.argsort(index, axis=1)
        run.floats["router_scores"] = scores
        run.routes[self.route] = Route(
            np.take_along_axis(index, order, axis=1), np.take_along_axis(weight, order, axis=1)
        )

    def _winner(self, scores: Float, magnitude: Float, taken: Int | None = None) -> tuple[Int, Float]:
        """Index and weight of the largest score; ``taken`` is out even when nothing is above the lowest value."""
        candidates = scores
        if taken is not None:  # among scores that are all the lowest, the one that is taken must not win again
            order = np.argsort(-scores, axis=1, kind="stable")
            best = np.where(order[:, 0] == taken, order[:, 1], order[:, 0]).astype(np.int32)
        else:
            best = np.argmax(candidates, axis=1).astype(np.int32)
        top = np.take_along_axis(scores, best[:, None].astype(np.int64), axis=1)
        near = np.where(
            (top - scores) / np.where(magnitude > top, magnitude, top) > np.float32(self.width), _LOWEST, scores
        )
        terms, inverse = softmax_terms(near)
        weight = np.take_along_axis(terms * inverse, best[:, None].astype(np.int64), axis=1)[:, 0]
        return best, weight

    def emit(self, c: CScope) -> None:
        c.kernel("sparse_mixer")
        each, scores, route = c.each, c.floats("router_scores"), c.route(self.route)
        count = c.number("experts", self.num_experts)
        c.multiply("router", self.x, self.input_kind, self.k, "router_scores")
        name = c.instance(
            f"sparse_mixer_{c.rows}x{count}",
            f"index and weight[{c.rows}][2] of scores[{c.rows}][{count}], each among its near ones",
            "uint32_t *restrict index, float *restrict weight, float *restrict scores, float *restrict near",
            each.loop(
                [
                    f"colibri_sparse_mixer({each.at('index', 2)}, {each.at('weight', 2)}, "
                    f"{each.at('scores', count)}, near, {count}, "
                    f"{c.float_literal(self.width)});"
                ]
            ),
        )
        c.line(f"{name}({route.index}, {route.weight}, {scores}, {c.floats('router_near')});")
