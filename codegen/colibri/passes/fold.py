"""Fold scales: channels are divided where they are made and multiplied in the matrices behind; the function stays.

One scale a row of activations serves the largest channel, and one a row of weights the largest column. A channel with
large values and small columns spoils both; here the factor between the two moves. Factors are powers of two, so that
fp32 results keep their bits. They are a part of the recipe, or are found in the weights (`fold_scales`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from colibri.errors import BadInput, shown
from colibri.graph.float32 import Float
from colibri.graph.graph import Graph
from colibri.graph.weights import AnyMatrix, Matrix, Rows, StoredMatrix, Vector
from colibri.passes.fold_places import Place, find_places

MOST_OCTAVES = 24  # what weights and then data may ask for, together


# Name of a `Place` to an exponent for each of its channels: it is divided by that power of two. 0: nothing moves.
Folds = Mapping[str, tuple[int, ...]]
# The same as a recipe has it: place to exponent to its channels, without those that stay.
FoldText = Mapping[str, Mapping[str, Sequence[int]]]


def factors_of(octaves: Sequence[int]) -> Float:
    """Powers of two."""
    return np.ldexp(np.float32(1), np.array(octaves, np.int32)).astype(np.float32)


def fold_text(folds: Folds) -> dict[str, dict[str, list[int]]]:
    """As a recipe has them."""
    text: dict[str, dict[str, list[int]]] = {}
    for place, octaves in folds.items():
        channels: dict[str, list[int]] = {}
        for channel, octave in enumerate(octaves):
            if octave:
                channels.setdefault(str(octave), []).append(channel)
        if channels:
            text[place] = channels
    return text


def read_folds(graph: Graph, text: FoldText, where: str) -> Folds:
    """What a recipe says, for a graph that is not quantised yet.

    Raises:
        BadInput: no such place or channel, or a factor that cannot be meant.
    """
    places = {place.name: place for place in find_places(graph).found}
    folds = {}
    for name, channels in text.items():
        if name not in places:
            raise BadInput(f"no scales can be folded at '{shown(name)}' of this model", where=where)
        octaves = [0] * places[name].width
        for exponent, numbers in channels.items():
            value = _octave(exponent, where)
            for channel in numbers:
                if not 0 <= channel < len(octaves) or octaves[channel]:
                    what = f"channel {channel} of '{name}' is there twice, or beyond {len(octaves) - 1}"
                    raise BadInput(what, where=where)
                octaves[channel] = value
        folds[name] = tuple(octaves)
    return folds


def _octave(text: str, where: str) -> int:
    if not re.fullmatch("-?[1-9][0-9]?", text, re.ASCII) or abs(int(text)) > MOST_OCTAVES:
        what = f"'{shown(text)}' is no power of two to fold, expected -{MOST_OCTAVES} to {MOST_OCTAVES} without 0"
        raise BadInput(what, where=where)
    return int(text)


def apply_folds(graph: Graph, folds: Folds) -> None:
    """Move the scales, in place, and note them in ``graph.folds``. What is in the checkpoint stays there until read.

    Args:
        graph: with fp32 weights, not yet quantised; what was folded before is folded further.
        folds: of places of this graph.
    """
    places = {place.name: place for place in find_places(graph).found}
    for name, octaves in folds.items():
        before = graph.folds.get(name, (0,) * places[name].width)
        graph.folds[name] = tuple(map(sum, zip(before, octaves, strict=True)))
        _apply(graph, places[name], factors_of(octaves))


def input_factors(graph: Graph, folds: Folds) -> dict[str, Float]:
    """What the input columns ``[k]`` of each matrix behind a fold are divided by: for statistics made before it."""
    places = {place.name: place for place in find_places(graph).found}
    return {
        reader: places[name].columns(factors_of(octaves))
        for name, octaves in folds.items()
        for reader in places[name].readers
    }


def _apply(graph: Graph, place: Place, factors: Float) -> None:
    inverse = (np.float32(1) / factors).astype(np.float32)  # exact: powers of two
    for name in place.vectors:
        vector = graph.weights[name]
        assert isinstance(vector, Vector)
        graph.weights[name] = replace(vector, values=_times(vector.values, inverse, name))
    for name in place.rows:
        graph.weights[name] = _with_rows(graph.matrix(name), name, inverse)
    columns = place.columns(factors)
    for name in place.readers:
        matrix, times = graph.matrix(name), partial(_columns, name=name, factors=columns)
        graph.weights[name] = matrix.then(times) if isinstance(matrix, StoredMatrix) else times(matrix)


def _columns(rows: Matrix, name: str, factors: Float) -> Matrix:
    assert rows.dense is not None
    return replace(rows, dense=_times(rows.dense, factors, name))


def _with_rows(matrix: AnyMatrix, name: str, factors: Float) -> AnyMatrix:
    scaled = _ScaledRows(matrix, name, factors)
    if isinstance(matrix, Matrix):
        return replace(scaled.rows(0, matrix.shape[0]), parts=matrix.parts)
    return StoredMatrix(matrix.coding, scaled, parts=matrix.parts, stored=matrix.stored)


@dataclass(frozen=True, eq=False)
class _ScaledRows:
    """Rows of a matrix, each with its bias times a factor, as `graph.weights.Rows`."""

    inner: Rows
    name: str
    factors: Float

    @property
    def shape(self) -> tuple[int, int]:
        return self.inner.shape

    @property
    def has_bias(self) -> bool:
        return self.inner.has_bias

    @property
    def in_order(self) -> bool:
        return self.inner.in_order

    def rows(self, begin: int, end: int) -> Matrix:
        return self._made(self.inner.rows(begin, end), begin)

    def blocks(self, step: int) -> Iterator[Matrix]:
        return map(self._made, self.inner.blocks(step), range(0, self.shape[0], step))

    def _made(self, rows: Matrix, begin: int) -> Matrix:
        factors = self.factors[begin : begin + rows.shape[0]]
        assert rows.dense is not None
        dense = _times(rows.dense, factors[:, None], self.name)
        return replace(rows, dense=dense, bias=None if rows.bias is None else _times(rows.bias, factors, self.name))


def _times(values: Float, factors: Float, name: str) -> Float:
    with np.errstate(over="ignore"):
        products = values * factors
    if not np.isfinite(products).all():
        what = f"folded scales make '{name}' larger than fp32 holds"
        raise BadInput(what, where="recipe", hint="leave out its folds")
    return products
