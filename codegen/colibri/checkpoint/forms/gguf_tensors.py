"""Tensors of GGUF files, and those that are made of them, as `Stored` tensors: nothing is read before `rows`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colibri.checkpoint.files import Bytes
from colibri.checkpoint.forms.gguf_blocks import BlockFormat, read_blocks
from colibri.checkpoint.source import BITS, Stored

Values = NDArray[np.generic]
Join = Callable[[list[Any]], Any]  # rows of each source to rows of the result


@dataclass(frozen=True)
class Blocks:
    """A tensor as a file holds it, or a part of one.

    Attributes:
        file: that holds it.
        form: of its blocks, which never reach over the end of a row.
        shape: extents, outermost first.
        begin: first byte of its first entry in the file.
        stride: bytes from an entry of the outermost axis to the next; 0 where they follow one another.
    """

    file: Bytes
    form: BlockFormat
    shape: tuple[int, ...]
    begin: int
    stride: int = 0

    @property
    def dtype(self) -> str:
        """ggml's name of the number format."""
        return self.form.name

    @property
    def nbytes(self) -> int:
        """Bytes in the file."""
        return math.prod(self.shape) // self.form.values * self.form.bytes

    @property
    def where(self) -> str:
        """Name of the file."""
        return self.file.where

    def raised(self, rank: int) -> Blocks:
        """The same with so many axes at least: ggml drops outer axes of one entry."""
        return replace(self, shape=(1,) * (rank - len(self.shape)) + self.shape)

    def entry(self, index: int) -> Blocks:
        """One entry of the outermost axis of two or more."""
        return replace(self, shape=self.shape[1:], begin=self.begin + index * self._step, stride=0)

    def span(self, begin: int, end: int) -> Blocks:
        """Entries ``begin..end`` of the outermost axis."""
        at = self.begin + begin * self._step
        return replace(self, shape=(end - begin, *self.shape[1:]), begin=at)

    def inner(self, begin: int, end: int) -> Blocks:
        """Entries ``begin..end`` of the second of three axes."""
        each = self.entry(0).span(begin, end)
        return replace(each, shape=(self.shape[0], *each.shape), stride=self._step)

    @property
    def _step(self) -> int:
        return self.stride or self.nbytes // self.shape[0]

    @property
    def in_order(self) -> bool:
        """Entries lie one behind the other."""
        return True

    def rows(self, begin: int, end: int) -> Values:
        """As `Stored.rows`."""
        if len(self.shape) == 1 and self.form.values > 1:  # a block is not to be cut
            whole = read_blocks(self.file.read(self.begin, self.nbytes), self.form)
            return np.ascontiguousarray(whole[begin:end])
        return read_blocks(self.raw(begin, end), self.form).reshape(end - begin, *self.shape[1:])

    def raw(self, begin: int, end: int) -> bytes | bytearray:
        """The blocks of entries ``begin..end`` of the outermost axis."""
        if self.stride * self.shape[0] in (0, self.nbytes):
            return self.file.read(self.begin + begin * self._step, (end - begin) * self._step)
        each = self.entry(0).nbytes
        return b"".join(self.file.read(self.begin + at * self.stride, each) for at in range(begin, end))


@dataclass(frozen=True)
class Packed:
    """A field of the blocks of a tensor in MXFP4, as bytes, in the order of the models that were released in it.

    Attributes:
        of: the tensor.
        field: ``q``, 16 bytes of two elements for each block, the first in the lower half; or ``e``, the exponent.
    """

    of: Blocks
    field: str

    @property
    def dtype(self) -> str:
        """Bytes."""
        return "U8"

    @property
    def shape(self) -> tuple[int, ...]:
        """``[..., blocks]`` or ``[..., blocks, 16]``."""
        layout = self.of.form.layout
        assert layout is not None
        return (*self.of.shape[:-1], self.of.shape[-1] // self.of.form.values, *layout[self.field].shape)

    @property
    def nbytes(self) -> int:
        """Bytes in the file."""
        return math.prod(self.shape)

    @property
    def where(self) -> str:
        """Name of the file."""
        return self.of.where

    @property
    def in_order(self) -> bool:
        """Entries lie one behind the other."""
        return True

    def rows(self, begin: int, end: int) -> Values:
        """As `Stored.rows`."""
        found = np.frombuffer(self.of.raw(begin, end), self.of.form.layout)[self.field]
        if self.field == "q":  # the file has elements i and i + 16 in one byte
            codes = np.concatenate([found & 15, found >> 4], axis=-1)
            found = codes[:, 0::2] | (codes[:, 1::2] << 4)
        return np.ascontiguousarray(found).reshape(end - begin, *self.shape[1:])


@dataclass(frozen=True)
class Joined:
    """Made of tensors with equally many entries in their outermost axis, entry by entry.

    Attributes:
        parts: the tensors.
        join: makes entries of entries.
        flat: whether the first two axes of the result are one.
    """

    parts: tuple[Stored, ...]
    join: Join
    flat: bool = False

    @property
    def dtype(self) -> str:
        """That of the parts, where it is one of plain elements."""
        names = list(dict.fromkeys(part.dtype for part in self.parts))
        return names[0] if len(names) == 1 and names[0] in BITS else f"joined {' and '.join(names)}"

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents, outermost first."""
        first, *rest = self._shape
        return (first * rest[0], *rest[1:]) if self.flat else (first, *rest)

    @property
    def _shape(self) -> tuple[int, ...]:
        none = [np.empty((0, *part.shape[1:]), np.float32) for part in self.parts]
        return (self.parts[0].shape[0], *self.join(none).shape[1:])

    @property
    def nbytes(self) -> int:
        """Bytes in the file."""
        return sum(part.nbytes for part in self.parts)

    @property
    def where(self) -> str:
        """Name of the first part's file."""
        return self.parts[0].where

    @property
    def in_order(self) -> bool:
        """Of each part; entries are not mixed."""
        return True

    def rows(self, begin: int, end: int) -> Values:
        """As `Stored.rows`."""
        if not self.flat:
            return self._entries(begin, end)
        each = self._shape[1]
        first = begin // each
        entries = self._entries(first, max(first, -(-end // each)))
        return entries.reshape(-1, *entries.shape[2:])[begin - first * each : end - first * each]

    def _entries(self, begin: int, end: int) -> Values:
        made: Values = np.ascontiguousarray(self.join([part.rows(begin, end) for part in self.parts]))
        return made


def stacked(parts: list[Any]) -> Any:
    """``[n, a, k]`` and ``[n, b, k]`` to ``[n, a + b, k]``."""
    return np.concatenate(parts, axis=1)


def turned(parts: list[Any]) -> Any:
    """``[n, a, k]`` to ``[n, k, a]``, of all parts one after the other."""
    return stacked(parts).swapaxes(1, 2)


def woven(parts: list[Any]) -> Any:
    """``[n, a, …]`` twice to ``[n, 2 a, …]``, alternating."""
    one, two = parts
    return np.stack([one, two], axis=2).reshape(len(one), 2 * one.shape[1], *one.shape[2:])


def woven_turned(parts: list[Any]) -> Any:
    """``[n, a, k]`` twice to ``[n, k, 2 a]``, alternating."""
    return woven(parts).swapaxes(1, 2)


def keys_and_values(parts: list[Any]) -> Any:
    """``[heads, rank, k]`` and ``[heads, v, rank]`` to ``[heads, k + v, rank]``."""
    keys, values = parts
    return np.concatenate([keys.swapaxes(1, 2), values], axis=1)
