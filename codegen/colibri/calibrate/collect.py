"""Run calibration data through the model, and note what each matrix is multiplied with.

It runs as `wide_copy` has it, so what is collected has the same bits on every machine.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
from numpy.typing import NDArray

from colibri.calibrate.data import CalibrationData
from colibri.calibrate.statistics import Statistics, Sums
from colibri.calibrate.wide import wide_copy
from colibri.errors import BadInput
from colibri.graph.float32 import Float
from colibri.graph.graph import Graph
from colibri.graph.interpret import Quantised, Reference
from colibri.progress import Progress, unseen

# Constants, whatever the machine has: what is collected must not depend on it.
WIDEST = 4096  # columns whose second moments are kept: 128 MiB; wider matrices are rounded to nearest
MOST_BYTES = 1 << 30  # of all second moments
_ROWS = 2048  # that go through the model side by side
_STATE_VALUES = 1 << 26  # of the sequences side by side
_LOGITS = 1 << 24  # of a call


def collect(
    graph: Graph,
    data: CalibrationData,
    wanted: Collection[str] | None = None,
    progress: Progress = unseen,
    *,
    second: bool = True,
) -> Statistics:
    """Statistics of the inputs of matrices, from one run over the data.

    Second moments are kept of matrices of at most `WIDEST` columns, as many as fit into `MOST_BYTES`, in the order of
    the model; of others there are mean, square and largest.

    Args:
        graph: in fp32, pruned and folded as it will be; it is not changed.
        wanted: names of matrices; None for all that are multiplied.
        progress: is told of rows.
        second: whether second moments are wanted.

    Raises:
        BadInput: the model overflows on the data.
    """
    exact = wide_copy(graph)
    noted = _Noted(exact, wanted, second=second)
    advance = progress("calibration", data.count)
    try:
        for rows in _run(exact, data, noted):
            noted.end_call()
            advance(rows)
    except _Overflow as error:
        what = f"the model overflows on it: what {error} is multiplied with is not finite"
        raise BadInput(what, where="calibration data") from None
    return noted.statistics(data.count)


def side_by_side(graph: Graph, rows: int) -> int:
    """Sequences that may run at once: as many as there are, and as their states and logits have room for."""
    states = sum(state.capacity * state.width for state in graph.states.values())
    return max(1, min(rows, _STATE_VALUES // max(1, states), _LOGITS // graph.output_width))


class _Overflow(Exception):
    """Rows of this matrix are not finite."""


class _Noted:
    """What the matrices are multiplied with. Those that share their rows, as gate and up do, share the sums."""

    def __init__(self, graph: Graph, wanted: Collection[str] | None, *, second: bool) -> None:
        self._graph, self._second = graph, second
        self._names = _multiplied(graph) if wanted is None else set(wanted)
        self._sums: dict[str, Sums] = {}
        self._left = MOST_BYTES
        self._left_out: list[str] = []
        self._last: tuple[Float | Quantised, Sums] | None = None

    def __call__(self, name: str, x: Float | Quantised, rows: NDArray[np.intp] | None) -> None:
        if name not in self._names:
            return
        if (
            self._last is not None
            and self._last[0] is x
            and self._sums.setdefault(name, self._last[1]) is self._last[1]
        ):
            return
        if name not in self._sums:
            self._sums[name] = self._begin(name)
        sums = self._sums[name]
        try:
            sums.add(x)
        except ValueError:
            raise _Overflow(name) from None
        self._last = x, sums

    def end_call(self) -> None:
        """Rows of the next call are others, even in the same place of memory."""
        self._last = None

    def statistics(self, rows: int) -> Statistics:
        """All of it."""
        made = {id(sums): sums.moments() for sums in self._sums.values()}
        return Statistics({name: made[id(sums)] for name, sums in self._sums.items()}, rows, tuple(self._left_out))

    def _begin(self, name: str) -> Sums:
        k = self._graph.matrix(name).shape[1]
        if not self._second:
            return Sums(k, second=False)
        second = k <= WIDEST and k * k * 8 <= self._left
        if second:
            self._left -= k * k * 8
        else:
            self._left_out.append(name)
        return Sums(k, second=second)


def _multiplied(graph: Graph) -> set[str]:
    return {product.weight for op in graph.ops for product in op.products()}


def _run(graph: Graph, data: CalibrationData, noted: _Noted) -> Iterator[int]:
    """Call by call; yields rows that are done."""
    if data.samples is not None:
        reference = Reference(graph, multiplied=noted)
        for start in range(0, len(data.samples), _ROWS):
            some = data.samples[start : start + _ROWS]
            reference.forward(some)
            yield len(some)
    elif data.windows is not None:
        yield from _run_windows(graph, data.windows, noted)
    for source, tokens in data.pairs:
        reference = Reference(graph, multiplied=noted)
        reference.encode(source)
        noted.end_call()
        reference.extend(tokens, all_rows=True)
        yield tokens.size


def _run_windows(graph: Graph, windows: NDArray[np.int64], noted: _Noted) -> Iterator[int]:
    together = side_by_side(graph, max(1, _ROWS // windows.shape[1]))
    for first in range(0, len(windows), together):
        some = windows[first : first + together]
        reference = Reference(graph, len(some), multiplied=noted)
        step = max(1, min(_ROWS, _LOGITS // graph.output_width) // len(some))
        for start in range(0, windows.shape[1], step):
            piece = some[:, start : start + step]
            reference.extend(piece, all_rows=True)
            yield int(piece.size)
