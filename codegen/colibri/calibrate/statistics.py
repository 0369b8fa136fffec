"""What calibration knows of the inputs of each matrix. Sums are of integers, so they are exact in any order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from colibri.graph.float32 import Float
from colibri.graph.interpret import Quantised
from colibri.passes.linear_algebra import Wide

_TOP = 15  # bits that rows are rounded to, beside the sign


@dataclass(frozen=True, eq=False)
class Moments:
    """Of the rows that a matrix ``[n, k]`` was multiplied with; experts have rows of their own.

    Attributes:
        rows: how many.
        mean: float64 ``[k]``.
        square: float64 ``[k]``: mean of x^2.
        largest: float64 ``[k]``: max |x|.
        second: float64 ``[k, k]``: mean of x x^T; None where it was not wanted, or too large.
    """

    rows: int
    mean: Wide
    square: Wide
    largest: Wide
    second: Wide | None = None


@dataclass(frozen=True)
class Statistics:
    """Moments by the weight's name; a matrix that no row reached is not there.

    Attributes:
        rows: tokens or samples that went through the model.
        left_out: matrices whose second moments would have been too large.
    """

    moments: Mapping[str, Moments]
    rows: int
    left_out: tuple[str, ...] = ()


class Sums:
    """Moments on their way.

    A call's rows are rounded to 16-bit integers times a power of two: their products are exact in float64, whatever
    BLAS does. Calls are added elementwise, in their order.
    """

    def __init__(self, k: int, *, second: bool) -> None:
        self._rows = 0
        self._sum = np.zeros(k)
        self._largest = np.zeros(k)
        self._squares = np.zeros((k, k) if second else k)

    def add(self, x: Float | Quantised) -> None:
        """Take in rows ``[rows, k]``, at most 2^22 of them.

        Raises:
            ValueError: a value is not finite.
        """
        values = floats(x)
        if not len(values):
            return
        largest = np.abs(values).max(axis=0).astype(np.float64)
        if not np.isfinite(largest).all():
            raise ValueError("not finite")
        self._rows += len(values)
        self._largest = np.maximum(self._largest, largest)
        integers, step = _integers(values)
        ones = np.ones((1, len(integers)))
        self._sum += _exact_product(ones, integers)[0] * step
        if self._squares.ndim == 2:
            self._squares += _exact_product(integers.T, integers) * (step * step)
        else:
            self._squares += _exact_product(ones, integers * integers)[0] * (step * step)

    def moments(self) -> Moments:
        """What was found; of no row zeros."""
        count = max(1, self._rows)
        mean, squares = self._sum / count, self._squares / count
        second = squares if squares.ndim == 2 else None
        return Moments(self._rows, mean, squares if second is None else second.diagonal().copy(), self._largest, second)


def floats(x: Float | Quantised) -> Float:
    """Rows as fp32."""
    return x.integers.astype(np.float32) * x.scale[:, None] if isinstance(x, Quantised) else x


def mean_product(a: Float, b: Float) -> Wide:
    """Mean of ``a b^T`` over finite rows ``[rows, k]`` of both, of each with 16 bits: ``[k, k]``; of no rows zeros."""
    (left, step), (right, other) = _integers(a), _integers(b)
    return _exact_product(left.T, right) * (step * other / max(1, len(a)))


def mean_row(a: Float) -> Wide:
    """Mean of finite rows ``[rows, k]``, each with 16 bits; of no rows zeros."""
    integers, step = _integers(a)
    return np.asarray(_exact_product(np.ones((1, len(a))), integers)[0] * (step / max(1, len(a))))


def _integers(values: Float) -> tuple[Wide, float]:
    """Rows as integers of 16 bits, and the power of two that they are multiplied with."""
    top = float(np.abs(values).max(initial=0.0))
    if top == 0:
        return np.zeros(values.shape), 1.0
    step = float(2.0 ** (np.frexp(top)[1] - _TOP))
    return np.rint(values.astype(np.float64) / step), step


def _exact_product(a: Wide, b: Wide) -> Wide:
    """``a b`` of integers whose partial sums all stay below 2^53: the only product here that BLAS may order."""
    return np.asarray(a @ b)
