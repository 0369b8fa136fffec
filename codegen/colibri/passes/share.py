"""Let several threads share the work of a call: which ops are cut into parts, and which of them run as one job.

Parts split outputs alone (rows of matrices, heads), never a sum, so that no bit depends on their number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from colibri.graph.graph import Graph, Op, TensorClass
from colibri.graph.ops import Attention, Experts
from colibri.graph.work import work

_LEAST_MACS = 1 << 18  # of a job, on average: to hand one out and wait for it takes a microsecond or two


def share_ops(graph: Graph, rows: int) -> Graph:
    """The graph for calls of ``rows`` rows by several threads: what can be cut is shared."""
    ops, states = [], dict(graph.states)
    for op in graph.ops:
        if not _gains(op):
            ops.append(op)
            continue
        if isinstance(op, Experts) and op.grouped:  # the rows' scratch also serves the slots of a single row
            op = replace(op, grouped=rows >= op.top_k)
        if isinstance(op, Attention):  # each head of keys and values in one piece, so that parts share no line of cache
            for name in op.states().values():
                states[name] = replace(states[name], apart=True)
        ops.append(replace(op, shared=True))
    return replace(graph, ops=ops, states=states)


def _gains(op: Op) -> bool:
    """A router has few rows, and no time to wait for them."""
    return op.can_share and op.tensor_class() is not TensorClass.ROUTER


def pays(graph: Graph) -> bool:
    """Whether a token or sample is so much work that a second thread gains more than the hand-overs take."""
    macs = sum(work(graph, op).macs for op in graph.ops if _gains(op))
    handed_out = sum(2 if isinstance(op, Experts) else 1 for op in graph.ops if _gains(op))
    return handed_out > 0 and macs / handed_out >= _LEAST_MACS


def jobs(ops: Sequence[Op]) -> list[list[Op]]:
    """The ops in their order, those together that one job does: none of them waits for another one's output."""
    found: list[list[Op]] = []
    for op in ops:
        if found and _may_join(found[-1], op):
            found[-1].append(op)
        else:
            found.append([op])
    return found


def _may_join(job: Sequence[Op], op: Op) -> bool:
    if not op.shared or not job[-1].shared or op.layer != job[-1].layer or op.scratch() or job[-1].scratch():
        return False
    written = {name for one in job for name in one.writes()}
    read = {name for one in job for name in one.reads()}
    return not (written & {*op.reads(), *op.writes()} or read & {*op.writes()})
