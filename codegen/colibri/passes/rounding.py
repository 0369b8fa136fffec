"""Round many fp32 weights to integers: the result of a division in fp64, at the price of a product in fp32.

All of it works in fp32 on blocks that a cache holds. A quotient that comes so near to the middle between two integers
that fp32 cannot tell the side is divided again in fp64: a few of a million.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_ROUND = np.float32(1.5 * 2**23)  # adding it leaves the nearest integer, ties to even, for |x| < 2^22
# The reciprocal and the product err by 2^-24 each: of quotients up to 128 together by less than 2^-15.
_SURE = np.float32(0.5 - 2.0**-15)
_LEAST_SCALE = 2.0**-100  # whose reciprocal fp32 holds
_QUAD = 4  # floats that are moved as one


def round_to_integers(
    dense: NDArray[np.float32], scale: NDArray[np.float64], live: NDArray[np.bool_], least: int, most: int
) -> NDArray[np.int8]:
    """Return ``dense / scale``, rounded to nearest, ties to even, and clipped; zeros where it is not live.

    Args:
        dense: ``[n, k]``; no quotient is beyond 128.
        scale: ``[n, g]``, not zero; each is that of ``k / g`` columns.
        live: ``[n, g]``.
        least, most: bounds of the integers.
    """
    width = dense.shape[1] // scale.shape[1]
    if live.any() and np.abs(scale[live]).min() < _LEAST_SCALE:
        exact = np.rint(dense / np.repeat(scale, width, axis=1))
        return np.where(np.repeat(live, width, axis=1), np.clip(exact, least, most), 0.0).astype(np.int8)
    inverse = np.where(live, 1.0 / scale, 0.0).astype(np.float32)
    quotient = dense * (inverse if scale.shape[1] == 1 else np.repeat(inverse, width, axis=1))
    rounded = quotient + _ROUND
    rounded -= _ROUND
    quotient -= rounded
    doubtful = np.flatnonzero(np.abs(quotient, out=quotient) > _SURE)
    if doubtful.size:
        divisor = scale[doubtful // dense.shape[1], doubtful % dense.shape[1] // width]
        rounded.reshape(-1)[doubtful] = np.rint(dense.reshape(-1)[doubtful] / divisor)
    return np.clip(rounded, least, most, out=rounded).astype(np.int8)


def group_extremes(dense: NDArray[np.float32], group: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the largest and the smallest of each group of columns, ``[n, k / group]`` each.

    Args:
        dense: ``[n, k]``, C-contiguous; k is a multiple of the group, which is one of 4.
    """
    n, k = dense.shape
    # Groups of a few values are slow to reduce one by one: so the first four values of all groups, the next four, …
    quads = dense.view(np.complex128).reshape(n * k // group, group // _QUAD)
    apart = np.ascontiguousarray(quads.T).view(np.float32)
    return _across(np.maximum, apart).reshape(n, k // group), _across(np.minimum, apart).reshape(n, k // group)


def _across(extreme: np.ufunc, apart: NDArray[np.float32]) -> NDArray[np.float32]:
    found: NDArray[np.float32] = extreme.reduce(apart, axis=0)
    first, second, third, fourth = (found[lane::_QUAD] for lane in range(_QUAD))
    return np.asarray(extreme(extreme(first, second), extreme(third, fourth)), np.float32)
