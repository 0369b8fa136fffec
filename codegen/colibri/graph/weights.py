"""Weights as the numpy reference reads them: unpacked, so that no packing error is shared with the C."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import Lock
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from colibri.graph.coding import Coding, WeightFormat
from colibri.graph.float32 import Float

# Twice the values of the 4-bit float e2m1 (sign, 2 bits of exponent, 1 of mantissa), by its bits: all are integers.
E2M1_DOUBLED = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], np.int8)
FP4_MAX = 12


@dataclass(frozen=True)
class Vector:
    """fp32 values that stay fp32: norm weights and tables.

    Attributes:
        values: any shape, C order.
        derived: computed here (a table), not a parameter of the model.
    """

    values: Float
    derived: bool = False

    @property
    def parameters(self) -> int:
        """Number of values that the checkpoint holds."""
        return 0 if self.derived else int(self.values.size)


@dataclass(frozen=True)
class Matrix:
    """A weight matrix ``[n, k]`` in one of the codings.

    A weight is ``row scale * (what integer, group and zero point make + tail)``, see `combined`.

    Attributes:
        coding: which of the other fields are set.
        shape: ``(n, k)``.
        dense: fp32 ``[n, k]``; of F16 such as half precision holds.
        integers: int8 ``[n, k]`` within the coding's limits; FP4 of `E2M1_DOUBLED`.
        row_scale: fp32 ``[n]``; of formats in groups such as the upper 16 bits hold.
        group_scale: of FP4 uint8 ``[n, groups]``, the exponent of a power of two, at most 20; else int8, a factor in
            -127..127, not negative where there are zero points.
        bias: fp32 ``[n]`` or None.
        parts: matrices of ``n / parts`` rows that stand below each other and are packed one by one.
        stored: the block format that the checkpoint has the weights in, for the user; empty for plain floats.
        zeros: uint8 ``[n, groups]``: zero points, in units of ``2 ** -coding.zero_shift`` of an integer.
        tail: int8 ``[n, t]`` in -127..127, in units of the row scale.
        tail_columns: int32 ``[t]``, ascending: the columns that have a tail.
    """

    coding: Coding
    shape: tuple[int, int]
    dense: Float | None = None
    integers: NDArray[np.int8] | None = None
    row_scale: Float | None = None
    group_scale: NDArray[np.uint8] | NDArray[np.int8] | None = None
    bias: Float | None = None
    parts: int = 1
    stored: str = ""
    zeros: NDArray[np.uint8] | None = None
    tail: NDArray[np.int8] | None = None
    tail_columns: NDArray[np.int32] | None = None

    @property
    def format(self) -> WeightFormat:
        """The coding's."""
        return self.coding.format

    @cached_property
    def split(self) -> tuple[Matrix, ...]:
        """The parts as matrices of their own."""
        n = self.shape[0] // self.parts
        return tuple(self.rows(part * n, (part + 1) * n) for part in range(self.parts))

    def rows(self, begin: int, end: int) -> Matrix:
        """Some rows that follow each other, as a matrix of one part."""
        return self._some(slice(begin, end), end - begin)

    def chosen(self, rows: NDArray[np.intp]) -> Matrix:
        """Rows by their numbers, as a matrix of one part."""
        return self._some(rows, rows.size)

    def _some(self, rows: slice | NDArray[np.intp], count: int) -> Matrix:
        def some(values: NDArray[Any] | None) -> NDArray[Any] | None:
            return None if values is None else values[rows]

        return replace(
            self,
            shape=(count, self.shape[1]),
            dense=some(self.dense),
            integers=some(self.integers),
            row_scale=some(self.row_scale),
            group_scale=some(self.group_scale),
            bias=some(self.bias),
            zeros=some(self.zeros),
            tail=some(self.tail),
            parts=1,
        )

    def blocks(self, step: int) -> Iterator[Matrix]:
        """All rows, ``step`` at a time; at once where that is no more."""
        if step >= self.shape[0]:
            yield self
            return
        for begin in range(0, self.shape[0], step):
            yield self.rows(begin, min(begin + step, self.shape[0]))

    def load(self) -> Matrix:
        """Itself."""
        return self

    @property
    def has_bias(self) -> bool:
        """Whether each row has one."""
        return self.bias is not None

    @property
    def in_order(self) -> bool:
        """Whether a few rows cost no more than their share."""
        return True

    @property
    def parameters(self) -> int:
        """Number of weights, the bias included."""
        return self.shape[0] * self.shape[1] + (0 if self.bias is None else self.shape[0])

    @cached_property
    def combined(self) -> NDArray[np.float64]:
        """The weights in units of the row scale, ``[n, k]`` in float64: integers, whose products with int16 are exact.

        ``integer``, ``integer * 2^exponent`` of FP4, ``integer * factor`` of a group, with zero points
        ``integer * factor - ((zero * factor) >> zero_shift)``; and the tail's integer added where there is one.
        """
        assert self.integers is not None
        if self.group_scale is None:
            return self.integers.astype(np.float64)
        wide = self.integers.astype(np.int32)  # as floats, a scale of 0 would make negative zeros
        scales = self.group_scale.astype(np.int32)
        factors = 1 << scales if self.format is WeightFormat.FP4 else scales
        wide *= self._each_column(factors)
        if self.zeros is not None:
            wide -= self._each_column((self.zeros * factors) >> self.coding.zero_shift)
        if self.tail is not None:
            assert self.tail_columns is not None
            wide[:, self.tail_columns] += self.tail
        return wide.astype(np.float64)

    def _each_column(self, of_groups: NDArray[np.int32]) -> NDArray[np.int32]:
        return np.repeat(of_groups, self.coding.group, axis=1)[:, : self.shape[1]]

    @cached_property
    def values(self) -> Float:
        """The weights as fp32 ``[n, k]``: rounded once where they are not floats, which of FP4 loses nothing."""
        if self.dense is not None:
            return self.dense
        assert self.row_scale is not None
        return (self.combined * self.row_scale[:, None].astype(np.float64)).astype(np.float32)


class Rows(Protocol):
    """Where a matrix comes from: read when it is asked for.

    Attributes:
        shape: ``(n, k)``.
        has_bias: whether each row has one.
        in_order: whether a few rows cost no more than their share.
    """

    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def has_bias(self) -> bool: ...

    @property
    def in_order(self) -> bool: ...

    def rows(self, begin: int, end: int) -> Matrix:
        """Return some rows. BadInput: unreadable, or values that cannot be used."""
        ...

    def blocks(self, step: int) -> Iterator[Matrix]:
        """Return all rows, ``step`` at a time. BadInput: as `rows`."""
        ...


@dataclass(frozen=True, eq=False)
class StoredMatrix:
    """A matrix that stays in the checkpoint until it is asked for.

    Attributes:
        coding: that it has when it is made.
        source: of its rows.
        steps: what each block of rows goes through, one after the other; no row needs another.
        parts, stored: as `Matrix` has them.
    """

    coding: Coding
    source: Rows
    steps: tuple[Callable[[Matrix], Matrix], ...] = ()
    parts: int = 1
    stored: str = ""

    @property
    def format(self) -> WeightFormat:
        """The coding's."""
        return self.coding.format

    @property
    def shape(self) -> tuple[int, int]:
        """``(n, k)``."""
        return self.source.shape

    @property
    def has_bias(self) -> bool:
        """Whether each row has one."""
        return self.source.has_bias

    @property
    def in_order(self) -> bool:
        """Whether a few rows cost no more than their share."""
        return self.source.in_order

    @property
    def parameters(self) -> int:
        """Number of weights, the bias included."""
        return self.shape[0] * (self.shape[1] + self.has_bias)

    def then(self, step: Callable[[Matrix], Matrix], coding: Coding | None = None) -> StoredMatrix:
        """The matrix behind a further step, which may give it another coding."""
        return replace(self, steps=(*self.steps, step), coding=coding or self.coding)

    def rows(self, begin: int, end: int) -> Matrix:
        """Make some rows. BadInput: unreadable, or values that cannot be used."""
        return self._made(self.source.rows(begin, end))

    def blocks(self, step: int) -> Iterator[Matrix]:
        """Make all rows, ``step`` at a time. BadInput: as `rows`."""
        return map(self._made, self.source.blocks(step))

    def load(self) -> Matrix:
        """Make all of it. BadInput: as `rows`."""
        return replace(self.rows(0, self.shape[0]), parts=self.parts)

    def _made(self, rows: Matrix) -> Matrix:
        for step in self.steps:
            rows = step(rows)
        return rows


AnyMatrix = Matrix | StoredMatrix
Weight = Vector | AnyMatrix


@dataclass
class Kept:
    """Matrices that were made and stay, since they are small: as many as the first ones that have room."""

    left: int = 1 << 22  # weights; with what the reference makes of them some 12 bytes each
    largest: int = 1 << 20  # weights of one matrix
    made: dict[StoredMatrix, Matrix] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def loaded(self, matrix: AnyMatrix) -> AnyMatrix:
        """The matrix, made if there is room for it."""
        if isinstance(matrix, Matrix):
            return matrix
        with self.lock:
            if matrix in self.made:
                return self.made[matrix]
            size = matrix.shape[0] * matrix.shape[1]
            if size > min(self.left, self.largest):
                return matrix
            self.left -= size
        loaded = matrix.load()
        with self.lock:
            return self.made.setdefault(matrix, loaded)
