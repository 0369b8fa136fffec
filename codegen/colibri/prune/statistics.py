"""What each expert does on the data: how often it runs, with what weight, and what is missed without it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from colibri.graph.graph import Graph, Op
from colibri.graph.interpret import Quantised, Route, Run
from colibri.graph.ops import Experts
from colibri.passes.prune import Chooser, spare_experts, without
from colibri.prune.trial import Ran, router_place

_MOST_ROWS = 512  # of a batch, through the experts that take another's place

Key = tuple[int, int]  # layer and id
_K = TypeVar("_K", Key, int)


@dataclass
class Sums:
    """Over the rows of a batch, or of all; keyed by (layer, id), or by layer."""

    hits: dict[Key, float]
    norm: dict[Key, float]
    change: dict[Key, float]  # squares of what the layer's output changes by
    output: dict[int, float]  # squares of the layer's output


@dataclass(frozen=True)
class Found:
    """What a base run tells.

    Attributes:
        norm: mean norm of the weighted output of each expert that was chosen.
        error: relative change of the layer's output without each expert that can go.
    """

    norm: dict[Key, float]
    error: dict[Key, float]

    def since(self, layer: int, later: Found) -> Found:
        """This up to a layer, and from it on what was found later."""
        return Found(
            {key: value for key, value in self.norm.items() if key[0] < layer} | later.norm,
            {key: value for key, value in self.error.items() if key[0] < layer} | later.error,
        )


@dataclass(frozen=True)
class Use:
    """Of one expert: rows that chose it, of all that its layer saw, and the sum of their weights.

    Layers of an encoder see tokens of the source, those of a decoder what comes behind.
    """

    hits: int
    rows: int
    mass: float

    @property
    def share(self) -> float:
        """Of the rows, from 0 to 1."""
        return self.hits / self.rows


def uses(graph: Graph, ran: Ran) -> dict[Key, Use]:
    """How often each expert that is there was chosen."""
    found = {}
    for op in graph.ops:
        if isinstance(op, Experts) and op.layer is not None:
            chosen, weights = ran.routes[op.layer]
            for expert in op.kept:
                mine = chosen == expert.id
                mass = float(weights[mine].astype(np.float64).sum())
                found[op.layer, expert.id] = Use(int(mine.sum()), len(chosen), mass)
    return found


class Statistics:
    """Watches a base run: norms of what experts add, and the change of a layer's output when one goes.

    Args:
        since: the first layer that runs.
    """

    def __init__(self, graph: Graph, batches: int, since: int = 0) -> None:
        self._parts = [Sums({}, {}, {}, {}) for _ in range(batches)]
        self._others = {
            (layer, number): _Other.of(without(graph, {layer: {number}}), layer)
            for layer, ids in spare_experts(graph).items()
            if layer >= since
            for number in ids
        }

    def watch(self, number: int, op: Op, run: Run) -> None:
        """As `trial.Watch`."""
        if not isinstance(op, Experts) or op.layer is None:
            return
        sums = self._parts[number]
        out = run.floats[op.out]
        _add(sums.output, op.layer, _squares(out))
        for index, expert in enumerate(op.kept):
            key = op.layer, expert.id
            rows, term = op.term(run, index)
            _add(sums.hits, key, rows.size)
            norms = np.sqrt(np.square(term.astype(np.float64)).sum(axis=1))
            _add(sums.norm, key, float(norms.sum()))
            if other := self._others.get(key):
                _add(sums.change, key, other.change(run, op, index))

    def found(self) -> Found:
        """What came of it."""
        hits = _total(part.hits for part in self._parts)
        norm = _total(part.norm for part in self._parts)
        change = _total(part.change for part in self._parts)
        output = _total(part.output for part in self._parts)
        return Found(
            {key: norm[key] / count for key, count in hits.items() if count},
            {key: float(np.sqrt(change.get(key, 0.0) / (output[key[0]] or 1.0))) for key in self._others},
        )


def _total(parts: Iterable[Mapping[_K, float]]) -> dict[_K, float]:
    """Batch after batch, so that the order of the sums is always the same."""
    total: dict[_K, float] = {}
    for part in parts:
        for key, value in part.items():
            total[key] = total.get(key, 0.0) + value
    return total


@dataclass(frozen=True)
class _Other:
    """A graph without one expert of a layer."""

    graph: Graph
    router: Chooser
    experts: Experts

    @staticmethod
    def of(graph: Graph, layer: int) -> _Other:
        router = graph.ops[router_place(graph, layer)]
        experts = next(op for op in graph.ops if isinstance(op, Experts) and op.layer == layer)
        assert isinstance(router, Chooser)
        return _Other(graph, router, experts)

    def change(self, run: Run, op: Experts, index: int) -> float:
        """Squares of the change of the layer's output, summed over the rows."""
        before = run.routes[op.route]
        probe = Run(self.graph, 1, len(before.index), 0, True, {}, floats=dict(run.floats), quantised=run.quantised)
        self.router.reference(probe)
        after = probe.routes[op.route]
        numbers = np.delete(np.arange(len(op.kept)), index)[after.index]
        changed = np.flatnonzero(((numbers != before.index) | (after.weight != before.weight)).any(axis=1))
        if not changed.size:
            return 0.0
        rows = changed[np.unique(np.linspace(0, changed.size - 1, min(changed.size, _MOST_ROWS)).astype(int))]
        some = Run(self.graph, 1, rows.size, 0, True, {})
        some.routes[op.route] = Route(after.index[rows], after.weight[rows])
        if op.x in run.quantised:
            whole = run.quantised[op.x]
            some.quantised[op.x] = Quantised(whole.integers[rows], whole.scale[rows])
        else:
            some.floats[op.x] = run.floats[op.x][rows]
        self.experts.reference(some)
        return _squares(some.floats[op.out] - run.floats[op.out][rows]) * float(changed.size / rows.size)


def _squares(values: NDArray[np.float32]) -> float:
    return float(np.square(values.astype(np.float64)).sum())


def _add(sums: dict[_K, float], key: _K, value: float) -> None:
    sums[key] = sums.get(key, 0.0) + value
