"""Packed bytes, read back by the layout that `kernels.toml` describes, are the matrix."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import ORACLE, integer_matrix, load_graph, sensor

from colibri.graph.coding import F32, FP4, W4, W8, Coding, parse_coding
from colibri.graph.graph import BufferKind
from colibri.graph.ops import Embedding
from colibri.graph.scheme import SCHEMES, Scheme
from colibri.graph.weights import E2M1_DOUBLED, Matrix, Vector
from colibri.passes.grid import round_matrix
from colibri.passes.kernels import KernelSet, Tile
from colibri.passes.pack import ALIGN, MatrixLayout, Order, matrix_layout, pack_matrix, pack_vector, plan_layouts

CODINGS = [F32, *map(parse_coding, ("f16", "w8", "w6", "w5", "w4", "w3", "w2")), FP4]
CODINGS += [parse_coding(word) for word in ("w4g64", "w3z", "w6g128z+o2", "w4+o5", "w2g64z+o10", "w5+o50")]


def random_matrix(coding: Coding, n: int, k: int, bias: bool, seed: int = 0) -> Matrix:
    rng = np.random.default_rng(seed)
    if not coding.format.floating:
        return integer_matrix(coding, n, k, rng, bias)
    dense = rng.standard_normal((n, k)).astype(np.float32)
    biases = rng.standard_normal(n).astype(np.float32) if bias else None
    return round_matrix(Matrix(F32, (n, k), dense=dense, bias=biases), coding)


def element(raw: bytes, layout: MatrixLayout, row: int, column: int) -> float:
    """The weight at (row, column), found by index arithmetic alone."""
    form, rows, cols = layout.coding.format, layout.tile_rows, layout.tile_cols
    tile = row // rows * (layout.padded_k // cols) + column // cols
    inside = row % rows * cols + column % cols
    if layout.order == Order.PAIRS:
        word = layout.data + 4 * (tile * cols + column % cols // 2 * 2 + row % 4 // 2)
        both = int(np.frombuffer(raw, "<i2", 2, word)[column % 2])
        first = (both & 255 ^ 128) - 128
        return (both - first) // 256 if row % 2 else first
    if layout.order == Order.QUADS:
        half = layout.data + 2 * (tile * cols + column % cols)
        bits = int(np.frombuffer(raw, "<u2", 1, half)[0]) >> 4 * (row % 4) & 15
        return (bits ^ 8) - 8 if row % 4 == 3 else bits - 8
    if layout.order == Order.LANES:
        at = column % 16 // 4 * rows * 4 + row % rows * 4 + column % 4
        byte = raw[layout.data + tile * rows * cols // 2 + at]
        return (byte >> 4 if column & 16 else byte & 15) - 8
    if layout.order == Order.PLUS128:
        return float(raw[layout.data + tile * rows * cols + inside]) - 128
    if not form.grouped:
        size, kind = {"f32": (4, "<f4"), "f16": (2, "<f2"), "w8": (1, "i1")}[form]
        return float(np.frombuffer(raw, kind, 1, layout.data + size * (tile * rows * cols + inside))[0])
    value, done, start = 0, 0, layout.data + tile * rows * cols * form.bits // 8
    for bits in {2: [2], 3: [2, 1], 4: [4], 5: [4, 1], 6: [4, 2]}[form.bits]:
        each = 32 * bits // 8
        byte = raw[start + inside // 32 * each + inside % each]
        value |= (byte >> inside % 32 // each * bits & (1 << bits) - 1) << done
        start, done = start + rows * cols * bits // 8, done + bits
    return float(E2M1_DOUBLED[value] if layout.coding == FP4 else value + layout.coding.limits[0])


def unpack(raw: bytes, layout: MatrixLayout, n: int, k: int) -> np.ndarray:
    return np.array([[element(raw, layout, row, column) for column in range(k)] for row in range(n)])


def check_round_trip(matrix: Matrix, tile: Tile) -> None:
    n, k = matrix.shape
    layout = matrix_layout(matrix.coding, n, k, matrix.bias is not None, tile)
    raw = pack_matrix(matrix, layout)
    assert len(raw) == layout.bytes
    source = matrix.dense if matrix.integers is None else matrix.integers
    assert source is not None and np.array_equal(unpack(raw, layout, n, k), source)
    # what pads the last rows and columns is zero
    whole = unpack(raw, layout, layout.padded_n, layout.padded_k)
    if not matrix.format.grouped or (n, k) == (layout.padded_n, layout.padded_k):
        assert not whole[n:].any() and not whole[:, k:].any()
    if matrix.row_scale is not None:
        if matrix.format.grouped:
            upper = np.frombuffer(raw, "<u2", layout.padded_n, layout.row_scale)
            scales = (upper.astype(np.uint32) << 16).view(np.float32)
        else:
            scales = np.frombuffer(raw, "<f4", layout.padded_n, layout.row_scale)
        assert np.array_equal(scales[:n], matrix.row_scale) and not scales[n:].any()
    if matrix.bias is not None:
        biases = np.frombuffer(raw, "<f4", layout.padded_n, layout.bias)
        assert np.array_equal(biases[:n], matrix.bias) and not biases[n:].any()
    for values, start, columns in (
        (matrix.group_scale, layout.group_scale, matrix.coding.groups(layout.padded_k)),
        (matrix.zeros, layout.zeros, matrix.coding.groups(layout.padded_k)),
        (matrix.tail, layout.tail, matrix.coding.tail(k)),
    ):
        assert (values is None) == (start < 0)
        if values is not None:
            packed = np.frombuffer(raw, values.dtype, layout.padded_n * columns, start)
            for row, column in np.ndindex(*values.shape):
                at = row // tile.rows * columns * tile.rows + column * tile.rows + row % tile.rows
                assert packed[at] == values[row, column]
    if matrix.tail_columns is not None:
        packed = np.frombuffer(raw, "<u2", len(matrix.tail_columns), layout.tail_columns)
        assert np.array_equal(packed, matrix.tail_columns)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", [(1, 1), (3, 32), (5, 33), (16, 64), (17, 100), (2, 130)])
@pytest.mark.parametrize("tile", [Tile(1, 32), Tile(4, 32), Tile(16, 32), Tile(8, 64)])
@pytest.mark.parametrize("coding", CODINGS, ids=str)
def test_unpack_is_the_inverse(coding: Coding, tile: Tile, shape: tuple[int, int], bias: bool) -> None:
    check_round_trip(random_matrix(coding, *shape, bias), tile)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", [(1, 1), (3, 32), (5, 33), (16, 64), (17, 100), (2, 130)])
@pytest.mark.parametrize(
    ("coding", "tile"),
    [
        (W8, Tile(4, 8, "pairs")),
        (W4, Tile(4, 32, "quads")),
        (W8, Tile(8, 1, "plus128")),
        (W8, Tile(4, 2, "plus128")),
        (W4, Tile(8, 32, "lanes")),
        (W4, Tile(16, 32, "lanes")),
    ],
    ids=str,
)
def test_unpack_is_the_inverse_in_every_order(coding: Coding, tile: Tile, shape: tuple[int, int], bias: bool) -> None:
    check_round_trip(random_matrix(coding, *shape, bias), tile)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([F32, W8]),
    st.integers(1, 20),
    st.integers(1, 40),
    st.sampled_from([1, 2, 4, 8, 16]),
    st.sampled_from([1, 2, 4, 8, 16]),
    st.booleans(),
)
def test_unpack_is_the_inverse_for_any_tile(coding: Coding, n: int, k: int, rows: int, cols: int, bias: bool) -> None:
    check_round_trip(random_matrix(coding, n, k, bias), Tile(rows, cols))


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(CODINGS),
    st.integers(1, 200),
    st.integers(1, 200),
    st.sampled_from([Tile(1, 32), Tile(4, 32), Tile(16, 64)]),
    st.booleans(),
)
def test_parts_are_aligned_and_do_not_overlap(coding: Coding, n: int, k: int, tile: Tile, has_bias: bool) -> None:
    layout = matrix_layout(coding, n, k, has_bias, tile)
    assert layout.padded_n % tile.rows == 0 and 0 <= layout.padded_n - n < tile.rows
    assert layout.padded_k % tile.cols == 0 and 0 <= layout.padded_k - k < tile.cols
    groups = layout.padded_n * -(-layout.padded_k // coding.group)
    sizes = {
        layout.row_scale: (2 if coding.format.grouped else 4) * layout.padded_n,
        layout.bias: 4 * layout.padded_n,
        layout.group_scale: groups,
        layout.zeros: groups,
        layout.tail_columns: 2 * coding.tail(k),
        layout.tail: layout.padded_n * coding.tail(k),
        layout.data: layout.padded_n * layout.padded_k * coding.format.bits // 8,
    }
    assert (layout.row_scale == -1) is coding.format.floating
    assert (layout.zeros == -1) is not coding.zero
    assert {layout.tail == -1, layout.tail_columns == -1} == {coding.outliers == 0}
    assert (layout.bias == -1) is not has_bias
    assert (layout.group_scale == -1) is not coding.format.grouped
    end = 0
    for start, size in sorted((start, size) for start, size in sizes.items() if start >= 0):
        assert start % ALIGN == 0 and end <= start < end + ALIGN
        end = start + size
    assert layout.bytes % ALIGN == 0 and end <= layout.bytes < end + ALIGN


def test_4_bit_weights_cost_four_and_a_quarter_bits() -> None:
    layout = matrix_layout(W4, 1024, 4096, False, Tile(1, 32))
    assert (layout.bytes - 2 * 1024) * 8 / (1024 * 4096) == 4.25


def test_vectors_are_fp32_padded_to_16_bytes() -> None:
    raw = pack_vector(Vector(np.arange(5, dtype=np.float32)))
    assert raw == np.array([0, 1, 2, 3, 4, 0, 0, 0], "<f4").tobytes()


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("path", [ORACLE / "mixtral-base", sensor("top1-e3-tiny")], ids=lambda path: path.name)
def test_every_matrix_of_a_model_gets_the_layout_of_the_kernel_that_reads_it(path, scheme: Scheme) -> None:
    graph, kernels = load_graph(path, scheme), KernelSet(("portable",))
    layouts = plan_layouts(graph, kernels)
    matrices = {name for name, weight in graph.weights.items() if not isinstance(weight, Vector)}
    assert set(layouts.matrices) == matrices
    read = {product.weight: product for op in graph.ops for product in op.products()}
    tables = {op.table for op in graph.ops if isinstance(op, Embedding)}
    assert set(read) | tables == matrices
    for name, product in read.items():
        weight = graph.matrix(name)
        layout, tile = layouts.matrices[name], kernels.tile(weight.coding, product.kind)
        assert (layout.tile_rows, layout.tile_cols) == (tile.rows, tile.cols)
        if product.kind is not BufferKind.FLOAT:
            assert layouts.strides[product.buffer] >= layout.padded_k


def test_a_tied_embedding_has_one_matrix_and_the_heads_layout(tmp_path) -> None:
    from make_bad import CONFIG, tiny_mixtral, write_checkpoint

    arrays = tiny_mixtral()
    del arrays["lm_head.weight"]
    write_checkpoint(tmp_path / "tied", CONFIG | {"tie_word_embeddings": True}, arrays)
    graph = load_graph(tmp_path / "tied", Scheme.W8A8)
    kernels = KernelSet(("portable",))
    assert "head" not in graph.weights
    layout, tile = plan_layouts(graph, kernels).matrices["embedding"], kernels.tile(W8, BufferKind.Q8)
    assert (layout.tile_rows, layout.tile_cols) == (tile.rows, tile.cols)
