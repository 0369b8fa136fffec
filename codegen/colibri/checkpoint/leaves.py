"""Stored tensors as `lazy.Leaf`s: rows of the last axis, whose floats of 8 bits are multiplied by their scales."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from colibri.checkpoint.source import FP8, Tensors, format_shape
from colibri.errors import BadInput, shown

if TYPE_CHECKING:
    from colibri.graph.float32 import Float

SCALES = "_scale_inv"  # behind the name of a tensor of 8-bit floats


@dataclass(frozen=True)
class Plain:
    """A tensor of floats that mean what they say."""

    tensors: Tensors
    name: str

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents, outermost first."""
        return self.tensors.shape(self.name)

    @property
    def in_order(self) -> bool:
        """Whether a few rows can be read alone."""
        return self.tensors.has_rows(self.name)

    def rows(self, begin: int, end: int) -> Float:
        """As `lazy.Leaf.rows`."""
        return self.tensors.rows(self.name, begin, end)


@dataclass(frozen=True)
class Scaled:
    """8-bit floats times the scale of their block of the last two axes."""

    tensors: Tensors
    name: str
    block: tuple[int, int]

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents, outermost first."""
        return self.tensors.shape(self.name)

    @property
    def in_order(self) -> bool:
        """Whether a few rows can be read alone."""
        return self.tensors.has_rows(self.name)

    def rows(self, begin: int, end: int) -> Float:
        """As `lazy.Leaf.rows`."""
        import numpy as np

        values = self.tensors.rows(self.name, begin, end)
        if begin == end:
            return values
        height, (rows, columns) = self.shape[-2], self.block
        matrix, row = np.divmod(np.arange(begin, end), height)
        wanted = matrix * -(-height // rows) + row // rows
        first = int(wanted[0])
        scales = self.tensors.rows(f"{self.name}{SCALES}", first, int(wanted[-1]) + 1)[wanted - first]
        values *= np.repeat(scales, columns, axis=-1)[:, : self.shape[-1]]
        return values


def leaf(tensors: Tensors, name: str, block: tuple[int, int] | None) -> Plain | Scaled:
    """Return a tensor as a leaf.

    Args:
        block: rows and columns that share a scale, where 8-bit floats have them.

    Raises:
        BadInput: no float weight, or 8-bit floats without the scales that belong to them.
    """
    tensors.refuse_unless_floats(name)
    if tensors.dtype(name) != FP8:
        return Plain(tensors, name)
    scales, where, shape = f"{name}{SCALES}", tensors.where(name), tensors.shape(name)
    if block is None or scales not in tensors:
        lacks = "config.json has no quantization_config" if block is None else f"there is no {shown(scales)}"
        raise BadInput(f"holds 8-bit floats, but {lacks}", where=where, hint="they mean nothing without their scales")
    if len(shape) < 2:
        raise BadInput(f"holds 8-bit floats of {len(shape)} dimension, which have no blocks", where=where)
    rows, columns = block
    expected = (*shape[:-2], -(-shape[-2] // rows), -(-shape[-1] // columns))
    if tensors.shape(scales) != expected:
        found = format_shape(tensors.shape(scales))
        what = f"shape {found}, expected {format_shape(expected)}: a scale for each block of {rows} × {columns}"
        raise BadInput(what, where=tensors.where(scales))
    tensors.refuse_unless_floats(scales)
    return Scaled(tensors, name, block)
