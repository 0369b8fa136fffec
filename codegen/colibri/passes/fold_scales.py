"""Which scales to fold: without data, what a norm and all matrices behind it agree on.

A norm's weight far above the others, before columns that are as far below theirs, is a scale in the wrong place: with
it on the other side neither is an outlier. Only what both have is moved, so that nothing becomes one. It costs nothing
to look where there is none: matrices are only read behind a norm with a weight that stands out.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from colibri.graph.float32 import Float
from colibri.graph.graph import Graph
from colibri.graph.weights import Matrix, Vector
from colibri.passes.fold import Folds
from colibri.passes.fold_places import Place, PlaceKind, find_places

_STANDS_OUT = 4.0  # times, or a part, of the middle one
_OUTLIER = 16.0  # times: worth a warning where nothing can be done
_LOOKED_AT = 1 << 22  # weights of the matrices behind a norm, by their first rows
_LEAST_ROWS = 8
_FARTHEST = 16  # octaves


def folds_of_weights(graph: Graph) -> Folds:
    """Find scales that norms and the matrices behind them agree on, in a graph that is not quantised yet.

    The graph's warnings name norms with outliers whose scales have to stay.

    Raises:
        BadInput: a matrix cannot be read.
    """
    folds, places = {}, find_places(graph, (PlaceKind.NORM,))
    for place in places.found:
        gains = _gains(graph, place.name)
        if stand_out(gains).any():
            octaves = agreed(gains, relative(largest_columns(graph, place)))
            if octaves.any():
                folds[place.name] = tuple(octaves.tolist())
    for one in places.left:
        count = int((_gains(graph, one.name) >= _OUTLIER).sum())
        if count:
            what = f"{one.name}: {count} of its weights stand out by {_OUTLIER:g} times or more"
            graph.warnings.append(f"{what}, and their scales cannot be folded: {one.why}")
    return folds


def _gains(graph: Graph, norm: str) -> NDArray[np.float64]:
    """Its weights, relative to the others."""
    vector = graph.weights[norm]
    assert isinstance(vector, Vector)
    return relative(np.abs(vector.values))


def largest_columns(graph: Graph, place: Place) -> Float:
    """The largest magnitude that the matrices behind a place have for each channel ``[width]``."""
    largest = np.zeros(place.width, np.float32)
    for _, rows in first_rows(graph, place):
        np.maximum(largest, place.channels(np.abs(rows.values).max(axis=0)), out=largest)
    return largest


def first_rows(graph: Graph, place: Place) -> Iterator[tuple[str, Matrix]]:
    """Names of the matrices behind a place, and their rows: of large ones the first that have room in a bound."""
    for name in place.readers:
        matrix = graph.matrix(name)
        step = max(_LEAST_ROWS, _LOOKED_AT // (len(place.readers) * matrix.shape[1]))
        yield name, matrix.rows(0, min(step, matrix.shape[0]))


def relative(values: Float) -> NDArray[np.float64]:
    """As multiples of the middle one of those that are not 0."""
    live = np.sort(values[values > 0])
    if not live.size:
        return np.zeros(values.shape)
    return values.astype(np.float64) / float(live[live.size // 2])


def stand_out(relative: NDArray[np.float64], times: float = _STANDS_OUT) -> NDArray[np.bool_]:
    """Which are so many times the middle one, or such a part of it."""
    return (relative >= times) | ((relative > 0) & (relative <= 1 / times))


def agreed(gains: NDArray[np.float64], columns: NDArray[np.float64]) -> NDArray[np.int64]:
    """Exponents of the powers of two by which gains are too large and columns too small, or the other way round.

    Args:
        gains, columns: `relative` to the others, ``[width]``.
    """
    high, low = gains >= _STANDS_OUT, (gains > 0) & (gains <= 1 / _STANDS_OUT)
    with np.errstate(divide="ignore"):
        over = np.minimum(gains, np.where(columns > 0, 1 / columns, np.inf))
        under = np.minimum(np.where(gains > 0, 1 / gains, 0.0), columns)
    octaves = np.where(high & (over >= _STANDS_OUT), nearest_octave(over), 0)
    return np.where(low & (under >= _STANDS_OUT), -nearest_octave(under), octaves)


def nearest_octave(ratios: NDArray[np.float64]) -> NDArray[np.int64]:
    """Exponent of the power of two next to each ratio, by its own digits: no logarithm, whose last bit may differ."""
    mantissa, exponent = np.frexp(np.clip(ratios, 1.0, 2.0**_FARTHEST))
    return np.asarray(exponent.astype(np.int64) - (mantissa < np.sqrt(0.5)), np.int64)
