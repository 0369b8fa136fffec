"""Run data through a graph, and through what becomes of it when experts go: from the layer on that is changed.

The data runs in batches, sequences side by side. What the ops behind a router read is kept of each batch, so that a
trial costs only the layers that it changes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from colibri.errors import CheckFailed
from colibri.evaluate.data import SampleData, TokenData, Window
from colibri.evaluate.statistics import log_probabilities, losses
from colibri.graph.float32 import Float
from colibri.graph.graph import Graph, Op
from colibri.graph.interpret import Reference, Run
from colibri.graph.ops import Experts
from colibri.passes.prune import Chooser
from colibri.progress import Advance

_ROWS = 2048  # of a batch
_LOGITS = 1 << 23  # most outputs of a batch
_BUFFERS = ("floats", "quantised", "routes")

Watch = Callable[[int, Op, Run], None]
"""Is called after each op, with the number of the batch."""


@dataclass
class Batch:
    """Sequences of equal length, or samples.

    Attributes:
        first: number of its first window or sample.
        inputs: tokens ``[sequences, length]``, or samples ``[rows, inputs]``.
        targets: ``[rows]`` tokens or classes, ``[rows, outputs]`` values; None where the outputs of the base are meant.
        counted: ``[rows]``: whether a row is scored.
        source: tokens ``[sequences, source]`` that an encoder takes first.
        before: what ops read from the router of a layer on, by the router's place in the ops.
        outputs: of the base ``[rows, outputs]``, where there are no targets.
    """

    first: int
    inputs: NDArray[np.int64] | NDArray[np.float32]
    targets: NDArray[np.int64] | NDArray[np.float64] | None
    counted: NDArray[np.bool_]
    source: NDArray[np.int64] | None = None
    before: dict[int, dict[str, dict[str, object]]] = field(default_factory=dict)
    outputs: Float | None = None


@dataclass(frozen=True)
class Ran:
    """What came of the data.

    Attributes:
        loss: mean over what is scored: nats of tokens and classes, else the mean absolute error.
        routes: by layer the ids that were chosen, ascending ``[rows, top_k]``, and their weights.
    """

    loss: float
    routes: dict[int, tuple[NDArray[np.int32], Float]]


def batches_of(data: TokenData | SampleData, outputs: int) -> list[Batch]:
    """Cut the data; windows of equal length that follow each other go side by side."""
    most = max(1, min(_ROWS, _LOGITS // outputs))
    if isinstance(data, SampleData):
        targets = data.values if data.classes is None else data.classes
        cuts = [(start, min(start + most, len(data.x))) for start in range(0, len(data.x), most)]
        return [
            Batch(a, data.x[a:b], None if targets is None else targets[a:b], np.ones(b - a, np.bool_)) for a, b in cuts
        ]
    found: list[Batch] = []
    together: list[Window] = []

    def close(number: int) -> None:
        if together:
            found.append(_side_by_side(number - len(together), together))
            together.clear()

    for number, window in enumerate(data.windows):
        if together and (_shape(window) != _shape(together[0]) or (len(together) + 1) * window.inputs.size > most):
            close(number)
        together.append(window)
    close(len(data.windows))
    return found


def _shape(window: Window) -> tuple[int, int]:
    return window.inputs.size, 0 if window.source is None else window.source.size


def _side_by_side(first: int, windows: Sequence[Window]) -> Batch:
    counted = [np.arange(window.inputs.size) >= window.skipped for window in windows]
    sources = [window.source for window in windows if window.source is not None]
    return Batch(
        first,
        np.stack([window.inputs for window in windows]),
        np.concatenate([window.targets for window in windows]),
        np.concatenate(counted),
        np.stack(sources) if sources else None,
    )


class Trials:
    """Data that runs through a graph again and again.

    Args:
        graph: the base, quantised.
        batches: as `batches_of` makes them.
        advance: is told of each batch that has run, in rows.
    """

    def __init__(self, graph: Graph, batches: Sequence[Batch], advance: Advance = lambda done: None) -> None:
        self.graph = graph
        self.batches = batches
        self._advance = advance
        self._jobs = min(len(batches), os.cpu_count() or 1)
        self._needed = _needed(graph)

    @property
    def rows(self) -> int:
        """Tokens or samples that run."""
        return sum(batch.counted.size for batch in self.batches)

    def tell(self, advance: Advance) -> None:
        """Whom to tell from now on."""
        self._advance = advance

    def base(self, graph: Graph, layer: int | None = None, watch: Watch | None = None) -> Ran:
        """Make a graph the base: what trials are compared with and begin at.

        Args:
            layer: the first that differs from the base before; None for all.
        """
        self.graph = graph
        return self._run(graph, layer, watch, keep=True)

    def without(self, graph: Graph, layer: int) -> Ran:
        """Run a graph that differs from the base in this layer's router and experts alone."""
        return self._run(graph, layer, None, keep=False)

    def _run(self, graph: Graph, layer: int | None, watch: Watch | None, *, keep: bool) -> Ran:
        start = 0 if layer is None or graph.encoder else router_place(graph, layer)

        def one(number: int) -> _Part:
            return self._batch(number, graph, start, watch, keep)

        with ThreadPoolExecutor(self._jobs) as pool:
            parts = list(pool.map(one, range(len(self.batches))))
        total = sum(float(part.losses.sum()) for part in parts)
        count = sum(part.losses.size for part in parts)
        layers = parts[0].routes
        routes = {
            key: tuple(np.concatenate([part.routes[key][which] for part in parts]) for which in (0, 1))
            for key in layers
        }
        return Ran(total / count, routes)  # type: ignore[arg-type]

    def _batch(self, number: int, graph: Graph, start: int, watch: Watch | None, keep: bool) -> _Part:
        batch = self.batches[number]
        part = _Part()
        place = {id(op): index for index, op in enumerate(graph.ops)}

        def seen(op: Op, run: Run) -> None:
            if isinstance(op, Experts) and op.layer is not None:
                ids = np.array([expert.id for expert in op.kept], np.int32)
                route = run.routes[op.route]
                part.routes[op.layer] = ids[route.index], route.weight
            if keep and not graph.encoder and (following := place[id(op)] + 1) in self._needed:
                wanted = self._needed[following]
                batch.before[following] = {
                    kind: {name: value for name, value in getattr(run, kind).items() if name in wanted}
                    for kind in _BUFFERS
                }
            if watch is not None:
                watch(number, op, run)

        outputs = outputs_of(graph, batch, start, seen)
        if not np.isfinite(outputs).all():
            raise CheckFailed("the model gives outputs that are not finite", where="on the data")
        if keep and batch.targets is None and batch.outputs is None:
            batch.outputs = outputs
        part.losses = _losses(batch, outputs)
        self._advance(batch.counted.size)
        return part


@dataclass
class _Part:
    losses: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    routes: dict[int, tuple[NDArray[np.int32], Float]] = field(default_factory=dict)


def router_place(graph: Graph, layer: int) -> int:
    """Where in the ops a layer's experts are chosen."""
    return next(i for i, op in enumerate(graph.ops) if isinstance(op, Chooser) and op.layer == layer)


def _needed(graph: Graph) -> dict[int, set[str]]:
    """For the place of each router: buffers that it or what follows reads before it is written anew."""
    live: set[str] = {Graph.OUTPUT}
    needed: dict[int, set[str]] = {}
    for index in range(len(graph.ops) - 1, -1, -1):
        op = graph.ops[index]
        live -= set(op.writes()) - set(op.reads())
        live |= set(op.reads())
        if isinstance(op, Chooser):
            needed[index] = set(live)
    return needed


def outputs_of(graph: Graph, batch: Batch, start: int, seen: Callable[[Op, Run], None]) -> Float:
    """The outputs of a batch ``[rows, outputs]``, from an op on."""
    samples = batch.inputs.dtype.kind == "f"
    sequences, length = (1, len(batch.inputs)) if samples else batch.inputs.shape
    reference = Reference(graph, sequences, seen)
    if start:
        run = Run(graph, sequences, length, 0, True, reference.states)
        run.tokens = None if samples else batch.inputs.astype(np.int32).reshape(-1)
        for kind in _BUFFERS:
            getattr(run, kind).update(batch.before[start][kind])
        return reference.resume(run, start)
    if samples:
        return reference.forward(batch.inputs.astype(np.float32))
    if batch.source is not None:
        reference.encode(batch.source)
    logits = reference.extend(batch.inputs.astype(np.int64), all_rows=True)
    return logits.reshape(-1, logits.shape[-1])


def _losses(batch: Batch, outputs: Float) -> NDArray[np.float64]:
    """Of each row that is scored."""
    targets = batch.outputs if batch.targets is None else batch.targets
    assert targets is not None
    if targets.ndim == 1:
        chosen = targets.astype(np.int64)[batch.counted]
        return losses(log_probabilities(outputs[batch.counted]), chosen)
    apart = np.abs(outputs.astype(np.float64) - targets)[batch.counted]
    return np.asarray(apart.mean(axis=1))
