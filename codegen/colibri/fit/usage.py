"""Which experts a model needs least: by the weight that the router gives them on some of the data."""

from __future__ import annotations

from collections import defaultdict

from colibri.evaluate.data import SampleData, TokenData
from colibri.graph.graph import Graph, Op
from colibri.graph.interpret import Reference, Run
from colibri.graph.ops import Experts

_MOST = 1024  # positions or samples that the reference runs


def worst_first(graph: Graph, data: TokenData | SampleData) -> dict[int, list[int]]:
    """Layer to its experts, that of the least routed weight first; equal ones by number.

    Args:
        graph: in fp32.
    """
    mass: dict[int, dict[int, float]] = defaultdict(lambda: defaultdict(float))

    def note(op: Op, run: Run) -> None:
        if isinstance(op, Experts) and op.layer is not None:
            route = run.routes[op.route]
            for indices, weights in zip(route.index.tolist(), route.weight.tolist(), strict=True):
                for index, weight in zip(indices, weights, strict=True):
                    mass[op.layer][op.kept[index].id] += weight

    reference = Reference(graph, watch=note)
    if isinstance(data, TokenData):
        left = _MOST
        for window in data.windows:
            if left <= 0:
                break
            reference.reset()
            if window.source is not None:
                reference.encode(window.source)
            reference.extend(window.inputs[:left], all_rows=True)
            left -= window.inputs.size
    else:
        reference.forward(data.x[:_MOST])
    return {
        op.layer: sorted((expert.id for expert in op.kept), key=lambda one: (mass[op.layer or 0][one], one))
        for op in graph.ops
        if isinstance(op, Experts) and op.layer is not None
    }
