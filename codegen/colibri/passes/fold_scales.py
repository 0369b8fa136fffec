"""Which scales to fold: without data, what a norm and all matrices behind it agree on.

A norm's weight far above the others, before columns that are as far below theirs, is a scale in the wrong place: with
it on the other side neither is an outlier. Only what both have is moved, so that nothing becomes one. It costs nothing
to look where there is none: matrices are only read behind a norm with a weight that stands out.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from colibri.graph.float32 import Float
from colibri.graph.graph import Graph
from colibri.graph.weights import Vector
from colibri.passes.fold import MOST_OCTAVES, Folds
from colibri.passes.fold_places import Place, PlaceKind, find_places

_STANDS_OUT = 4.0  # times, or a part, of the middle one
_LOOKED_AT = 1 << 22  # weights of the matrices behind a norm, by their first rows
_LEAST_ROWS = 8


def folds_of_weights(graph: Graph) -> Folds:
    """Find scales that norms and the matrices behind them agree on, in a graph that is not quantised yet.

    Raises:
        BadInput: a matrix cannot be read.
    """
    folds = {}
    for place in find_places(graph, (PlaceKind.NORM,)).found:
        vector = graph.weights[place.name]
        assert isinstance(vector, Vector)
        gains = np.abs(vector.values)
        if _stand_out(_relative(gains)).any():
            octaves = _agreed(_relative(gains), _relative(_largest(graph, place)))
            if octaves.any():
                folds[place.name] = tuple(octaves.tolist())
    return folds


def _largest(graph: Graph, place: Place) -> Float:
    """The largest magnitude of each column of the matrices behind it; of large ones the first rows are looked at."""
    largest = np.zeros(place.width, np.float32)
    step = max(_LEAST_ROWS, _LOOKED_AT // (len(place.readers) * place.width))
    for name in place.readers:
        matrix = graph.matrix(name)
        rows = matrix.rows(0, min(step, matrix.shape[0]))
        np.maximum(largest, np.abs(rows.values).max(axis=0), out=largest)
    return largest


def _relative(values: Float) -> NDArray[np.float64]:
    """As multiples of the middle one of those that are not 0."""
    live = np.sort(values[values > 0])
    if not live.size:
        return np.zeros(values.shape)
    return values.astype(np.float64) / float(live[live.size // 2])


def _stand_out(relative: NDArray[np.float64]) -> NDArray[np.bool_]:
    return (relative >= _STANDS_OUT) | ((relative > 0) & (relative <= 1 / _STANDS_OUT))


def _agreed(gains: NDArray[np.float64], columns: NDArray[np.float64]) -> NDArray[np.int64]:
    """Exponents of the powers of two by which gains are too large and columns too small, or the other way round."""
    high, low = gains >= _STANDS_OUT, (gains > 0) & (gains <= 1 / _STANDS_OUT)
    with np.errstate(divide="ignore"):
        over = np.minimum(gains, np.where(columns > 0, 1 / columns, np.inf))
        under = np.minimum(np.where(gains > 0, 1 / gains, 0.0), columns)
    octaves = np.where(high & (over >= _STANDS_OUT), _nearest_octave(over), 0)
    return np.where(low & (under >= _STANDS_OUT), -_nearest_octave(under), octaves)


def _nearest_octave(ratios: NDArray[np.float64]) -> NDArray[np.int64]:
    """Exponent of the power of two next to each ratio, by its own digits: no logarithm, whose last bit may differ."""
    mantissa, exponent = np.frexp(np.clip(ratios, 1.0, 2.0**MOST_OCTAVES))
    return np.asarray(exponent.astype(np.int64) - (mantissa < np.sqrt(0.5)), np.int64)
