"""Factors and products of float64 matrices as elementwise loops: LAPACK and BLAS order sums as the machine likes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Wide = NDArray[np.float64]


def upper_factor(a: Wide) -> Wide:
    """The upper triangle M of ``a = M M^T``.

    Args:
        a: ``[k, k]``, symmetric.

    Raises:
        ValueError: not positive definite.
    """
    lower = np.ascontiguousarray(a[::-1, ::-1])
    for j in range(len(a)):
        pivot = lower[j, j]
        if not (pivot > 0 and np.isfinite(pivot)):
            raise ValueError("not positive definite")
        lower[j:, j] /= np.sqrt(pivot)
        column = lower[j + 1 :, j]
        lower[j + 1 :, j + 1 :] -= column[:, None] * column
    return np.ascontiguousarray(np.tril(lower)[::-1, ::-1])


def product(a: Wide, b: Wide) -> Wide:
    """``a [n, k]`` times ``b [k, m]``, one sequential sum an element."""
    out = np.zeros((a.shape[0], b.shape[1]))
    for j in range(a.shape[1]):
        out += a[:, j, None] * b[j]
    return out


def row_sums(a: Wide) -> Wide:
    """Sums of the rows of ``a [n, k]``, in the order of the columns."""
    out = np.zeros(len(a))
    for column in a.T:
        out += column
    return out


def solve(factor: Wide, right: Wide) -> Wide:
    """X of ``X M M^T = right``.

    Args:
        factor: M, an upper triangle ``[k, k]``.
        right: ``[n, k]``.
    """
    k = len(factor)
    left = right.copy()
    for j in reversed(range(k)):  # X M first
        left[:, j] /= factor[j, j]
        left[:, :j] -= left[:, j, None] * factor[:j, j]
    for j in range(k):
        left[:, j] /= factor[j, j]
        left[:, j + 1 :] -= left[:, j, None] * factor[j, j + 1 :]
    return left
