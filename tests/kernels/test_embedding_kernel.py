"""The embedding kernel on every packing that a dot kernel may ask for (a tied matrix has the head's)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from dot_programs import BOARDS, FORMS, Dot
from kernel_library import Kernels, reference_run, same_bits
from small_models import integer_matrix

from colibri.graph.coding import F32, FP4, W4, Coding, parse_coding
from colibri.graph.ops import Embedding
from colibri.graph.weights import Matrix
from colibri.passes.grid import round_matrix
from colibri.passes.kernels import Tile
from colibri.passes.pack import matrix_layout, pack_matrix

F = np.float32
WORDS = "f32 f16 w8 w4 w2 w3g64 w5 w6g128z w4z w2g64z w4+o5 w4g64 w4g128+o5 w3z+o10 w6+o50"
FORMATS = [*map(parse_coding, WORDS.split()), FP4]
SHAPES = [(1, 32), (3, 13), (5, 32), (9, 100), (65, 192), (17, 33)]


def tiles(form: Coding) -> list[Tile]:
    """Those of all folders, and some that no kernel has yet."""
    bare = replace(form, outliers=0)
    found = {Dot(folder, (bare,), kind[1]).tile for folder in BOARDS for kind in FORMS if bare in kind[0]}
    more = [(1, 32), (16, 32)] if form.format.grouped else [(1, 1), (3, 1), (16, 4), (2, 24)]
    return sorted(found | {Tile(*tile) for tile in more}, key=lambda tile: (tile.rows, tile.cols, tile.order))


def table(form: Coding, n: int, k: int) -> Matrix:
    """A random matrix over the format's range."""
    rng = np.random.default_rng(n)
    if form.format.floating:
        return round_matrix(Matrix(F32, (n, k), rng.standard_normal((n, k)).astype(F)), form)
    return integer_matrix(form, n, k, rng)


@pytest.mark.parametrize(
    ("form", "tile"),
    [
        pytest.param(form, tile, id=f"{form}-{tile.rows}x{tile.cols}{tile.order}")
        for form in FORMATS
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
        parts, tile_of = [packed[layout.data :]], [tile.rows, tile.cols, layout.padded_k]
        if form.format.grouped:
            parts.append(packed[layout.group_scale :])
        kernel = str(form)
        if tile.order == "plus128":
            kernel = tile.order
        elif tile.order:
            kernel, tile_of = tile.order, [layout.padded_k]
            if kernel == "lanes":
                tile_of.insert(0, tile.rows)
            if form.format.scaled:
                tile_of.append(form.group)
                places = layout.tail, layout.tail_columns
                parts += [None if at < 0 else packed[at:] for at in places]
                parts.append(layout.tail_count)
        elif form.format.scaled and form != W4:
            kernel, tile_of = "planes", [tile.rows, layout.padded_k, form.format.bits, form.group]
            places = layout.zeros, layout.tail, layout.tail_columns
            parts += [None if at < 0 else packed[at:] for at in places]
            parts.append(layout.tail_count)
        if layout.row_scale >= 0:
            parts.append(packed[layout.row_scale :])
        for token in range(n):
            got = np.full(k + 1, np.nan, F)
            kernels.call(f"embedding_{kernel}", got, *parts, token, k, *tile_of)
            assert same_bits(got[:k], run.floats["out"][token]) and np.isnan(got[k])
