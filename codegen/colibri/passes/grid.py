"""The grid of a matrix: the values that its weights may take, before any of them is rounded.

A row has a scale, a group of columns a factor and perhaps a zero point; whoever rounds, to nearest or with regard to
the columns that follow, takes a grid as given.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from colibri.graph.coding import FACTOR_MAX, TAIL_MAX, Coding, WeightFormat
from colibri.graph.weights import Matrix
from colibri.passes.rounding import group_extremes, round_to_integers

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
# A row of smaller weights counts as zeros: its scale would lose bits, or be 0 itself.
_LEAST_W8_ROW = np.float32(2.0**-100)
# Short rows leave room to search: with few columns some scale rounds them all well. Long rows average that out.
_SEARCH_BUDGET = 1 << 18
_SEARCH_MOST = 2000


@dataclass(frozen=True)
class Grid:
    """The values ``integer * step + offset`` of each group of a matrix ``[n, k]``; see `Matrix` for the fields.

    Attributes:
        row_scale: fp32 ``[n]``; 0 for a row of zeros.
        factors: uint8 ``[n, groups]``; None for w8.
        zeros: uint8 ``[n, groups]``; None without zero points.
    """

    coding: Coding
    row_scale: Float32
    factors: NDArray[np.uint8] | None = None
    zeros: NDArray[np.uint8] | None = None

    @property
    def step(self) -> Float64:
        """``[n, groups]``, of w8 ``[n, 1]``: from one value to the next; 0 where all are alike."""
        rows = self.row_scale.astype(np.float64)[:, None]
        return rows if self.factors is None else self.factors * rows

    @property
    def offset(self) -> Float64:
        """``[n, groups]``, of w8 ``[n, 1]``: the value of integer 0."""
        if self.factors is None or self.zeros is None:
            return np.zeros(self.step.shape)
        units = (self.zeros.astype(np.int32) * self.factors) >> self.coding.zero_shift
        return -units * self.row_scale.astype(np.float64)[:, None]

    def group(self, column: int) -> int:
        """The group that a column is in: an index into step and offset."""
        return 0 if self.factors is None else column // self.coding.group

    def nearest(self, column: int, values: Float64) -> NDArray[np.int8]:
        """Integers ``[n]`` nearest to one column's values, ties to even; 0 where the step is 0."""
        step, offset = self.step[:, self.group(column)], self.offset[:, self.group(column)]
        live = step > 0
        quotient = np.rint((values - offset) / np.where(live, step, 1.0))
        return np.where(live, np.clip(quotient, *self.coding.limits), 0.0).astype(np.int8)

    def value(self, column: int, integers: NDArray[np.int8]) -> Float64:
        """The values ``[n]`` of one column's integers."""
        return integers * self.step[:, self.group(column)] + self.offset[:, self.group(column)]

    def tail(self, rest: Float64) -> NDArray[np.int8]:
        """What the tail stores of a column's ``values - value``, ``[n]`` or ``[n, t]``: units of the row scale."""
        scale = self.row_scale.astype(np.float64).reshape(-1, *[1] * (rest.ndim - 1))
        units = np.rint(rest / np.where(scale > 0, scale, 1.0))
        return np.where(scale > 0, np.clip(units, -TAIL_MAX, TAIL_MAX), 0.0).astype(np.int8)

    def matrix(
        self,
        like: Matrix,
        integers: NDArray[np.int8],
        tail: NDArray[np.int8] | None = None,
        columns: NDArray[np.int32] | None = None,
    ) -> Matrix:
        """The matrix of these integers ``[n, k]``, with the bias of another.

        Args:
            tail: ``[n, t]`` of these columns; None where the coding has none.
        """
        assert (tail is not None) == (columns is not None) == (self.coding.outliers > 0)
        return replace(
            like,
            coding=self.coding,
            dense=None,
            integers=integers,
            row_scale=self.row_scale,
            group_scale=self.factors,
            zeros=self.zeros,
            tail=tail,
            tail_columns=columns,
        )


def choose_grid(dense: Float32, coding: Coding, importance: Float64 | None = None) -> Grid:
    """The grid that suits the rows of a matrix ``[n, k]`` best.

    Args:
        importance: ``[k]``, what a column's squared error weighs: the mean of its inputs' squares. None: all alike.
    """
    if coding.format is WeightFormat.W8:
        return Grid(coding, _w8_scale(dense))
    return _widest(dense, coding)


def round_to_grid(dense: Float32, grid: Grid) -> NDArray[np.int8]:
    """Integers ``[n, k]`` nearest to the values, ties to even; 0 where the step is 0."""
    k, coding = dense.shape[1], grid.coding
    step, live = grid.step, grid.step > 0
    safe = np.where(live, step, 1.0)
    if grid.zeros is not None:
        shifted = _padded(dense, coding) - np.repeat(grid.offset, coding.group, axis=1)
        integers = np.clip(np.rint(shifted / np.repeat(safe, coding.group, axis=1)), *coding.limits)
        return np.where(np.repeat(live, coding.group, axis=1), integers, 0.0).astype(np.int8)[:, :k]
    padded = dense if grid.factors is None else _padded(dense, coding)
    return round_to_integers(padded, safe, live, *coding.limits)[:, :k]


def round_matrix(
    matrix: Matrix,
    coding: Coding,
    importance: Float64 | None = None,
    columns: NDArray[np.int32] | None = None,
) -> Matrix:
    """The matrix in another coding, each weight rounded to the nearest value; the bias stays fp32.

    Args:
        importance: as `choose_grid` has it.
        columns: of the tail, ascending; None where the coding has none.
    """
    values = matrix.values
    if coding.format.floating:
        plain = Matrix(coding, matrix.shape, bias=matrix.bias, parts=matrix.parts, stored=matrix.stored)
        return replace(plain, dense=to_f16(values) if coding.format is WeightFormat.F16 else values)
    grid = choose_grid(values, coding, importance)
    integers = round_to_grid(values, grid)
    if columns is None:
        return grid.matrix(matrix, integers)
    rests = []
    for column in columns.tolist():
        rests.append(values[:, column].astype(np.float64) - grid.value(column, integers[:, column]))
    return grid.matrix(matrix, integers, grid.tail(np.stack(rests, axis=1)), columns)


def most_energetic(energy: Float64, coding: Coding) -> NDArray[np.int32]:
    """The columns of the tail: those of the largest energy ``[k]``, ties to the lower; ascending."""
    chosen = np.argsort(-energy, kind="stable")[: coding.tail(len(energy))]
    return np.sort(chosen).astype(np.int32)


def column_energy(dense: Float32) -> Float64:
    """The sum of the squares of each column, ``[k]``, in a fixed order."""
    energy = np.zeros(dense.shape[1])
    for row in dense:
        energy += np.square(row, dtype=np.float64)
    return energy


def to_f16(values: Float32) -> Float32:
    """Rounded to half precision, ties to even; beyond its range the largest that it has."""
    return np.clip(values, np.float32(-65504), np.float32(65504)).astype(np.float16).astype(np.float32)


def _padded(dense: Float32, coding: Coding) -> Float32:
    """With zeros up to whole groups, C-contiguous."""
    n, k = dense.shape
    width = coding.groups(k) * coding.group
    if width == k:
        return np.ascontiguousarray(dense)
    padded = np.zeros((n, width), np.float32)
    padded[:, :k] = dense
    return padded


def _widest(dense: Float32, coding: Coding) -> Grid:
    """The grid that reaches over all weights: each errs by at most half a step.

    A group's wish is the smallest step at which that holds. The row's scale makes the largest wish 255 units.
    """
    least, most = coding.limits
    top, low = (extreme.astype(np.float64) for extreme in group_extremes(_padded(dense, coding), coding.group))
    if coding.zero:
        top, low = np.maximum(top, 0.0), np.minimum(low, 0.0)
        wish = (top - low) / (most + 1)
    else:
        wish = np.maximum(top / (most + 0.5), low / (least - 0.5))
    row_scale, factors = _factors(wish)
    if not coding.zero:
        return Grid(coding, row_scale, factors)
    safe = np.where(wish > 0, wish, 1.0)
    zeros = np.clip(np.rint((-low / safe - 0.5) * 2**coding.zero_shift), 0, 255)
    return Grid(coding, row_scale, factors, zeros.astype(np.uint8))


def _factors(wish: Float64) -> tuple[Float32, NDArray[np.uint8]]:
    """Row scale ``[n]`` and factors ``[n, groups]`` whose products come nearest to the wished steps."""
    row_scale = (wish.max(axis=1) / FACTOR_MAX).astype(np.float32)
    safe = np.where(row_scale > 0, row_scale, np.float32(1)).astype(np.float64)
    return row_scale, np.clip(np.rint(wish / safe[:, None]), 0, FACTOR_MAX).astype(np.uint8)


def _w8_scale(dense: Float32) -> Float32:
    """The scale ``[n]`` of 8-bit rows.

    It is max|row| / t for the t in 64..127.5 that leaves the least error, sum(e^2) + sum(e)^2 / 4: the second term is
    what inputs behind a ReLU, never negative, make of a one-sided error. 2^18 / k^2 values of t are tried, at most
    2000, at least 127.
    """
    k = dense.shape[1]
    count = min(_SEARCH_MOST, _SEARCH_BUDGET // (k * k))
    largest = np.maximum(dense.max(axis=1), -dense.min(axis=1))
    live = largest >= _LEAST_W8_ROW
    if count > 1:
        scale = _best_scale(dense, np.where(live, largest, np.float32(1)), count)
    else:
        scale = largest / np.float32(127)
    return np.where(live, scale, np.float32(0)).astype(np.float32)


def _best_scale(dense: Float32, largest: Float32, count: int) -> Float32:
    """Of so many scales for each row that with the least error.

    Args:
        largest: magnitudes of the rows, none of them 0.
    """
    tops = np.concatenate([[127.0], np.linspace(127.49, 64.0, count)])
    scales = (largest / tops.astype(np.float32)[:, None]).astype(np.float32)
    wide, exact = scales.astype(np.float64), dense.astype(np.float64)
    squares, bias = np.zeros(scales.shape), np.zeros(scales.shape)
    for column in range(dense.shape[1]):  # a loop, so that the order of the sums is the same everywhere
        error = np.clip(np.rint(exact[:, column] / wide), -127, 127) * wide - exact[:, column]
        squares += error * error
        bias += error
    best = np.argmin(squares + bias * bias / 4, axis=0)
    found: Float32 = scales[best, np.arange(len(dense))]
    return found
