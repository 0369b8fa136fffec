"""The embedding kernel on every packing that a dot kernel may ask for (a tied matrix has the head's)."""

from __future__ import annotations

import numpy as np
import pytest
from dot_programs import BOARDS, FORMS, Dot
from kernel_library import Kernels, reference_run, same_bits
from small_models import integer_matrix

from colibri.graph.coding import F32, FP4, W4, W8, Coding
from colibri.graph.ops import Embedding
from colibri.graph.weights import Matrix
from colibri.passes.kernels import Tile
from colibri.passes.pack import matrix_layout, pack_matrix

F = np.float32
FORMATS = F32, W8, W4, FP4
SHAPES = [(1, 32), (3, 13), (5, 32), (9, 100), (65, 192), (17, 33)]


def tiles(form: Coding) -> list[Tile]:
    """Those of all folders, and some that no kernel has yet."""
    found = {Dot(folder, *kind).tile for folder in BOARDS for kind in FORMS if kind[0] == form}
    more = [(1, 32), (16, 32)] if form.format.grouped else [(1, 1), (3, 1), (16, 4), (2, 24)]
    return sorted(found | {Tile(*tile) for tile in more}, key=lambda tile: (tile.rows, tile.cols))


def table(form: Coding, n: int, k: int) -> Matrix:
    """A random matrix over the format's range."""
    rng = np.random.default_rng(n)
    if form == F32:
        return Matrix(form, (n, k), rng.standard_normal((n, k)).astype(F))
    return integer_matrix(form, n, k, rng)


@pytest.mark.parametrize(
    ("form", "tile"),
    [
        pytest.param(form, tile, id=f"{form}-{tile.rows}x{tile.cols}")
        for form in (F32, W8, W4, FP4)
        for tile in tiles(form)
    ],
)
def test_embedding(kernels: Kernels, form: Coding, tile: Tile) -> None:
    for n, k in SHAPES:
        matrix = table(form, n, k)
        layout = matrix_layout(form, n, k, False, tile)
        packed = np.frombuffer(pack_matrix(matrix, layout), np.uint8)
        run = reference_run({"table": matrix}, tokens=np.arange(n, dtype=np.int32))
        Embedding(None, "", "tokens", "out", "table", n, k).reference(run)
        starts = [at for at in (layout.data, layout.group_scale, layout.row_scale) if at >= 0]
        parts = [packed[at:] for at in starts]
        for token in range(n):
            got = np.full(k + 1, np.nan, F)
            kernels.call(f"embedding_{form}", got, *parts, token, k, tile.rows, tile.cols, layout.padded_k)
            assert same_bits(got[:k], run.floats["out"][token]) and np.isnan(got[k])
