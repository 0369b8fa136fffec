"""How a matrix is stored: a number format, groups of columns that share a factor, a zero point, a tail of columns."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from colibri.errors import UsageError, shown

GROUP = 32
GROUPS = (32, 64, 128)
FACTOR_MAX = 127
ZERO_MAX = 255
TAIL_MAX = 127
TAIL_COLUMNS_MAX = 1 << 16  # of a matrix with a tail, whose columns are numbers of 16 bits
FP4_SHIFT_MAX = 20  # a sum over 21,846 columns with 16-bit activations then stays below 2^53

_BITS = {"f32": 32, "f16": 16, "w8": 8, "w6": 6, "w5": 5, "w4": 4, "w3": 3, "w2": 2, "fp4": 4}
_FORM = re.compile(r"(f32|f16|w[0-9]{1,3})(?:g([0-9]{1,6}))?(z)?(?:\+o([0-9]{1,6}))?", re.ASCII)
_HINT = "for example w4, w8, f16, w3g64, w2z, w4+o5 or w3g64z+o2"


class WeightFormat(StrEnum):
    """The numbers of a matrix.

    Floats of 32 or 16 bits; integers of 8 bits with a scale a row; integers of 2 to 6 bits with a scale a row and a
    factor a group of columns; 4-bit floats with a scale a row and a power of two a group of 32 columns.
    """

    F32 = "f32"
    F16 = "f16"
    W8 = "w8"
    W6 = "w6"
    W5 = "w5"
    W4 = "w4"
    W3 = "w3"
    W2 = "w2"
    FP4 = "fp4"

    @property
    def bits(self) -> int:
        """Of a weight, without what its row and its group have."""
        return _BITS[self.value]

    @property
    def floating(self) -> bool:
        """Whether weights are floats that are multiplied with floats."""
        return self in (WeightFormat.F32, WeightFormat.F16)

    @property
    def scaled(self) -> bool:
        """Whether weights are integers of 2 to 6 bits, whose groups have a factor each."""
        return self.value[0] == "w" and self is not WeightFormat.W8

    @property
    def grouped(self) -> bool:
        """Whether groups of columns have a byte each."""
        return self.scaled or self is WeightFormat.FP4


@dataclass(frozen=True, order=True)
class Coding:
    """How a matrix is stored.

    Attributes:
        group: columns that share a factor (formats of 2 to 6 bits): 32, 64 or 128.
        zero: whether each group has a zero point: its integers stand for a range that need not have 0 in its middle.
        outliers: so many per cent of the columns have a second, finer term each: an 8-bit tail.
    """

    format: WeightFormat
    group: int = GROUP
    zero: bool = False
    outliers: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot be meant: UsageError."""
        if self.group not in GROUPS:
            raise UsageError(f"groups of {self.group} columns", where=f"coding '{self}'", hint="take 32, 64 or 128")
        if not 0 <= self.outliers <= 50:
            what = f"a tail of {self.outliers} per cent of the columns"
            raise UsageError(what, where=f"coding '{self}'", hint="take 1 to 50")
        if not self.format.scaled and (self.group, self.zero, self.outliers) != (GROUP, False, 0):
            what = f"{self.format} has no groups with factors, so no group size, zero point or tail"
            raise UsageError(what, where=f"coding '{self}'", hint=f"say {self.format} alone, or take w2 to w6")

    def __str__(self) -> str:
        """The text that `parse_coding` reads: the format, then what differs from the usual."""
        group = "" if self.group == GROUP else f"g{self.group}"
        tail = f"+o{self.outliers}" if self.outliers else ""
        return f"{self.format}{group}{'z' if self.zero else ''}{tail}"

    @property
    def plain(self) -> bool:
        """Whether groups, if there are any, have 32 columns and nothing beside their factor."""
        return (self.group, self.zero, self.outliers) == (GROUP, False, 0)

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the largest integer of a weight; with a zero point none is negative."""
        if self.format is WeightFormat.FP4:
            return -12, 12  # twice the floats
        if self.format is WeightFormat.W8:
            return -127, 127
        span = 1 << self.format.bits
        return (0, span - 1) if self.zero else (-span // 2, span // 2 - 1)

    @property
    def zero_shift(self) -> int:
        """A zero point of z stands at z / 2^shift of the integers, so that a byte reaches over their range."""
        return 8 - self.format.bits

    def groups(self, columns: int) -> int:
        """Groups of a row; the last one may have fewer columns."""
        return -(-columns // self.group) if self.format.grouped else 0

    def tail(self, columns: int) -> int:
        """Columns in the tail: so many per cent, rounded up."""
        return -(-columns * self.outliers // 100)

    def largest_sum(self, columns: int) -> int:
        """The largest magnitude of a row's sum with activations of 1, whatever the bytes of the weights are."""
        low, high = self.limits
        if self.format is WeightFormat.FP4:
            return (high << FP4_SHIFT_MAX) * columns
        if self.format is WeightFormat.W8:
            return high * columns
        reach = max(high * FACTOR_MAX, FACTOR_MAX * ZERO_MAX >> self.zero_shift) if self.zero else -low * FACTOR_MAX
        return reach * columns + TAIL_MAX * self.tail(columns)

    def weight_bits(self, rows: int, columns: int) -> float:
        """Bits that a weight of such a matrix costs, with all that belongs to it (bias and padding excluded)."""
        bits = self.format.bits * columns
        if self.format.grouped:
            bits += 8 * self.groups(columns) * (2 if self.zero else 1)
        tail = self.tail(columns)
        own = 16 if self.format.grouped else 0 if self.format.floating else 32
        return (bits + own + 8 * tail + 16 * tail / rows) / columns


F32 = Coding(WeightFormat.F32)
W8 = Coding(WeightFormat.W8)
W4 = Coding(WeightFormat.W4)
FP4 = Coding(WeightFormat.FP4)


def parse_coding(text: str) -> Coding:
    """The coding that a word means: ``w4``, ``w3g64z+o2``, ``f16``.

    Raises:
        UsageError: it means none.
    """
    where = f"coding '{shown(text)}'"
    match = _FORM.fullmatch(text)
    if match is None:
        raise UsageError("is none", where=where, hint=_HINT)
    form, group, zero, outliers = match.groups()
    if form not in set(WeightFormat):
        raise UsageError(f"there are no weights of {form[1:]} bits", where=where, hint="take w8, w6, w5, w4, w3 or w2")
    if outliers is not None and int(outliers) == 0:
        raise UsageError("a tail of 0 per cent of the columns", where=where, hint="leave '+o0' away")
    return Coding(WeightFormat(form), int(group or GROUP), zero is not None, int(outliers or 0))
