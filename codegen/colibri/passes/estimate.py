"""Let kernels estimate what is rounded away, on cores where an exact float costs much more.

Such a kernel knows how far its estimate may be from the float that the contract asks for, and computes that float where the
estimate does not decide; no bit of a result depends on it.
"""

from __future__ import annotations

from dataclasses import replace

from colibri.graph.graph import BufferKind, Graph
from colibri.graph.ops import Experts
from colibri.passes.kernels import KernelSet


def estimate_ops(graph: Graph, kernels: KernelSet) -> Graph:
    """The graph with those ops marked for which a board has kernels that estimate."""
    return replace(graph, ops=[_marked(op, kernels) if isinstance(op, Experts) else op for op in graph.ops])


def _marked(op: Experts, kernels: KernelSet) -> Experts:
    plain = op.gated and op.activation == "silu" and op.clipped is None and not op.grouped
    return replace(op, estimated=plain and op.hidden_kind is BufferKind.Q8 and kernels.has("hidden_int8"))
