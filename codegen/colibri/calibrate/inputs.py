"""What a matrix is rounded for, from the rows that come to it in two runs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from colibri.calibrate.statistics import mean_product, mean_row
from colibri.graph.float32 import Float
from colibri.passes.gptq import Inputs, damped
from colibri.passes.linear_algebra import Wide

Rows = NDArray[np.intp] | None


def inputs_of(x: Float, before: Float, *, centred: bool, prior: Wide | None) -> Inputs:
    """Of rows ``[rows, k]`` as they are, and of the same rows as they were in the original model.

    Args:
        centred: the matrix has a bias, which takes up what is constant.
        prior: ``[k, k]``, second moments that stand in where there are fewer rows than columns; None for equal ones.
    """
    rows, k = x.shape
    second, apart = mean_product(x, x), mean_product(before - x, x)
    mean, change = mean_row(x), mean_row(before - x)
    if centred:
        second = second - mean[:, None] * mean
        apart = apart - change[:, None] * mean
    if rows < k:
        own = rows / (rows + k)
        stand_in = np.diag(np.full(k, _mean(second.diagonal()))) if prior is None else prior
        second, apart = own * second + (1 - own) * stand_in, own * apart
    if not centred:
        return Inputs(damped(second), apart)
    return Inputs(damped(second), apart, mean, mean + change)


def same_rows(x: Float, rows: Rows, before: Float, rows_before: Rows) -> Float:
    """The original of each row of x ``[rows, k]``; the row itself where it did not come to this expert then."""
    if rows is None or rows_before is None:
        return before if before.shape == x.shape else x
    found = x.copy()
    _, here, there = np.intersect1d(rows, rows_before, assume_unique=True, return_indices=True)
    found[here] = before[there]
    return found


def _mean(values: Wide) -> float:
    total = 0.0
    for value in values.tolist():
        total += value
    return total / len(values)
