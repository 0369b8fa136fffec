"""MXFP4: 4-bit floats in blocks of 32, each with a power of two, as GPT-OSS was released.

Source: OCP Microscaling Formats 1.0 (elements e2m1, scales e8m0), and transformers 5.24, `integrations/mxfp4.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colibri.errors import BadInput
from colibri.graph.float32 import Float
from colibri.graph.weights import E2M1_DOUBLED, FP4_MAX, FP4_SHIFT_MAX, GROUP, Matrix, WeightFormat

MXFP4 = "MXFP4"
BLOCK_BYTES = GROUP // 2
_BIAS = 128  # of a scale, one more than e8m0 has, since the elements are doubled
_NAN = 255


@dataclass(frozen=True)
class Blocks:
    """A tensor ``[..., k]`` whose last axis lies in blocks.

    Attributes:
        codes: uint8 ``[..., k]``, bits of e2m1, 0 to 15.
        scales: uint8 ``[..., k / 32]``, e8m0: 127 means 1.
    """

    codes: NDArray[np.uint8]
    scales: NDArray[np.uint8]

    def rows(self, which: tuple[int | slice, ...]) -> Blocks:
        """Some of them: an index of all axes but the last."""
        return Blocks(self.codes[which], self.scales[which])

    def values(self) -> Float:
        """The tensor as fp32, exactly."""
        doubled = E2M1_DOUBLED[self.codes].astype(np.float32)
        return np.ldexp(doubled, np.repeat(self.scales.astype(np.int32) - _BIAS, GROUP, axis=-1))

    def matrix(self, bias: Float | None = None) -> Matrix:
        """The matrix ``[n, k]`` with the same values, as integers times powers of two.

        Blocks of a row may lie up to 2^20 apart, more where their elements can be halved or doubled; a matrix with a
        wider row becomes fp32.
        """
        n, k = self.codes.shape
        doubled = E2M1_DOUBLED[self.codes].reshape(n, -1, GROUP)
        exponents, base = _aligned(doubled, self.scales.astype(np.int32) - _BIAS)
        if exponents is None:
            return Matrix(WeightFormat.F32, (n, k), dense=self.values(), bias=bias, stored=MXFP4)
        moved = self.scales.astype(np.int32) - _BIAS - exponents
        integers = np.ldexp(doubled.astype(np.float32), moved[:, :, None]).astype(np.int8)
        row_scale = np.ldexp(np.float32(1), base)
        shifts = (exponents - base[:, None]).astype(np.uint8)
        integers = integers.reshape(n, k)
        return Matrix(WeightFormat.FP4, (n, k), None, integers, row_scale, shifts, bias, stored=MXFP4)


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


def read_blocks(blocks: NDArray[np.uint8], scales: NDArray[np.uint8], where: str) -> Blocks:
    """Take two elements from each byte, the first from its low half.

    Args:
        blocks: ``[..., k / 32, 16]``.
        scales: ``[..., k / 32]``.
        where: file and tensor, for the error.

    Raises:
        BadInput: a scale that is no number, or elements beyond fp32.
    """
    codes = np.stack([blocks & 15, blocks >> 4], axis=-1).reshape(*blocks.shape[:-2], -1)
    top = np.abs(E2M1_DOUBLED[codes]).reshape(*scales.shape, GROUP).max(axis=-1)
    beyond = np.ldexp(top.astype(np.float64), scales.astype(np.int32) - _BIAS) > np.finfo(np.float32).max
    bad = int(np.count_nonzero(beyond | (scales == _NAN)))
    if bad:
        raise BadInput(f"{bad} of {scales.size} blocks are not finite in fp32", where=where)
    return Blocks(codes, scales)
