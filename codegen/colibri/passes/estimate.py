"""Let kernels estimate what is rounded away, on cores where an exact float costs much more.

Such a kernel knows how far its estimate may be from the float that the contract asks for, and computes that float where
the estimate does not decide; no bit of a result depends on it.
"""

from __future__ import annotations

from dataclasses import replace

from colibri.graph.coding import F32, WeightFormat
from colibri.graph.graph import BufferKind, Graph, Op
from colibri.graph.ops import Experts, Quantise, QuantisedNorm, RmsNorm, Router
from colibri.passes.kernels import KernelSet

HIDDEN, ROUTE, NORM = "hidden_int8", "route", "rms_norm_int8"  # kernels that estimate; portable C has none
_MOST_INPUTS = 1 << 12  # of a router, see `soft_float/route.h`


def estimate_ops(graph: Graph, kernels: KernelSet) -> Graph:
    """The graph with those ops marked, or made one, for which a board has kernels that estimate."""
    ops = [_marked(graph, op, kernels) for op in graph.ops]
    if not kernels.has(NORM):
        return replace(graph, ops=ops)
    encoder = _with_quantised_norms(ops[: graph.encoder], ops[graph.encoder :])
    return replace(graph, ops=[*encoder, *_with_quantised_norms(ops[graph.encoder :], [])], encoder=len(encoder))


def _with_quantised_norms(ops: list[Op], behind: list[Op]) -> list[Op]:
    """The ops, each norm that only the quantiser next to it reads being one with it; others may read behind them."""
    made: list[Op] = []
    for index, op in enumerate(ops):
        norm = made[-1] if made else None
        if isinstance(op, Quantise) and isinstance(norm, RmsNorm) and _alone(norm, op, [*ops[index + 1 :], *behind]):
            made[-1] = QuantisedNorm(norm.layer, norm.part, norm, op)
        else:
            made.append(op)
    return made


def _alone(norm: RmsNorm, quantise: Quantise, behind: list[Op]) -> bool:
    if quantise.x != norm.out or quantise.kind is not BufferKind.Q8 or norm.groups > 1 or quantise.pieces > 1:
        return False
    for op in behind:
        if norm.out in op.reads():
            return False
        if norm.out in op.writes():
            break
    return True


def _marked(graph: Graph, op: Op, kernels: KernelSet) -> Op:
    if isinstance(op, Experts) and kernels.has(HIDDEN):
        plain = op.activation == "silu" and op.clipped is None and not op.bias and not op.grouped
        return replace(op, estimated=plain and op.hidden_kind is BufferKind.Q8 and _gated(graph, op))
    if isinstance(op, Router) and kernels.has(ROUTE):
        plain = op.input_kind is BufferKind.FLOAT and graph.matrix(op.weight).coding == F32 and not op.bias
        return replace(op, estimated=plain and op.renormalise and op.k <= _MOST_INPUTS)
    return op


def _gated(graph: Graph, op: Experts) -> bool:
    """Whether experts have gates, sums of 32 bits, and gates and up matrices whose rows' scales are alike."""
    made = [graph.matrix(name).coding.format for slot, name in op.experts()[0].items() if slot != "down"]
    alike = len({form.grouped for form in made}) == 1
    return op.gated and alike and not any(form.floating or form is WeightFormat.FP4 for form in made)
