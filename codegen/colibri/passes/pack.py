"""Lay weights out for the board's kernels: bytes, and where each part of a matrix stands in them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from colibri.graph.graph import BufferKind, Graph
from colibri.graph.ops import Embedding
from colibri.graph.weights import E2M1_DOUBLED, FP4_MAX, GROUP, Matrix, Vector, WeightFormat
from colibri.passes.kernels import KernelSet, Tile

ALIGN = 16
# Bits of the 4-bit float whose double is the index, which may be negative: it counts from the end.
_E2M1_BITS = np.zeros(2 * FP4_MAX + 1, np.uint8)
_E2M1_BITS[E2M1_DOUBLED[::-1]] = np.arange(len(E2M1_DOUBLED), dtype=np.uint8)[::-1]  # of the two zeros the first
_HALF_BYTES = {WeightFormat.F32: 8, WeightFormat.W8: 2, WeightFormat.W4: 1, WeightFormat.FP4: 1}  # of a weight


def aligned(size: int, to: int = ALIGN) -> int:
    """``size`` rounded up to a multiple of ``to``."""
    return -(-size // to) * to


@dataclass(frozen=True)
class MatrixLayout:
    """Where the parts of a packed matrix ``[n, k]`` stand, in bytes from its start; -1 when it has no such part.

    Attributes:
        row_scale: fp32 ``[n padded]``.
        bias: fp32 ``[n padded]``.
        group_scale: uint8 ``[n / tile_rows][k / 32][tile_rows]``, of formats in groups.
        data: the tiles.
        bytes: of all parts.
        parts: matrices of this layout that stand one behind the other.
    """

    format: WeightFormat
    n: int
    k: int
    tile_rows: int
    tile_cols: int
    row_scale: int
    bias: int
    group_scale: int
    data: int
    bytes: int
    parts: int = 1

    @property
    def stride(self) -> int:
        """Bytes from one part to the next."""
        return self.bytes // self.parts

    @property
    def padded_n(self) -> int:
        """Rows with padding."""
        return aligned(self.n, self.tile_rows)

    @property
    def padded_k(self) -> int:
        """Columns with padding."""
        return aligned(self.k, self.tile_cols)

    @property
    def row_bytes(self) -> int:
        """Of the tiles, on average."""
        return self.padded_k * _HALF_BYTES[self.format] // 2

    def describe(self) -> str:
        """Canonical text, part of the ABI hash."""
        return (
            f"{self.format}[{self.n},{self.k}] tile {self.tile_rows}x{self.tile_cols} "
            f"at {self.row_scale},{self.bias},{self.group_scale},{self.data} of {self.bytes}"
            + (f" in {self.parts} parts" if self.parts > 1 else "")
        )


def matrix_layout(form: WeightFormat, n: int, k: int, has_bias: bool, tile: Tile, parts: int = 1) -> MatrixLayout:
    """Layout of a matrix; scales come first, then the bias, then the tiles, each aligned to 16 bytes.

    Args:
        n: rows of a part.
    """
    padded_n, padded_k = aligned(n, tile.rows), aligned(k, tile.cols)
    place = 0

    def part(size: int) -> int:
        nonlocal place
        start, place = place, aligned(place + size)
        return start

    row_scale = -1 if form is WeightFormat.F32 else part(4 * padded_n)
    bias = part(4 * padded_n) if has_bias else -1
    group_scale = part(padded_n * padded_k // GROUP) if form.grouped else -1
    data = part(padded_n * padded_k * _HALF_BYTES[form] // 2)
    return MatrixLayout(form, n, k, tile.rows, tile.cols, row_scale, bias, group_scale, data, parts * place, parts)


def pack_rows(rows: Matrix, first: int, layout: MatrixLayout) -> Iterator[tuple[int, bytes]]:
    """Some rows of a matrix as the kernel reads them: each piece, and where it stands from the matrix's start.

    Args:
        rows: all of one part; their number is a multiple of the tile's, or they are the last.
        first: number of the first row, a multiple of the tile's rows within its part.
    """
    part, row = divmod(first, layout.n)
    tile = Tile(layout.tile_rows, layout.tile_cols)
    own = matrix_layout(layout.format, rows.shape[0], layout.k, layout.bias >= 0, tile)
    raw = _pack_part(rows, own)
    for start, target, each in (
        (own.row_scale, layout.row_scale, 4),
        (own.bias, layout.bias, 4),
        (own.group_scale, layout.group_scale, layout.padded_k // GROUP),
        (own.data, layout.data, layout.row_bytes),
    ):
        if start >= 0:
            place = part * layout.stride + target + row * each
            yield place, raw[start : start + own.padded_n * each]


def pack_matrix(matrix: Matrix, layout: MatrixLayout) -> bytes:
    """The matrix as the kernel reads it, part by part."""
    return b"".join(_pack_part(part, layout) for part in matrix.split)


def _pack_part(matrix: Matrix, layout: MatrixLayout) -> bytes:
    out = np.zeros(layout.stride, np.uint8)

    def put(start: int, values: np.ndarray) -> None:
        raw = np.ascontiguousarray(values).view(np.uint8).reshape(-1)
        out[start : start + raw.size] = raw

    rows, cols = layout.tile_rows, layout.tile_cols
    source = matrix.dense if layout.format is WeightFormat.F32 else matrix.integers
    assert source is not None
    padded = np.zeros((layout.padded_n, layout.padded_k), source.dtype)
    padded[: layout.n, : layout.k] = source
    tiles = padded.reshape(layout.padded_n // rows, rows, layout.padded_k // cols, cols).transpose(0, 2, 1, 3)
    if layout.format.grouped:
        halves = tiles.reshape(-1, 2, GROUP // 2)
        nibbles = (halves + 8).astype(np.uint8) if layout.format is WeightFormat.W4 else _E2M1_BITS[halves]
        put(layout.data, nibbles[:, 0] | (nibbles[:, 1] << 4))
        assert matrix.group_scale is not None
        groups = np.zeros((layout.padded_n, layout.padded_k // GROUP), np.uint8)
        groups[: layout.n, : matrix.group_scale.shape[1]] = matrix.group_scale
        put(layout.group_scale, groups.reshape(-1, rows, groups.shape[1]).transpose(0, 2, 1))
    else:
        put(layout.data, tiles)
    if matrix.row_scale is not None:
        put(layout.row_scale, matrix.row_scale)
    if matrix.bias is not None:
        put(layout.bias, matrix.bias)
    return out.tobytes()


def pack_vector(vector: Vector) -> bytes:
    """fp32, padded to 16 bytes."""
    raw = np.ascontiguousarray(vector.values, "<f4").tobytes()
    return raw + bytes(aligned(len(raw)) - len(raw))


def vector_bytes(vector: Vector) -> int:
    """Length of what `pack_vector` makes."""
    return aligned(4 * vector.values.size)


@dataclass(frozen=True)
class Layouts:
    """Layout of each matrix, and the row stride in elements of each quantised buffer."""

    matrices: dict[str, MatrixLayout]
    strides: dict[str, int]


def plan_layouts(graph: Graph, kernels: KernelSet) -> Layouts:
    """Choose the packing of each matrix by the kernel that reads it (a tied embedding: by the head's)."""
    matrices: dict[str, MatrixLayout] = {}
    strides: dict[str, int] = {}

    def lay(name: str, tile: Tile) -> None:
        matrix = graph.matrix(name)
        n, k = matrix.shape[0] // matrix.parts, matrix.shape[1]
        matrices[name] = matrix_layout(matrix.format, n, k, matrix.has_bias, tile, matrix.parts)

    for product in (product for op in graph.ops for product in op.products()):
        matrix = graph.matrix(product.weight)
        tile = kernels.tile(matrix.format, product.kind)
        lay(product.weight, tile)
        if product.kind is not BufferKind.FLOAT:
            strides[product.buffer] = max(strides.get(product.buffer, 0), aligned(matrix.shape[1], tile.cols))
    for op in graph.ops:
        if isinstance(op, Embedding) and op.table not in matrices:
            columns = GROUP if graph.matrix(op.table).format.grouped else 1
            lay(op.table, Tile(1, columns))
    return Layouts(matrices, strides)
