"""Weights as the numpy reference reads them: unpacked, so that no packing error is shared with the C."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colibri.graph.float32 import Float

GROUP = 32
W8_MAX = 127
W4_MIN, W4_MAX = -8, 7
GROUP_SCALE_MAX = 255
# Twice the values of the 4-bit float e2m1 (sign, 2 bits of exponent, 1 of mantissa), by its bits: all are integers.
E2M1_DOUBLED = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], np.int8)
FP4_MAX = 12
FP4_SHIFT_MAX = 20  # a sum over 21,846 columns with 16-bit activations then stays below 2^53


class WeightFormat(StrEnum):
    """How a matrix is stored.

    fp32; 8 bits with a scale a row; 4 bits with a scale a row and a factor a group of 32 columns; 4-bit floats with a
    scale a row and a power of two a group of 32.
    """

    F32 = "f32"
    W8 = "w8"
    W4 = "w4"
    FP4 = "fp4"

    @property
    def grouped(self) -> bool:
        """Whether groups of 32 columns have a byte each."""
        return self in (WeightFormat.W4, WeightFormat.FP4)


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
    """A weight matrix ``[n, k]`` in one of the formats.

    Attributes:
        format: which of the other fields are set.
        shape: ``(n, k)``.
        dense: fp32 ``[n, k]`` (F32 only).
        integers: int8 ``[n, k]``; W8 in -127..127, W4 in -8..7, FP4 of `E2M1_DOUBLED`.
        row_scale: fp32 ``[n]``.
        group_scale: uint8 ``[n, ceil(k / 32)]``; W4: a factor, FP4: the exponent of a power of two, at most 20.
        bias: fp32 ``[n]`` or None.
        parts: matrices of ``n / parts`` rows that stand below each other and are packed one by one.
        stored: the block format that the checkpoint has the weights in, for the user; empty for plain floats.
    """

    format: WeightFormat
    shape: tuple[int, int]
    dense: Float | None = None
    integers: NDArray[np.int8] | None = None
    row_scale: Float | None = None
    group_scale: NDArray[np.uint8] | None = None
    bias: Float | None = None
    parts: int = 1
    stored: str = ""

    @cached_property
    def split(self) -> tuple[Matrix, ...]:
        """The parts as matrices of their own."""
        n, k = self.shape[0] // self.parts, self.shape[1]

        def rows(values: NDArray[Any] | None, part: int) -> NDArray[Any] | None:
            return None if values is None else values[part * n : (part + 1) * n]

        return tuple(
            Matrix(
                self.format,
                (n, k),
                dense=rows(self.dense, part),
                integers=rows(self.integers, part),
                row_scale=rows(self.row_scale, part),
                group_scale=rows(self.group_scale, part),
                bias=rows(self.bias, part),
                stored=self.stored,
            )
            for part in range(self.parts)
        )

    @property
    def parameters(self) -> int:
        """Number of weights, the bias included."""
        return self.shape[0] * self.shape[1] + (0 if self.bias is None else self.shape[0])

    @cached_property
    def combined(self) -> NDArray[np.float64]:
        """Integers times what their group has, ``[n, k]`` in float64: its products with int16 are exact there."""
        assert self.integers is not None
        wide = self.integers.astype(np.int32)  # as floats, a scale of 0 would make negative zeros
        if self.group_scale is not None:
            scales = self.group_scale.astype(np.int32)
            factors = scales if self.format is WeightFormat.W4 else 1 << scales
            wide *= np.repeat(factors, GROUP, axis=1)[:, : self.shape[1]]
        return wide.astype(np.float64)

    @cached_property
    def values(self) -> Float:
        """The weights as fp32 ``[n, k]``: rounded once where they are not fp32, which of FP4 loses nothing."""
        if self.dense is not None:
            return self.dense
        assert self.row_scale is not None
        return (self.combined * self.row_scale[:, None].astype(np.float64)).astype(np.float32)


Weight = Vector | Matrix
