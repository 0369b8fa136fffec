"""Values that are read when they are asked for are those of the array, and no others are read."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest

from colibri.checkpoint.lazy import Lazy, dense_matrix, stored


@dataclass
class Recorded:
    """A tensor that remembers which of its rows were read."""

    array: np.ndarray
    in_order: bool = True
    spans: list[tuple[int, int]] = field(default_factory=list)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    def rows(self, begin: int, end: int) -> np.ndarray:
        self.spans.append((begin, end))
        flat = self.array.reshape(-1, self.shape[-1]) if self.array.ndim > 1 else self.array.reshape(-1)
        return flat[begin:end].copy()


FUSED = np.arange(4 * 6 * 8, dtype=np.float32).reshape(4, 6, 8)
ORDER = np.array([5, 0, 1, 2, 4, 3])
VIEWS: list[Callable[[Lazy | np.ndarray], Lazy | np.ndarray]] = [
    lambda t: t,
    lambda t: t[2],
    lambda t: t[-1],
    lambda t: t[1, :3],
    lambda t: t[3, 3:],
    lambda t: t[2, ORDER],
    lambda t: t[1, :, 0::2],
    lambda t: t[1, :, 5:].T,
    lambda t: t[1, :, 1::2].T,
    lambda t: t[0].T,
    lambda t: t[1:3],
    lambda t: t.reshape(24, 8),
    lambda t: t.reshape(2, 12, 8)[:, :5],
    lambda t: t.reshape(24, 8)[::3],
    lambda t: t[:, 1:4].reshape(12, 8),
    lambda t: t[:, :2].transpose(0, 2, 1).reshape(32, 2),
    lambda t: t.reshape(4, 48),
    lambda t: t[..., 0],
    lambda t: t[1, :, 0::2][:, 1:],
    lambda t: t[0, 2],
    lambda t: t[0, 2, 1:4],
]


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("number", range(len(VIEWS)))
def test_views_are_those_of_numpy(number: int, in_order: bool) -> None:
    lazy, plain = VIEWS[number](stored(Recorded(FUSED, in_order))), VIEWS[number](FUSED)
    assert isinstance(lazy, Lazy) and isinstance(plain, np.ndarray)
    assert lazy.shape == plain.shape
    found = lazy.read()
    assert found.flags.c_contiguous and np.array_equal(found, plain)
    for begin, end in itertools.combinations(range(len(plain) + 1), 2):
        assert np.array_equal(lazy.rows(begin, end), plain[begin:end])
    for step in (1, 2, 5, 100):
        assert np.array_equal(np.concatenate(list(lazy.blocks(step))), plain)


def test_only_the_rows_that_are_wanted_are_read() -> None:
    leaf = Recorded(FUSED)
    stored(leaf)[2, :3].rows(1, 3)
    assert leaf.spans == [(13, 15)]
    leaf.spans.clear()
    stored(leaf)[1, ORDER].rows(0, 4)
    assert leaf.spans == [(11, 12), (6, 9)]


def test_what_is_read_in_one_piece_is_read_once_for_all_blocks() -> None:
    for leaf, lazy in ((leaf, stored(leaf)[1].T) for leaf in (Recorded(FUSED), Recorded(FUSED, in_order=False))):
        assert not lazy.in_order
        assert sum(len(block) for block in lazy.blocks(2)) == 8
        assert leaf.spans == [(6, 12)]


def test_vectors_and_scalars() -> None:
    vector = stored(Recorded(np.arange(5, dtype=np.float32)))
    assert vector[ORDER[1:4]].read().tolist() == [0, 1, 2] and vector.rows(1, 3).tolist() == [1, 2]
    scalar = stored(Recorded(np.array(7, np.float32)))
    assert scalar.shape == () and scalar.read() == 7


def test_a_check_sees_every_row_with_its_number() -> None:
    seen: list[tuple[int, int]] = []
    lazy = stored(Recorded(FUSED))[0].checked(lambda values, begin: seen.append((begin, len(values))))
    list(lazy.blocks(4))
    lazy.rows(2, 3)
    assert seen == [(0, 4), (4, 2), (2, 1)]


def test_a_matrix_of_rows_is_the_matrix() -> None:
    matrix = dense_matrix(stored(Recorded(FUSED))[1], stored(Recorded(FUSED))[0, 1, :6], parts=2)
    whole = matrix.load()
    assert (whole.shape, whole.parts, matrix.has_bias, matrix.parameters) == ((6, 8), 2, True, 54)
    assert whole.dense is not None and whole.bias is not None
    assert np.array_equal(whole.dense, FUSED[1]) and np.array_equal(whole.bias, FUSED[0, 1, :6])
    blocks = list(matrix.blocks(4))
    assert [block.shape for block in blocks] == [(4, 8), (2, 8)]
    assert np.array_equal(np.concatenate([block.bias for block in blocks if block.bias is not None]), whole.bias)
