"""Merge similar experts: a weighted average, after their hidden units are matched.

All of it is elementwise or exact in integers, so the same merges give the same bits on any machine.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from colibri.errors import UsageError
from colibri.graph.coding import F32
from colibri.graph.float32 import Float, lane_dot
from colibri.graph.graph import Graph
from colibri.graph.ops import Experts
from colibri.graph.ops.experts import ExpertWeights
from colibri.graph.weights import Matrix

_UNIT = np.float32(32767)
_LEAST = np.float32(2.0**-60)  # a unit of smaller weights is like no other


class Merge(msgspec.Struct, frozen=True, order=True, forbid_unknown_fields=True):
    """One expert goes into another of its layer.

    Attributes:
        layer: of both.
        into: id of the expert that stays, with the average.
        gone: id of the one that goes; it is dropped behind.
        share: of the one that goes in the average, from 0 to 1: of the tokens' weights that went to both, its part.
    """

    layer: int
    into: int
    gone: int
    share: float


@dataclass(frozen=True)
class Match:
    """Hidden units of one expert, and the most similar ones of another.

    Attributes:
        order: ``[hidden]``: for each unit of the first, that of the second.
        similarity: mean over the units of the mean cosine of their rows of gate and up and their column of down.
    """

    order: NDArray[np.intp]
    similarity: float


def merge_experts(
    graph: Graph, merges: Sequence[Merge], drops: Mapping[int, Collection[int]] = {}
) -> dict[int, set[int]]:
    """Average experts, one merge after the other; those that go are still there, and their router rows.

    The router's row of the expert that stays is left as it is: what chose the other one finds its next best.

    Args:
        graph: with fp32 weights, not yet quantised.
        drops: layer to expert ids that will go, those that are merged among them or not.

    Returns:
        what is to be dropped then: layer to expert ids.

    Raises:
        UsageError: no such layer or expert, one that has gone before, or one merged into what goes.
    """
    gone: dict[int, set[int]] = {}
    layers = {op.layer: op for op in graph.ops if isinstance(op, Experts)}
    for one in merges:
        op = layers.get(one.layer)
        if op is None:
            raise _refused(f"no experts in layer {one.layer}")
        have = {expert.id: expert for expert in op.kept if expert.id not in gone.get(one.layer, ())}
        for number in (one.into, one.gone):
            if number not in have:
                raise _refused(f"layer {one.layer} has no expert {number} to merge; it has {sorted(have)}")
        if one.into == one.gone:
            raise _refused(f"layer {one.layer} expert {one.into} cannot be merged with itself")
        if not 0 <= one.share <= 1:
            raise _refused(f"a share of {one.share} is not between 0 and 1")
        graph.weights.update(averaged(graph, have[one.into], have[one.gone], one.share))
        gone.setdefault(one.layer, set()).add(one.gone)
    left = {*lasting(merges, drops)}
    if lost := next((one for one in merges if one not in left), None):
        raise _refused(f"layer {lost.layer} expert {lost.gone} goes into expert {lost.into}, which is dropped")
    return gone


def lasting(merges: Sequence[Merge], drops: Mapping[int, Collection[int]]) -> tuple[Merge, ...]:
    """The merges of which something is left when the experts of ``drops`` have gone: all else changes nothing.

    >>> lasting([Merge(0, 2, 5, 0.5), Merge(0, 3, 4, 0.5), Merge(0, 1, 3, 0.5)], {0: {2, 3, 4, 5}})
    (Merge(layer=0, into=3, gone=4, share=0.5), Merge(layer=0, into=1, gone=3, share=0.5))
    """
    left: list[Merge] = []
    going = {(layer, number) for layer, ids in drops.items() for number in ids}
    going |= {(one.layer, one.gone) for one in merges}
    taken: set[tuple[int, int]] = set()  # what a later merge takes along
    for one in reversed(merges):
        if (one.layer, one.into) not in going or (one.layer, one.into) in taken:
            left.append(one)
            taken.add((one.layer, one.gone))
    return tuple(reversed(left))


def averaged(graph: Graph, into: ExpertWeights, gone: ExpertWeights, share: float) -> dict[str, Matrix]:
    """The matrices of ``into`` with so much of ``gone``, in fp32, by their names."""
    order = match(graph, into, gone).order
    part = np.float32(share)
    made = {}
    for slot, name in into.slots().items():
        mine, its = (graph.matrix(one).load() for one in (name, gone.slots()[slot]))
        values = its.values[:, order] if slot == "down" else its.values[order]
        bias = None
        if mine.bias is not None and its.bias is not None:
            other = its.bias if slot == "down" else its.bias[order]
            bias = mine.bias + (other - mine.bias) * part
        dense = mine.values + (values - mine.values) * part
        made[name] = Matrix(F32, mine.shape, dense=dense, bias=bias, parts=mine.parts, stored=mine.stored)
    return made


def match(graph: Graph, first: ExpertWeights, second: ExpertWeights) -> Match:
    """Match the hidden units of two experts: always the pair that is most similar among those still free.

    Which of equal pairs comes first is decided by their numbers. The products are those of integers: exact.
    """
    total = None
    for slot, name in first.slots().items():
        mine, its = (graph.matrix(one).load().values for one in (name, second.slots()[slot]))
        product = _cosines(mine.T if slot == "down" else mine, its.T if slot == "down" else its)
        total = product if total is None else total + product
    assert total is not None
    order = _assigned(total)
    found = total[np.arange(order.size), order]
    scale = float(_UNIT) ** 2 * len(first.slots()) * order.size
    return Match(order, float(int(found.astype(np.int64).sum())) / scale)


def _cosines(mine: Float, its: Float) -> NDArray[np.float64]:
    """Products of all rows, each scaled to a length of 32767 and rounded: whole numbers."""
    return _units(mine) @ _units(its).T


def _units(rows: Float) -> NDArray[np.float64]:
    rows = np.ascontiguousarray(rows)
    top = np.abs(rows).max(axis=1)
    live = top >= _LEAST
    scaled = np.asarray(rows / np.where(live, top, np.float32(1))[:, None], np.float32)
    length = np.sqrt(lane_dot(scaled, scaled))
    units = scaled / np.where(live, length, np.float32(1))[:, None] * _UNIT
    return np.where(live[:, None], np.rint(units), np.float32(0)).astype(np.float64)


def _assigned(similarity: NDArray[np.float64]) -> NDArray[np.intp]:
    """Greedy: a pair is taken when each is the best of the other among what is free, round by round."""
    count = similarity.shape[0]
    order = np.full(count, -1, np.intp)
    rows, columns = np.arange(count), np.arange(count)
    while rows.size:
        free = similarity[np.ix_(rows, columns)]
        best, back = free.argmax(axis=1), free.argmax(axis=0)
        mutual = np.flatnonzero(back[best] == np.arange(rows.size))
        order[rows[mutual]] = columns[best[mutual]]
        rows, columns = np.delete(rows, mutual), np.delete(columns, best[mutual])
    return order


def _refused(what: str) -> UsageError:
    return UsageError(what, where="merged experts")
