"""Values of a checkpoint that are read when they are asked for, some rows at a time.

An importer shapes them with what it would write for an array: indices, `reshape`, `transpose`. What acts on whole rows
only changes which rows are read; what moves the last axis needs all of the tensor, of a fused one an expert's slice.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from types import EllipsisType
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from colibri.graph.coding import F32
from colibri.graph.weights import Matrix, StoredMatrix

if TYPE_CHECKING:
    from colibri.graph.float32 import Float

_Index = int | slice | NDArray[np.intp] | EllipsisType
_PIECE = 1 << 20  # values that are read at once where only some columns of them are wanted


class Leaf(Protocol):
    """A stored tensor, its leading axes taken as one.

    Attributes:
        shape: extents, outermost first.
        in_order: whether a few rows cost no more than their share.
    """

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def in_order(self) -> bool: ...

    def rows(self, begin: int, end: int) -> Float:
        """Return rows of the last axis ``[end - begin, shape[-1]]``; of a vector its values, of a scalar one.

        Raises:
            BadInput: unreadable, or values that are not finite.
        """
        ...


class Lazy(ABC):
    """fp32 values of some shape.

    Attributes:
        shape: extents, outermost first.
        in_order: whether a few rows of the outermost axis cost no more than their share.
    """

    shape: tuple[int, ...]
    in_order: bool

    @abstractmethod
    def rows(self, begin: int, end: int) -> Float:
        """Return entries of the outermost axis, C-contiguous and owned by the caller.

        Raises:
            BadInput: unreadable, or values that cannot be used.
        """

    def blocks(self, step: int) -> Iterator[Float]:
        """Return all rows, ``step`` at a time. BadInput: as `rows`."""
        whole = None if self.in_order else self._whole()
        for begin in range(0, self.shape[0], step):
            end = min(begin + step, self.shape[0])
            yield self.rows(begin, end) if whole is None else np.ascontiguousarray(whole[begin:end])

    def _whole(self) -> NDArray[np.float32]:
        """All of it, in any order of the memory."""
        return self.read()

    def read(self) -> Float:
        """Return all of it. BadInput: as `rows`."""
        return self.rows(0, self.shape[0]) if self.shape else self.reshape(1).rows(0, 1).reshape(())

    def __getitem__(self, index: _Index | tuple[_Index, ...]) -> Lazy:
        """As numpy's."""
        return _Whole(self, lambda values: values[index])

    def reshape(self, *shape: int) -> Lazy:
        """As numpy's, with every extent given."""
        return _Whole(self, lambda values: values.reshape(shape))

    def transpose(self, *axes: int) -> Lazy:
        """As numpy's."""
        return _Whole(self, lambda values: values.transpose(axes))

    @property
    def T(self) -> Lazy:
        """As numpy's."""
        return self.transpose(*reversed(range(len(self.shape))))

    def checked(self, check: Callable[[Float, int], None]) -> Lazy:
        """The same values, looked at whenever they are read.

        Args:
            check: gets some rows and the number of the first; raises BadInput.
        """
        return _Checked(self, check)


def stored(leaf: Leaf) -> Lazy:
    """All of a tensor."""
    return _Rows(leaf, leaf.shape[:-1] or leaf.shape, range(math.prod(leaf.shape[:-1] or leaf.shape)))


class _Rows(Lazy):
    """Some rows of a tensor, and of these some columns."""

    def __init__(
        self, leaf: Leaf, lead: tuple[int, ...], chosen: range | NDArray[np.intp], columns: slice | None = None
    ) -> None:
        """Choose them.

        Args:
            lead: extents of the leading axes.
            chosen: the rows in C order of these axes.
            columns: of the last axis; None for all.
        """
        self._leaf, self._lead, self._chosen, self._columns = leaf, lead, chosen, columns
        self.in_order = leaf.in_order
        last = leaf.shape[1:] and (len(range(leaf.shape[-1])[columns or slice(None)]),)
        self.shape = (*lead, *last)

    def rows(self, begin: int, end: int) -> Float:
        if not self._lead:
            return np.ascontiguousarray(self._some(self._chosen)[0, begin:end])
        each = math.prod(self._lead[1:])
        values = self._some(self._chosen[begin * each : end * each])
        return values.reshape(end - begin, *self.shape[1:])

    def _some(self, chosen: range | NDArray[np.intp]) -> Float:
        """Rows of the tensor by number, with the columns that are wanted."""
        if len(self._leaf.shape) < 2:
            whole = self._leaf.rows(0, math.prod(self._leaf.shape))
            return whole[chosen.start : chosen.stop] if isinstance(chosen, range) else whole[chosen]
        if isinstance(chosen, range) and self._columns is None:
            return self._leaf.rows(chosen.start, chosen.stop)
        out = np.empty((len(chosen), *self.shape[-1:]), np.float32)
        columns, step = self._columns or slice(None), max(1, _PIECE // max(1, self._leaf.shape[-1]))
        for start, stop, row in _runs(chosen, step):
            out[start:stop] = self._leaf.rows(row, row + stop - start)[:, columns]
        return out

    def __getitem__(self, index: _Index | tuple[_Index, ...]) -> Lazy:
        given = index if isinstance(index, tuple) else (index,)
        axes = len(self._lead)
        inner = given[axes:]
        if len(inner) > 1 or any(not isinstance(one, slice) for one in inner) or any(one is ... for one in given):
            return super().__getitem__(index)
        if inner and self._columns is not None:
            return super().__getitem__(index)
        lead, chosen, outer = self._lead, self._chosen, given[:axes]
        while outer and isinstance(outer[0], int):  # an expert of a fused tensor: no list of all rows is made
            each, number = math.prod(lead[1:]), range(lead[0])[outer[0]]
            lead, chosen, outer = lead[1:], chosen[number * each : (number + 1) * each], outer[1:]
        if outer:
            picked = np.arange(len(chosen)).reshape(lead)[outer]
            lead, chosen = picked.shape, _compact(np.asarray(chosen, np.intp)[picked.reshape(-1)])
        columns = inner[0] if inner else self._columns
        assert columns is None or isinstance(columns, slice)
        return _Rows(self._leaf, lead, chosen, columns)

    def reshape(self, *shape: int) -> Lazy:
        last = self.shape[len(self._lead) :]
        lead = shape[:-1] if last else shape
        if shape[len(lead) :] != last or math.prod(lead) != len(self._chosen):
            return super().reshape(*shape)
        return _Rows(self._leaf, lead, self._chosen, self._columns)


def _compact(rows: NDArray[np.intp]) -> range | NDArray[np.intp]:
    first = int(rows[0]) if rows.size else 0
    return range(first, first + rows.size) if np.array_equal(rows, np.arange(first, first + rows.size)) else rows


def _runs(chosen: range | NDArray[np.intp], most: int) -> Iterator[tuple[int, int, int]]:
    """Places and first row of rows that follow each other, at most ``most``."""
    if isinstance(chosen, range):
        breaks = [0, len(chosen)]
    else:
        breaks = [0, *(np.flatnonzero(np.diff(chosen) != 1) + 1).tolist(), len(chosen)]
    for first, last in pairwise(breaks):
        for start in range(first, last, most):
            yield start, min(start + most, last), int(chosen[start])


class _Whole(Lazy):
    """What can only be made from all of the other."""

    in_order = False

    def __init__(self, inner: Lazy, step: Callable[[Float], NDArray[np.float32]]) -> None:
        self._inner, self._step = inner, step
        self.shape = step(np.broadcast_to(np.float32(0), inner.shape)).shape

    def rows(self, begin: int, end: int) -> Float:
        return np.ascontiguousarray(self._whole()[begin:end])

    def _whole(self) -> NDArray[np.float32]:
        return self._step(self._inner.read())


@dataclass(frozen=True, eq=False)
class _Checked(Lazy):
    inner: Lazy
    check: Callable[[Float, int], None]

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return self.inner.shape

    @property
    def in_order(self) -> bool:  # type: ignore[override]
        return self.inner.in_order

    def rows(self, begin: int, end: int) -> Float:
        values = self.inner.rows(begin, end)
        self.check(values, begin)
        return values

    def blocks(self, step: int) -> Iterator[Float]:
        begin = 0
        for values in self.inner.blocks(step):
            self.check(values, begin)
            yield values
            begin += len(values)


@dataclass(frozen=True)
class _Dense:
    """Rows of an fp32 matrix, as `graph.weights.Rows`."""

    values: Lazy
    bias: Lazy | None

    @property
    def shape(self) -> tuple[int, int]:
        n, k = self.values.shape
        return n, k

    @property
    def has_bias(self) -> bool:
        return self.bias is not None

    @property
    def in_order(self) -> bool:
        return self.values.in_order

    def rows(self, begin: int, end: int) -> Matrix:
        return self._made(self.values.rows(begin, end), begin)

    def blocks(self, step: int) -> Iterator[Matrix]:
        return map(self._made, self.values.blocks(step), range(0, self.shape[0], step))

    def _made(self, values: Float, begin: int) -> Matrix:
        bias = None if self.bias is None else self.bias.rows(begin, begin + len(values))
        return Matrix(F32, (len(values), self.shape[1]), dense=values, bias=bias)


def dense_matrix(values: Lazy, bias: Lazy | None = None, parts: int = 1) -> StoredMatrix:
    """An fp32 matrix ``[n, k]`` with a bias ``[n]`` or none, in so many parts."""
    return StoredMatrix(F32, _Dense(values, bias), parts=parts)
