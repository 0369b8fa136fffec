"""A stored tensor with its rows in another order: some forms keep the halves of a head's pairs side by side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colibri.checkpoint.source import Stored


@dataclass(frozen=True)
class Reordered:
    """Attributes:
    of: the tensor as it is stored.
    order: row of it that stands at each place.
    """

    of: Stored
    order: NDArray[np.intp]

    @property
    def dtype(self) -> str:
        """That of the tensor."""
        return self.of.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the tensor."""
        return self.of.shape

    @property
    def nbytes(self) -> int:
        """Bytes in the file."""
        return self.of.nbytes

    @property
    def where(self) -> str:
        """Name of the file."""
        return self.of.where

    @property
    def in_order(self) -> bool:
        """As the tensor."""
        return self.of.in_order

    def rows(self, begin: int, end: int) -> NDArray[np.generic]:
        """As `Stored.rows`; what lies between the first and the last of these rows is read too."""
        picked = self.order[begin:end]
        if not len(picked):
            return self.of.rows(0, 0)
        first = int(picked.min())
        return np.ascontiguousarray(self.of.rows(first, int(picked.max()) + 1)[picked - first])


def pairs_to_halves(heads: int, head_dim: int) -> NDArray[np.intp]:
    """Return the order that puts pair i of each head, stored at 2i and 2i + 1, at i and i + head_dim / 2."""
    rows = np.arange(heads * head_dim, dtype=np.intp)
    return rows.reshape(heads, head_dim // 2, 2).transpose(0, 2, 1).reshape(-1)
