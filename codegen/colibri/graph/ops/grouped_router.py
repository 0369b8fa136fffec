"""Choose experts within the best groups of them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from colibri.graph.float32 import Float, sigmoid, softmax_terms
from colibri.graph.graph import Buffer, BufferKind, Op, Product, TensorClass
from colibri.graph.interpret import Route
from colibri.graph.ops.router import top_k

if TYPE_CHECKING:
    from colibri.emit.c_module import CScope
    from colibri.graph.interpret import Run

_LOWEST = np.float32(-np.inf)


@dataclass(frozen=True)
class GroupedRouter(Op):
    """``route = top_k(score(x W^T) + correction)`` among the experts of the best groups.

    A score is the softmax probability over all experts, or the sigmoid of each. A group's value is its largest
    corrected score, or the sum of its two largest; the ``groups_kept`` groups of the largest values are open. NaN
    counts as the smallest, ties go to the lower index. The weight of a chosen expert is its score without the
    correction, with ``renormalise`` divided by the sum of the chosen, added in ascending index, plus 1e-20.

    Source: DeepSeek-V3 (arXiv 2412.19437), section 2.1.2; transformers' `DeepseekV3TopkRouter`.

    Attributes:
        correction: vector ``[experts]``, or empty.
        sizes: experts of each group, which stand one behind the other.
        best: 1 or 2 scores that make a group's value.
    """

    x: str
    route: str
    weight: str
    correction: str
    k: int
    top_k: int
    renormalise: bool
    score: str
    sizes: tuple[int, ...]
    groups_kept: int
    best: int
    input_kind: BufferKind = BufferKind.FLOAT

    @property
    def num_experts(self) -> int:
        """Of all groups."""
        return sum(self.sizes)

    def reads(self) -> tuple[str, ...]:
        return (self.x,)

    def writes(self) -> tuple[str, ...]:
        return (self.route,)

    def scratch(self) -> tuple[Buffer, ...]:
        return (
            Buffer("router_scores", BufferKind.FLOAT, self.num_experts),
            Buffer("router_choice", BufferKind.FLOAT, self.num_experts, fixed_rows=1),
            Buffer("router_groups", BufferKind.FLOAT, len(self.sizes), fixed_rows=1),
        )

    def weights(self) -> dict[str, str]:
        return {"router": self.weight, **({"router_correction": self.correction} if self.correction else {})}

    def products(self) -> tuple[Product, ...]:
        return (Product(self.weight, self.x, self.input_kind),)

    def tensor_class(self) -> TensorClass:
        return TensorClass.ROUTER

    def signature(self) -> tuple[object, ...]:
        shape = (self.k, self.top_k, self.renormalise, self.score, self.sizes, self.groups_kept, self.best)
        return ("grouped_router", self.x, self.route, bool(self.correction), *shape, self.input_kind)

    def reference(self, run: Run) -> None:
        logits = run.product(self.weight, run.operand(self.x, self.input_kind))
        if self.score == "softmax":
            terms, inverse = softmax_terms(logits)
            scores = terms * inverse
        else:
            scores = sigmoid(logits)
        choice = scores + run.vector(self.correction) if self.correction else scores
        choice = np.where(np.isnan(choice), _LOWEST, choice)
        bounds = np.cumsum([0, *self.sizes]).tolist()
        groups = [choice[:, low:high] for low, high in pairwise(bounds)]
        values = np.stack([self._value(group) for group in groups], axis=1)
        for row, kept in enumerate(top_k(values, self.groups_kept)):
            for index in set(range(len(groups))) - set(kept.tolist()):
                choice[row, bounds[index] : bounds[index + 1]] = _LOWEST
        chosen = top_k(choice, self.top_k)
        weights = np.take_along_axis(scores, chosen, axis=-1)
        if self.renormalise:
            total = weights[:, 0]
            for i in range(1, self.top_k):
                total = total + weights[:, i]
            weights = weights / (total + np.float32(1e-20))[:, None]
        run.floats["router_scores"] = scores
        run.routes[self.route] = Route(chosen, weights)

    def _value(self, group: Float) -> Float:
        ordered = -np.sort(-group, axis=1)
        empty = np.full(group.shape[0], _LOWEST)
        first = ordered[:, 0] if group.shape[1] else empty
        if self.best == 1:
            return first
        return first + (ordered[:, 1] if group.shape[1] > 1 else empty)

    def emit(self, c: CScope) -> None:
        c.kernel("grouped_router")
        each, scores, route = c.each, c.floats("router_scores"), c.route(self.route)
        c.multiply("router", self.x, self.input_kind, self.k, "router_scores")
        how = "renormalised" if self.renormalise else "as they are"
        count, groups = c.number("experts", self.num_experts), len(self.sizes)
        correction = c.as_floats("correction", 0) if self.correction else "NULL"
        flags = ("true" if flag else "false" for flag in (self.score == "softmax", self.best == 2, self.renormalise))
        name = c.instance(
            f"top{self.top_k}_of_{c.rows}x{count}_in_{self.groups_kept}_of_{groups}",
            f"index and weight[{c.rows}][{self.top_k}] of the largest of scores[{c.rows}][{count}] in "
            f"{self.groups_kept} of {groups} groups, {how}",
            "uint32_t *restrict index, float *restrict weight, float *restrict scores, float *restrict choice, "
            "float *restrict value" + (", const uint8_t *restrict correction" if self.correction else ""),
            [
                f"static const uint32_t sizes[{groups}] = {{{', '.join(map(str, self.sizes))}}};",
                *each.loop(
                    [
                        f"colibri_grouped_router({each.at('index', self.top_k)}, {each.at('weight', self.top_k)}, "
                        f"{each.at('scores', count)}, choice, value, {correction}, sizes, {count}, {groups}, "
                        f"{self.groups_kept}, {self.top_k}, {', '.join(flags)});"
                    ]
                ),
            ],
        )
        arguments = [route.index, route.weight, scores, c.floats("router_choice"), c.floats("router_groups")]
        if self.correction:
            arguments.append(c.weight("router_correction"))
        c.line(f"{name}({', '.join(arguments)});")
