"""Let experts take all rows of a call that chose them together, where kernels multiply several rows at once."""

from __future__ import annotations

from dataclasses import replace

from colibri.graph.graph import BufferKind, Graph
from colibri.graph.ops import Experts
from colibri.passes.kernels import KernelSet


def group_experts(graph: Graph, kernels: KernelSet, rows: int, *others: KernelSet) -> Graph:
    """The graph for calls of ``rows`` rows with a folder's kernels; no bit of a result changes.

    Grouped experts need scratch for all rows instead of one, so they stay as they are where they gain nothing.

    Args:
        others: kernels that the same graph is to be for.
    """
    sets = (kernels, *others)
    grouped = [
        replace(op, grouped=all(_gains(graph, one, op, rows) for one in sets)) if isinstance(op, Experts) else op
        for op in graph.ops
    ]
    return replace(graph, ops=grouped)


def _gains(graph: Graph, kernels: KernelSet, op: Experts, rows: int) -> bool:
    """Whether the kernels of all matrices of an expert take several rows, and calls have as many."""
    if op.weigh_input or BufferKind.FLOAT in (op.input_kind, op.hidden_kind):
        return False
    kinds = {"gate": op.input_kind, "up": op.input_kind, "down": op.hidden_kind}
    inputs = [kernels.inputs(graph.matrix(name).coding, kinds[slot]) for slot, name in op.experts()[0].items()]
    return rows >= min(inputs) > 1
