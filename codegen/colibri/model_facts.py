"""What a package says of its model, from the graph."""

from __future__ import annotations

from colibri.graph.graph import Graph
from colibri.graph.ops import Experts
from colibri.package import ModelFacts


def model_facts(graph: Graph) -> ModelFacts:
    """Kind, sizes, experts and words of a graph."""
    return ModelFacts(
        kind=str(graph.kind),
        family=graph.family,
        parameters=graph.parameters(),
        inputs=graph.input_width,
        outputs=graph.output_width,
        experts=graph.expert_counts(),
        top_k=max((op.top_k for op in graph.ops if isinstance(op, Experts)), default=1),
        routing=graph.routing,
        labels=graph.labels,
        source=graph.source,
        start=graph.start,
        classifies=graph.classifies,
    )
