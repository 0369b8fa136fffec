"""Round a matrix so that its outputs, not its weights, come out best: what one column errs, later ones make good.

With the second moments H of the inputs, the error of a row of weights w that becomes v is (w - v) H (w - v)^T. GPTQ
(Frantar et al. 2022) rounds column by column, the largest inputs first, and moves the columns that follow by what is
least for H. Then each column is looked at again with all others fixed, and the scales are fitted to the integers.

All is float64 in elementwise loops, so the integers are the same on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from colibri.graph.coding import FACTOR_MAX, Coding
from colibri.graph.weights import Matrix
from colibri.passes.grid import Grid, choose_grid, column_energy, most_energetic, round_matrix
from colibri.passes.linear_algebra import Wide, product, row_sums, solve, upper_factor

DAMPING = 0.03  # of the mean of H's diagonal, added to it
ROUNDS = 2  # in which scales and columns are looked at again


@dataclass(frozen=True, eq=False)
class Inputs:
    """What is known of the rows that a matrix ``[n, k]`` is multiplied with.

    Attributes:
        second: float64 ``[k, k]``: mean of x x^T, damped, so that it has a factor.
        apart: float64 ``[k, k]`` or None: mean of (x0 - x) x^T, where x0 is what the rows are in the original model.
        mean, mean_before: float64 ``[k]`` of x and x0, for a matrix with a bias; the others are then about the mean.
    """

    second: Wide
    apart: Wide | None = None
    mean: Wide | None = None
    mean_before: Wide | None = None


def damped(second: Wide) -> Wide:
    """Second moments with so much on the diagonal that no direction is free; where nothing came in, all count alike."""
    mean = float(row_sums(second.diagonal()[None, :].copy())[0]) / len(second)
    return second + np.eye(len(second)) * (DAMPING * mean if mean > 0 else 1.0)


def round_for_outputs(matrix: Matrix, coding: Coding, inputs: Inputs) -> Matrix:
    """The matrix in another coding, rounded as the module says.

    Where the inputs are no longer those of the original model, the weights are first moved to what gives the original
    outputs best. A bias stays fp32, and takes up what the outputs would be off on average.
    """
    second = inputs.second
    weights = matrix.values.astype(np.float64)
    importance = np.ascontiguousarray(second.diagonal())
    if inputs.apart is not None:
        weights = weights + solve(upper_factor(second), product(weights, inputs.apart))
    dense = weights.astype(np.float32)
    columns = most_energetic(column_energy(dense) * importance, coding) if coding.outliers else None
    rounded = _first(weights, choose_grid(dense, coding, importance), second, columns)
    for _ in range(ROUNDS):
        rounded = _again(weights, rounded, second)
    made = rounded.matrix(matrix)
    if matrix.bias is None or inputs.mean is None or inputs.mean_before is None:
        return made
    off = row_sums(matrix.values * inputs.mean_before) - row_sums(rounded.values() * inputs.mean)
    return replace(made, bias=(matrix.bias + off).astype(np.float32))


def round_by_importance(matrix: Matrix, coding: Coding, inputs: Inputs) -> Matrix:
    """The matrix in another coding, each weight rounded to the nearest value of a grid that suits the large inputs."""
    importance = np.ascontiguousarray(inputs.second.diagonal())
    columns = most_energetic(column_energy(matrix.values) * importance, coding) if coding.outliers else None
    return round_matrix(matrix, coding, importance, columns)


@dataclass(frozen=True, eq=False)
class _Rounded:
    """Integers on a grid.

    Attributes:
        integers: int8 ``[n, k]``.
        tail: int8 ``[n, k]``, zeros but for its columns.
        columns: of the tail, ascending; None without one.
    """

    grid: Grid
    integers: NDArray[np.int8]
    tail: NDArray[np.int8]
    columns: NDArray[np.int32] | None

    def value(self, column: int) -> Wide:
        """The values ``[n]`` of a column."""
        return self.grid.value(column, self.integers[:, column]) + self.tail[:, column] * self.scale

    @property
    def scale(self) -> Wide:
        """Of the rows, ``[n]``."""
        return self.grid.row_scale.astype(np.float64)

    def values(self) -> Wide:
        """All values ``[n, k]``."""
        return np.stack([self.value(column) for column in range(self.integers.shape[1])], axis=1)

    def matrix(self, like: Matrix) -> Matrix:
        """As it is stored."""
        if self.columns is None:
            return self.grid.matrix(like, self.integers)
        return self.grid.matrix(like, self.integers, np.ascontiguousarray(self.tail[:, self.columns]), self.columns)


def _first(weights: Wide, grid: Grid, second: Wide, columns: NDArray[np.int32] | None) -> _Rounded:
    """Column by column: the largest inputs first, those of the tail last, since they can make good the most."""
    k = len(second)
    late = np.zeros(k, bool)
    if columns is not None:
        late[columns] = True
    order = np.lexsort((-second.diagonal(), late))
    factor = upper_factor(second[np.ix_(order, order)])
    rounded = _Rounded(grid, np.zeros(weights.shape, np.int8), np.zeros(weights.shape, np.int8), columns)
    owed = np.zeros(weights.shape)  # by column in order: what the errors so far ask of it, times its pivot
    for place, column in enumerate(order.tolist()):
        _put(rounded, column, weights[:, column] + owed[:, place] / factor[place, place], late[column])
        error = weights[:, column] - rounded.value(column)
        owed[:, place + 1 :] += error[:, None] * factor[place, place + 1 :]
    return rounded


def _put(rounded: _Rounded, column: int, values: Wide, in_tail: bool) -> None:
    """Round one column in place."""
    grid = rounded.grid
    rounded.integers[:, column] = grid.nearest(column, values)
    if in_tail:
        rounded.tail[:, column] = grid.tail(values - grid.value(column, rounded.integers[:, column]))


def _again(weights: Wide, rounded: _Rounded, second: Wide) -> _Rounded:
    """Factors of groups and scales of rows that suit the integers, then each column with all others fixed."""
    rounded = _rescaled(weights, _refactored(weights, rounded, second), second)
    diagonal = second.diagonal()
    in_tail = np.zeros(len(second), bool)
    if rounded.columns is not None:
        in_tail[rounded.columns] = True
    slope = product(weights - rounded.values(), second)  # half of what the error falls by where a value rises
    for column in range(len(second)):
        before = rounded.value(column)
        old = rounded.integers[:, column].copy(), rounded.tail[:, column].copy()
        _put(rounded, column, before + slope[:, column] / diagonal[column], in_tail[column])
        change = rounded.value(column) - before
        worse = change * (change * diagonal[column] - 2 * slope[:, column]) >= 0
        rounded.integers[worse, column], rounded.tail[worse, column] = old[0][worse], old[1][worse]
        slope -= np.where(worse, 0.0, change)[:, None] * second[column]
    return rounded


def _refactored(weights: Wide, rounded: _Rounded, second: Wide) -> _Rounded:
    """The factor of each group that suits its integers; of plain groups, whose values are proportional to it."""
    grid = rounded.grid
    if grid.factors is None or grid.zeros is not None:
        return rounded
    factors = grid.factors.astype(np.int32)
    rest = weights - rounded.values()
    scale = rounded.scale
    safe = np.where(scale > 0, scale, 1.0)
    for group in range(factors.shape[1]):
        some = slice(group * grid.coding.group, min(len(second), (group + 1) * grid.coding.group))
        integers = rounded.integers[:, some].astype(np.float64)
        bent = row_sums(product(integers, second[some, some]) * integers)
        gain = row_sums(product(rest, np.ascontiguousarray(second[:, some])) * integers)
        live = (bent > 0) & (scale > 0) & (factors[:, group] != 0)
        step = np.where(live, gain / np.where(live, bent, 1.0) / safe, 0.0)
        new = np.clip(np.rint(factors[:, group] + step), -FACTOR_MAX, FACTOR_MAX).astype(np.int32)
        new = np.where((new == 0) | (np.sign(new) != np.sign(factors[:, group])), factors[:, group], new)
        rest[:, some] -= ((new - factors[:, group]) * scale)[:, None] * integers
        factors[:, group] = new
    return replace(rounded, grid=replace(grid, factors=factors.astype(grid.factors.dtype)))


def _rescaled(weights: Wide, rounded: _Rounded, second: Wide) -> _Rounded:
    """The scale of each row that suits its values, all of which are proportional to it; not where it has 16 bits."""
    if rounded.grid.factors is not None:
        return rounded
    values = rounded.values()
    bent = product(values, second)
    square, along = row_sums(bent * values), row_sums(bent * weights)
    live = (square > 0) & (along > 0)
    scale = rounded.scale * np.where(live, along / np.where(live, square, 1.0), 1.0)
    return replace(rounded, grid=replace(rounded.grid, row_scale=scale.astype(np.float32)))
