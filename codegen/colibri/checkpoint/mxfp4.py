"""MXFP4: 4-bit floats in blocks of 32, each with a power of two, as GPT-OSS was released.

Source: OCP Microscaling Formats 1.0 (elements e2m1, scales e8m0), and transformers 5.24, `integrations/mxfp4.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colibri.checkpoint.lazy import Lazy
from colibri.checkpoint.source import MXFP4, Tensors, format_shape
from colibri.errors import BadInput, shown
from colibri.graph.coding import F32, FP4, FP4_SHIFT_MAX, GROUP
from colibri.graph.float32 import Float
from colibri.graph.weights import E2M1_DOUBLED, FP4_MAX, Matrix, StoredMatrix

_BLOCK_BYTES = GROUP // 2
_BIAS = 128  # of a scale, one more than e8m0 has, since the elements are doubled
_NAN = 255


@dataclass(frozen=True)
class Blocks:
    """Rows ``[n, k]`` in blocks of 32.

    Attributes:
        codes: uint8 ``[n, k]``, bits of e2m1, 0 to 15.
        scales: uint8 ``[n, k / 32]``, e8m0: 127 means 1.
    """

    codes: NDArray[np.uint8]
    scales: NDArray[np.uint8]

    def values(self) -> Float:
        """The rows as fp32, exactly."""
        doubled = E2M1_DOUBLED[self.codes].astype(np.float32)
        return np.ldexp(doubled, np.repeat(self.scales.astype(np.int32) - _BIAS, GROUP, axis=-1))

    def matrix(self, bias: Float | None = None) -> Matrix | None:
        """The matrix ``[n, k]`` with the same values, as integers times powers of two.

        Blocks of a row may lie up to 2^20 apart, more where their elements can be halved or doubled.

        Returns:
            None when a row is wider.
        """
        n, k = self.codes.shape
        doubled = E2M1_DOUBLED[self.codes].reshape(n, -1, GROUP)
        own = self.scales.astype(np.int32) - _BIAS
        exponents, base = _aligned(doubled, own)
        if exponents is None:
            return None
        integers = np.ldexp(doubled.astype(np.float32), (own - exponents)[:, :, None]).astype(np.int8).reshape(n, k)
        shifts = (exponents - base[:, None]).astype(np.uint8)
        row_scale = np.ldexp(np.float32(1), base)
        return Matrix(FP4, (n, k), None, integers, row_scale, shifts, bias, stored=MXFP4)


def _aligned(
    doubled: NDArray[np.int8], exponents: NDArray[np.int32]
) -> tuple[NDArray[np.int32] | None, NDArray[np.int32]]:
    """Exponents of blocks ``[n, blocks]`` that lie at most 2^20 apart in each row, and each row's least one.

    A block's own moves where its integers ``[n, blocks, 32]`` stay integers of the format when they are halved or
    doubled to make up for it; a block of zeros takes any.

    Returns:
        None for the exponents when some row has none.
    """
    top = np.abs(doubled.astype(np.int32)).max(axis=2)
    live = top > 0
    down = sum((live & (top << by <= FP4_MAX)).astype(np.int32) for by in (1, 2, 3))
    bits = np.bitwise_or.reduce(doubled.astype(np.int32), axis=2)
    up = sum((live & (bits % (1 << by) == 0)).astype(np.int32) for by in (1, 2, 3))
    far = np.int32(1 << 20)
    low = np.where(live, exponents - down, -far).max(axis=1)
    own = np.where(live, exponents, far).min(axis=1)
    high = np.where(live, exponents + up, far).min(axis=1)
    fits = np.where(live, exponents, -far).max(axis=1) - own <= FP4_SHIFT_MAX
    base = np.where(live.any(axis=1), np.where(fits, own, high), 0).astype(np.int32)
    if np.any(low - base > FP4_SHIFT_MAX):
        return None, base
    return np.where(live, np.clip(exponents, base[:, None], base[:, None] + FP4_SHIFT_MAX), base[:, None]), base


class StoredBlocks:
    """A tensor in a checkpoint, as two of bytes: blocks ``[..., k / 32, 16]`` and scales ``[..., k / 32]``.

    A byte holds two elements, the first in its low half.

    Attributes:
        shape: ``[..., k]``.
        in_order: rows can be read alone.
    """

    in_order = True

    def __init__(self, tensors: Tensors, blocks: str, scales: str) -> None:
        """Look at their shapes.

        Args:
            blocks, scales: names.

        Raises:
            BadInput: there are no scales, or the two do not belong together.
        """
        self._tensors, self._blocks, self._scales = tensors, blocks, scales
        if scales not in tensors or tensors.dtype(scales) not in ("U8", "F8_E8M0"):
            what = f"holds MXFP4 blocks, but there is no {shown(scales)} of bytes"
            raise BadInput(what, where=tensors.where(blocks), hint="they mean nothing without their scales")
        shape, count = tensors.shape(blocks), tensors.shape(scales)
        if len(count) < 2 or shape != (*count, _BLOCK_BYTES):
            what = (
                f"shape {format_shape(shape)}, expected {_BLOCK_BYTES} bytes for each of {format_shape(count)} scales"
            )
            raise BadInput(what, where=tensors.where(blocks))
        self.shape = (*count[:-1], count[-1] * GROUP)

    def rows(self, begin: int, end: int) -> Float:
        """As `lazy.Leaf.rows`."""
        return self.read(range(begin, end)).values()

    def read(self, rows: range) -> Blocks:
        """Return rows of the last axis, the leading axes taken as one; all between the first and the last are read.

        Raises:
            BadInput: unreadable, a scale that is no number, or elements beyond fp32.
        """
        scales = self._scales_of(rows)
        groups, (first, last) = scales.shape[1], _ends(rows)
        blocks = self._tensors.byte_rows(self._blocks, first * groups, last * groups)
        blocks = blocks.reshape(-1, groups, _BLOCK_BYTES)[:: rows.step]
        codes = np.stack([blocks & 15, blocks >> 4], axis=-1).reshape(len(rows), -1)
        top = np.abs(E2M1_DOUBLED[codes]).reshape(*scales.shape, GROUP).max(axis=-1)
        beyond = np.ldexp(top.astype(np.float64), scales.astype(np.int32) - _BIAS) > np.finfo(np.float32).max
        bad = int(np.count_nonzero(beyond | (scales == _NAN)))
        if bad:
            what = f"{bad} of {scales.size} blocks that were read are not finite in fp32"
            raise BadInput(what, where=self._tensors.where(self._scales))
        return Blocks(codes, scales)

    def matrix(self, rows: range, bias: Lazy | None = None) -> StoredMatrix:
        """Make a matrix of rows, of fp32 where one of them is wider than `Blocks.matrix` allows.

        Raises:
            BadInput: the scales are unreadable; where they say that a row may be too wide, as `read`.
        """
        scales = self._scales_of(rows).astype(np.int32)
        narrow = bool(np.all(scales.max(axis=1) - scales.min(axis=1) <= FP4_SHIFT_MAX))
        fits = narrow or self.read(rows).matrix() is not None
        if fits:
            return StoredMatrix(FP4, _MatrixRows(self, rows, bias, exact=True), stored=MXFP4)
        wide = f"{MXFP4} with blocks of a row too far apart"
        return StoredMatrix(F32, _MatrixRows(self, rows, bias, exact=False), stored=wide)

    def _scales_of(self, rows: range) -> NDArray[np.uint8]:
        return self._tensors.byte_rows(self._scales, *_ends(rows))[:: rows.step]


def _ends(rows: range) -> tuple[int, int]:
    """The first row, and that behind the last."""
    return (rows[0], rows[-1] + 1) if rows else (rows.start, rows.start)


@dataclass(frozen=True)
class _MatrixRows:
    """Rows of a matrix, as `graph.weights.Rows`."""

    stored: StoredBlocks
    chosen: range
    bias: Lazy | None
    exact: bool
    in_order: bool = True

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.chosen), self.stored.shape[-1]

    @property
    def has_bias(self) -> bool:
        return self.bias is not None

    def rows(self, begin: int, end: int) -> Matrix:
        blocks = self.stored.read(self.chosen[begin:end])
        bias = None if self.bias is None else self.bias.rows(begin, end)
        made = blocks.matrix(bias) if self.exact else None
        return made or Matrix(F32, blocks.codes.shape, dense=blocks.values(), bias=bias)

    def blocks(self, step: int) -> Iterator[Matrix]:
        for begin in range(0, len(self.chosen), step):
            yield self.rows(begin, min(begin + step, len(self.chosen)))
