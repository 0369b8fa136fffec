"""The grid of a matrix: the values that its weights may take, before any of them is rounded.

A row has a scale, a group of columns a factor and perhaps a zero point; whoever rounds, to nearest or with regard to
the columns that follow, takes a grid as given.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from colibri.graph.coding import FACTOR_MAX, TAIL_MAX, ZERO_MAX, Coding, WeightFormat
from colibri.graph.weights import Matrix
from colibri.passes.rounding import group_extremes, round_to_integers

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
# A row of smaller weights counts as zeros: its scale would lose bits, or be 0 itself.
_LEAST_W8_ROW = np.float32(2.0**-100)
# Short rows leave room to search: with few columns some scale rounds them all well. Long rows average that out.
_SEARCH_BUDGET = 1 << 18
_SEARCH_MOST = 2000
# Steps that are tried for a group: its extreme weight lies from beyond the last integer up to so far inside of it, or,
# with a zero point, so much of the range is cut off at each end.
_LEAST_SHORT, _MOST_SHORT, _STEPS = -0.1, 0.25, 9
_CUTS = (0.0, 0.06, 0.12, 0.2, 0.3)


@dataclass(frozen=True)
class Grid:
    """The values ``integer * step + offset`` of each group of a matrix ``[n, k]``; see `Matrix` for the fields.

    Attributes:
        row_scale: fp32 ``[n]``, with factors such as the upper 16 bits hold; 0 for a row of zeros.
        factors: int8 ``[n, groups]``, negative where the largest weight is positive; None for w8.
        zeros: uint8 ``[n, groups]``; None without zero points.
    """

    coding: Coding
    row_scale: Float32
    factors: NDArray[np.int8] | None = None
    zeros: NDArray[np.uint8] | None = None

    @property
    def step(self) -> Float64:
        """``[n, groups]``, of w8 ``[n, 1]``: from one value to the next, perhaps downwards; 0 where all are alike."""
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
        live = step != 0
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


def choose_grid(dense: Float32, coding: Coding, importance: Float64 | None = None, *, search: bool = True) -> Grid:
    """The grid that suits the rows of a matrix ``[n, k]`` best, each on its own.

    Args:
        importance: ``[k]``, what a column's squared error weighs: the mean of its inputs' squares. None: all alike.
        search: try several steps for each group, some 100 times the work; else the one that reaches all weights.
    """
    if coding.format is WeightFormat.W8:
        return Grid(coding, _w8_scale(dense))
    blocks = _padded(dense, coding)
    top, low = (extreme.astype(np.float64) for extreme in group_extremes(blocks, coding.group))
    step, start = _reaching(top, low, coding)
    if search:
        n, groups = step.shape
        columns = np.ascontiguousarray(blocks.reshape(n * groups, -1).T).astype(np.float64)
        weight = _weights(importance, dense.shape[1], coding)
        each = np.repeat(weight[:, None, :], n, axis=1).reshape(coding.group, n * groups) if groups > 1 else weight
        searched = _with_zero if coding.zero else _symmetric
        step, start = searched(columns, each, top.reshape(-1), low.reshape(-1), coding)
        step, start = step.reshape(n, groups), start.reshape(n, groups)
    return _grid(step, start, coding)


def round_to_grid(dense: Float32, grid: Grid) -> NDArray[np.int8]:
    """Integers ``[n, k]`` nearest to the values, ties to even; 0 where the step is 0."""
    k, coding = dense.shape[1], grid.coding
    step = grid.step
    live = step != 0
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
    *,
    search: bool = True,
) -> Matrix:
    """The matrix in another coding, each weight rounded to the nearest value; the bias stays fp32.

    Args:
        importance, search: as `choose_grid` has it.
        columns: of the tail, ascending; None where the coding has none.
    """
    values = matrix.values
    if coding.format.floating:
        plain = Matrix(coding, matrix.shape, bias=matrix.bias, parts=matrix.parts, stored=matrix.stored)
        return replace(plain, dense=to_f16(values) if coding.format is WeightFormat.F16 else values)
    grid = choose_grid(values, coding, importance, search=search)
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


def _reaching(top: Float64, low: Float64, coding: Coding) -> tuple[Float64, Float64]:
    """Step and value of integer 0 of groups so that each weight errs by at most half a step.

    Args:
        top, low: the largest and the smallest weight of each group.
    """
    least, most = coding.limits
    if coding.zero:
        top, low = np.maximum(top, 0.0), np.minimum(low, 0.0)
        step = np.maximum((top - low) / (most + 1), top / (most + 0.5))  # integer 0 is never above 0
        return step, np.minimum(low + step / 2, 0.0)
    # The extreme weight lies at the end of the integers that reaches further, the other one at the other end.
    over, under = np.maximum(top, -low), np.minimum(top, -low)
    step = np.maximum(over / (0.5 - least), under / (most + 0.5))
    return np.where(top > -low, -step, step), np.zeros(top.shape)


def _symmetric(
    columns: Float64, weight: Float64, top: Float64, low: Float64, coding: Coding
) -> tuple[Float64, Float64]:
    """The steps ``[m]`` of the least weighted error.

    The extreme weight of a group is near the end of the integers that reaches further.

    Args:
        columns: ``[group, m]``, the weights of m groups.
        weight: ``[group, m]``, of their squared errors.
    """
    least, most = coding.limits
    extreme = np.where(top > -low, top, low)
    best, found = np.full(extreme.shape, np.inf), np.zeros(extreme.shape)
    for short in np.linspace(_LEAST_SHORT, _MOST_SHORT, _STEPS):
        step = extreme / (least * (1 - short))
        safe = np.where(step != 0, step, 1.0)
        integers = np.clip(np.rint(columns / safe), least, most)
        product = _sum(weight * integers * columns)
        square = _sum(weight * integers * integers)
        fitted = np.where(square > 0, product / np.where(square > 0, square, 1.0), 0.0)
        gain = -product * fitted  # the error, less the sum of the weights' squares
        better = gain < best
        best, found = np.where(better, gain, best), np.where(better, fitted, found)
    return found, np.zeros(found.shape)


def _with_zero(
    columns: Float64, weight: Float64, top: Float64, low: Float64, coding: Coding
) -> tuple[Float64, Float64]:
    """Step and value of integer 0, ``[m]`` each, of the least weighted error; see `_symmetric`."""
    most = coding.limits[1]
    top, low = np.maximum(top, 0.0), np.minimum(low, 0.0)
    best, step_of, start_of = np.full(top.shape, np.inf), np.zeros(top.shape), np.zeros(top.shape)
    total, first = _sum(weight), _sum(weight * columns)
    for cut_low in _CUTS:
        for cut_top in _CUTS:
            start = low * (1 - cut_low)
            step = (top * (1 - cut_top) - start) / most
            safe = np.where(step > 0, step, 1.0)
            integers = np.clip(np.rint((columns - start) / safe), 0, most)
            weighed = weight * integers
            mean, square, product = _sum(weighed), _sum(weighed * integers), _sum(weighed * columns)
            # The line through (integer, weight) of the least squares; where it is none, the step that was tried.
            spread = total * square - mean * mean
            fits = spread > 1e-12 * total * square
            slope = np.where(fits, (total * product - mean * first) / np.where(fits, spread, 1.0), step)
            offset = np.minimum((first - slope * mean) / np.where(total > 0, total, 1.0), 0.0)
            error = _sum(weight * np.square(integers * slope + offset - columns))
            better = (error < best) & (slope >= 0)
            best = np.where(better, error, best)
            step_of, start_of = np.where(better, slope, step_of), np.where(better, offset, start_of)
    return step_of, start_of


def _sum(columns: Float64) -> Float64:
    """Over the first axis, in order: numpy's own sum has another order on another machine."""
    total: Float64 = columns[0].copy()
    for column in columns[1:]:
        total += column
    return total


def _weights(importance: Float64 | None, k: int, coding: Coding) -> Float64:
    """What columns weigh, ``[group, groups]``; nothing where they are padding, and alike where none of them counts."""
    padded = np.zeros(coding.groups(k) * coding.group)
    padded[:k] = 1.0 if importance is None else importance
    each = padded.reshape(-1, coding.group)
    dead = _sum(np.ascontiguousarray(each.T)) <= 0
    return np.ascontiguousarray(np.where(dead[:, None], 1.0, each).T)


def _grid(step: Float64, start: Float64, coding: Coding) -> Grid:
    """The grid nearest to wished steps and values of integer 0, ``[n, groups]``: bytes and one float a row."""
    exact = (np.abs(step).max(axis=1) / FACTOR_MAX).astype(np.float32)
    row_scale = (exact.view(np.uint32) + np.uint32(0xFFFF) & np.uint32(0xFFFF0000)).view(np.float32)  # not below
    safe = np.where(row_scale > 0, row_scale, np.float32(1)).astype(np.float64)
    factors = np.clip(np.rint(step / safe[:, None]), -FACTOR_MAX, FACTOR_MAX)
    if not coding.zero:
        return Grid(coding, row_scale, factors.astype(np.int8))
    made = np.where(factors > 0, factors, 1.0) * safe[:, None]
    zeros = np.clip(np.rint(-start / made * 2**coding.zero_shift), 0, ZERO_MAX)
    return Grid(coding, row_scale, factors.astype(np.int8), zeros.astype(np.uint8))


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
