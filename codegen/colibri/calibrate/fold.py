"""Which scales to fold when data tells what each column is multiplied with.

Only places with channels that stand out are touched. For these a few divisions of the scale between activations and
weights are tried, and that with the least error of the outputs is taken, if it is clearly less than it was.

Source: SmoothQuant (arXiv 2211.10438), s = max|x|^a / max|w|^(1 - a); a is searched as by AWQ (arXiv 2306.00978).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from colibri.calibrate.collect import collect
from colibri.calibrate.data import CalibrationData
from colibri.calibrate.statistics import Moments
from colibri.graph.graph import BufferKind, Graph
from colibri.graph.scheme import Scheme
from colibri.graph.weights import Matrix
from colibri.passes.fold import Folds, factors_of
from colibri.passes.fold_places import Place, find_places
from colibri.passes.fold_scales import agreed, first_rows, largest_columns, nearest_octave, relative
from colibri.passes.grid import column_energy, round_matrix
from colibri.passes.rules import Rule, assign
from colibri.progress import Progress, unseen

_ROWS = 2048  # tokens or samples that tell: the largest of a channel is known soon
_STANDS_OUT = 16.0  # times the middle one: ordinary models stay as they are
_LEAST = 64  # rows: the largest of fewer says little of a channel
_FARTHEST = 8  # octaves
_GAIN = 0.9  # of the error that must be left, or less
_Octaves = NDArray[np.int64]


def folds_of_data(
    graph: Graph, scheme: Scheme, rules: Sequence[Rule], data: CalibrationData, progress: Progress = unseen
) -> Folds:
    """Find scales for a graph that is not quantised yet; the same on any machine.

    Raises:
        UsageError: as `rules.assign`.
        BadInput: a matrix cannot be read, or the model overflows on the data.
    """
    schemes = assign(graph, scheme, rules)
    places = [place for place in find_places(graph).found if any(not schemes[name].floats for name in place.readers)]
    wanted = {name for place in places for name in place.readers}
    moments = collect(graph, _some(data), wanted, progress, second=False).moments
    folds = {}
    for place in places:
        octaves = _best(graph, place, schemes, moments)
        if octaves.any():
            folds[place.name] = tuple(octaves.tolist())
    return folds


def _some(data: CalibrationData) -> CalibrationData:
    """The first of it."""
    if data.samples is not None:
        return replace(data, samples=data.samples[:_ROWS])
    if data.windows is not None:
        return replace(data, windows=data.windows[: max(1, _ROWS // data.windows.shape[1])])
    kept, rows = 0, 0
    while kept < len(data.pairs) and rows < _ROWS:
        rows += data.pairs[kept][1].size
        kept += 1
    return replace(data, pairs=data.pairs[:kept])


def _best(graph: Graph, place: Place, schemes: Mapping[str, Scheme], moments: Mapping[str, Moments]) -> _Octaves:
    """Exponents of the factors; zeros where nothing stands out, or where nothing is better."""
    known = [moments[name] for name in place.readers if name in moments]
    none = np.zeros(place.width, np.int64)
    if max((one.rows for one in known), default=0) < _LEAST:  # an expert that hardly a row reached
        return none
    largest = np.zeros(place.width, np.float32)
    for one in known:
        np.maximum(largest, place.channels(one.largest.astype(np.float32)), out=largest)
    gains = relative(largest)
    if not (gains >= _STANDS_OUT).any():
        return none
    columns = relative(largest_columns(graph, place))
    matrices = dict(first_rows(graph, place))
    best, least = none, _GAIN * _error(place, none, matrices, schemes, moments)
    for octaves in _candidates(gains, columns):
        error = _error(place, octaves, matrices, schemes, moments)
        if error < least:
            best, least = octaves, error
    return best


def _candidates(gains: NDArray[np.float64], columns: NDArray[np.float64]) -> Iterator[_Octaves]:
    """What both sides agree on, then exponents a of a quarter, a half and three quarters, by roots alone."""
    yield agreed(gains, columns)
    live = (gains > 0) & (columns > 0)
    x, w = np.where(live, gains, 1.0), np.where(live, columns, 1.0)
    root_x, root_w = np.sqrt(np.sqrt(x)), np.sqrt(np.sqrt(w))
    for quarters in (1, 2, 3):
        factor = root_x
        for _ in range(quarters - 1):
            factor = factor * root_x
        for _ in range(4 - quarters):
            factor = factor / root_w
        up = factor >= 1
        octaves = nearest_octave(np.where(up, factor, 1 / factor))
        yield np.clip(np.where(up, octaves, -octaves), -_FARTHEST, _FARTHEST)


def _error(
    place: Place,
    octaves: _Octaves,
    matrices: Mapping[str, Matrix],
    schemes: Mapping[str, Scheme],
    moments: Mapping[str, Moments],
) -> float:
    """The mean squared error of the outputs that rounding weights and activations makes, summed over the readers."""
    factors = place.columns(factors_of(octaves.tolist()))
    parts: list[float] = []
    for name, matrix in matrices.items():
        if name not in moments or schemes[name].floats:
            continue
        known, coding = moments[name], replace(schemes[name].coding, outliers=0)
        folded = matrix.values * factors
        rounded = round_matrix(replace(matrix, dense=folded), coding).values
        mine = known.square / np.square(factors.astype(np.float64))
        parts += (known.rows * mine * column_energy(rounded - folded)).tolist()
        steps = 127 if schemes[name].activations is BufferKind.Q8 else 32767
        step = float((known.largest / factors).max()) / steps
        parts.append(known.rows * step * step / 12 * math.fsum(column_energy(folded).tolist()))
    return math.fsum(parts)
