"""Lay weights out for the board's kernels: bytes, and where each part of a matrix stands in them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from colibri.graph.coding import GROUP, Coding, WeightFormat
from colibri.graph.graph import BufferKind, Graph
from colibri.graph.ops import Embedding
from colibri.graph.weights import E2M1_DOUBLED, FP4_MAX, Matrix, Vector
from colibri.passes.kernels import KernelSet, Tile

ALIGN = 16
# Bits of the 4-bit float whose double is the index, which may be negative: it counts from the end.
_E2M1_BITS = np.zeros(2 * FP4_MAX + 1, np.uint8)
_E2M1_BITS[E2M1_DOUBLED[::-1]] = np.arange(len(E2M1_DOUBLED), dtype=np.uint8)[::-1]  # of the two zeros the first
# Integers of few bits lie in planes of so many bits each, the lowest bits first.
_PLANES = {2: (2,), 3: (2, 1), 4: (4,), 5: (4, 1), 6: (4, 2)}


def aligned(size: int, to: int = ALIGN) -> int:
    """``size`` rounded up to a multiple of ``to``."""
    return -(-size // to) * to


class Order(StrEnum):
    """How the weights of a tile lie.

    Row by row; or 16 bits for a column of two rows of 8 bits, or of four of 4 bits. They are a sum, in which each row
    counts 256 or 16 times as much as the one before; of 4 bits the first three have 8 added. A word has two columns; of
    8 bits the words of both pairs of rows follow each other. Or row by row, 128 added to each weight. Or, of 4 bits,
    the 16 bytes of a row's 32 columns apart: bytes 0 to 3 of each row, then the next four of each; so a vector has the
    same columns of several rows in its lanes.
    """

    ROWS = ""
    PAIRS = "pairs"
    QUADS = "quads"
    PLUS128 = "plus128"
    LANES = "lanes"


@dataclass(frozen=True)
class MatrixLayout:
    """Where the parts of a packed matrix ``[n, k]`` stand, in bytes from its start; -1 when it has no such part.

    Attributes:
        row_scale: fp32 ``[n padded]``; of formats in groups its upper 16 bits.
        bias: fp32 ``[n padded]``.
        group_scale: uint8 ``[n / tile_rows][groups][tile_rows]``, of formats in groups.
        zeros: uint8, of the same shape.
        tail_columns: u16 ``[t]``.
        tail: int8 ``[n / tile_rows][t][tile_rows]``.
        data: the tiles.
        bytes: of all parts.
        parts: matrices of this layout that stand one behind the other.
        order: of the weights of a tile.
    """

    coding: Coding
    n: int
    k: int
    tile_rows: int
    tile_cols: int
    row_scale: int
    bias: int
    group_scale: int
    zeros: int
    tail_columns: int
    tail: int
    data: int
    bytes: int
    parts: int = 1
    order: Order = Order.ROWS

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
        return self.padded_k * self.coding.format.bits // 8

    @property
    def groups(self) -> int:
        """Groups of a row, those of padding included."""
        return self.coding.groups(self.padded_k)

    @property
    def tail_count(self) -> int:
        """Columns in the tail."""
        return self.coding.tail(self.k)

    @property
    def scale_bytes(self) -> int:
        """Of a row's scale."""
        return 2 if self.coding.format.grouped else 4

    def describe(self) -> str:
        """Canonical text, part of the ABI hash."""
        return (
            f"{self.coding}[{self.n},{self.k}] tile {self.tile_rows}x{self.tile_cols}{self.order and f' {self.order}'} "
            f"at {self.row_scale},{self.bias},{self.group_scale},{self._extras()}{self.data} of {self.bytes}"
            + (f" in {self.parts} parts" if self.parts > 1 else "")
        )

    def _extras(self) -> str:
        """Where there are any, the places of zero points and tail."""
        places = self.zeros, self.tail_columns, self.tail
        return "" if max(places) < 0 else "".join(f"{place}," for place in places)


def matrix_layout(coding: Coding, n: int, k: int, has_bias: bool, tile: Tile, parts: int = 1) -> MatrixLayout:
    """Layout of a matrix; scales come first, then the bias, groups, tail and tiles, each aligned to 16 bytes.

    Args:
        n: rows of a part.
    """
    padded_n, padded_k = aligned(n, tile.rows), aligned(k, tile.cols)
    place = 0

    def part(size: int) -> int:
        nonlocal place
        start, place = place, aligned(place + size)
        return start

    groups, tail = padded_n * coding.groups(padded_k), coding.tail(k)
    row_scale = -1 if coding.format.floating else part((2 if coding.format.grouped else 4) * padded_n)
    bias = part(4 * padded_n) if has_bias else -1
    group_scale = part(groups) if groups else -1
    zeros = part(groups) if coding.zero else -1
    tail_columns = part(2 * tail) if tail else -1
    tail_at = part(padded_n * tail) if tail else -1
    data = part(padded_n * padded_k * coding.format.bits // 8)
    places = row_scale, bias, group_scale, zeros, tail_columns, tail_at, data
    return MatrixLayout(coding, n, k, tile.rows, tile.cols, *places, parts * place, parts, Order(tile.order))


def takes_whole(tile: Tile, layout: MatrixLayout) -> bool:
    """Whether the kernel of such tiles multiplies the whole matrix in one call."""
    return tile.whole and layout.bias < 0 and not layout.tail_count and layout.n % layout.tile_rows == 0


def pack_rows(rows: Matrix, first: int, layout: MatrixLayout) -> Iterator[tuple[int, bytes]]:
    """Some rows of a matrix as the kernel reads them: each piece, and where it stands from the matrix's start.

    Args:
        rows: all of one part; their number is a multiple of the tile's, or they are the last.
        first: number of the first row, a multiple of the tile's rows within its part.
    """
    part, row = divmod(first, layout.n)
    tile = Tile(layout.tile_rows, layout.tile_cols, layout.order)
    own = matrix_layout(layout.coding, rows.shape[0], layout.k, layout.bias >= 0, tile)
    raw = _pack_part(rows, own)
    for start, target, each in (
        (own.row_scale, layout.row_scale, layout.scale_bytes),
        (own.bias, layout.bias, 4),
        (own.group_scale, layout.group_scale, layout.groups),
        (own.zeros, layout.zeros, layout.groups),
        (own.tail, layout.tail, layout.tail_count),
        (own.data, layout.data, layout.row_bytes),
    ):
        if start >= 0:
            place = part * layout.stride + target + row * each
            yield place, raw[start : start + own.padded_n * each]
    if own.tail_columns >= 0 and row == 0:  # all rows share them
        yield part * layout.stride + layout.tail_columns, raw[own.tail_columns :][: 2 * layout.tail_count]


def pack_matrix(matrix: Matrix, layout: MatrixLayout) -> bytes:
    """The matrix as the kernel reads it, part by part."""
    return b"".join(_pack_part(part, layout) for part in matrix.split)


def _pack_part(matrix: Matrix, layout: MatrixLayout) -> bytes:
    out = np.zeros(layout.stride, np.uint8)
    rows, n, padded_n = layout.tile_rows, layout.n, layout.padded_n

    def put(start: int, values: np.ndarray) -> None:
        raw = np.ascontiguousarray(values).view(np.uint8).reshape(-1)
        out[start : start + raw.size] = raw

    def put_across(start: int, values: np.ndarray, columns: int) -> None:
        padded = np.zeros((padded_n, columns), values.dtype)
        padded[:n, : values.shape[1]] = values
        put(start, padded.reshape(-1, rows, columns).transpose(0, 2, 1))

    put(layout.data, _data(matrix, layout))
    if matrix.row_scale is not None:
        upper = (matrix.row_scale.view(np.uint32) >> 16).astype("<u2")
        put(layout.row_scale, upper if layout.scale_bytes == 2 else matrix.row_scale)
    if matrix.bias is not None:
        put(layout.bias, matrix.bias)
    if matrix.group_scale is not None:
        put_across(layout.group_scale, matrix.group_scale, layout.groups)
    if matrix.zeros is not None:
        put_across(layout.zeros, matrix.zeros, layout.groups)
    if matrix.tail is not None and matrix.tail_columns is not None:
        put_across(layout.tail, matrix.tail, layout.tail_count)
        put(layout.tail_columns, matrix.tail_columns.astype("<u2"))
    return out.tobytes()


def _data(matrix: Matrix, layout: MatrixLayout) -> np.ndarray:
    """The tiles: whole elements, or planes of bits."""
    form, rows, cols = layout.coding.format, layout.tile_rows, layout.tile_cols
    if form.floating:
        assert matrix.dense is not None
        source = matrix.dense.astype("<f2") if form is WeightFormat.F16 else matrix.dense
    else:
        assert matrix.integers is not None
        source = matrix.integers
    padded = np.zeros((layout.padded_n, layout.padded_k), source.dtype)
    padded[: layout.n, : layout.k] = source
    tiles = padded.reshape(layout.padded_n // rows, rows, layout.padded_k // cols, cols).transpose(0, 2, 1, 3)
    if layout.order is Order.PLUS128:
        return (tiles.astype(np.int16) + 128).astype(np.uint8)
    if layout.order in (Order.PAIRS, Order.QUADS):
        return _halves(tiles, layout.order)
    if not form.grouped:
        return tiles
    if form is WeightFormat.FP4:
        return _plane(_E2M1_BITS[tiles], 4)
    # What padding adds is multiplied by zeros; as the middle of the range it is a weight of 0 without a zero point too.
    stored = (tiles - layout.coding.limits[0]).astype(np.uint8)
    if layout.order is Order.LANES:
        across, down, _, _ = tiles.shape
        return _plane(stored, 4).reshape(across, down, rows, 4, 4).transpose(0, 1, 3, 2, 4)
    planes, done = [], 0
    for bits in _PLANES[form.bits]:
        planes.append(_plane((stored >> done) & ((1 << bits) - 1), bits))
        done += bits
    return planes[0] if len(planes) == 1 else np.concatenate(planes, axis=2)


def _halves(tiles: np.ndarray, order: Order) -> np.ndarray:
    """Tiles ``[tiles, tiles, 4, cols]`` as u16, modulo 2^16."""
    across, down, rows, cols = tiles.shape
    assert rows == 4
    unit, offset = ((1, 16, 256, 4096), (8, 8, 8, 0)) if order is Order.QUADS else ((1, 256, 1, 256), (0, 0, 0, 0))
    parts = (tiles + np.array(offset)[:, None]) * np.array(unit)[:, None]
    if order is Order.QUADS:
        halves: np.ndarray = parts.sum(axis=2)
    else:
        pairs = parts.reshape(across, down, 2, 2, cols // 2, 2).sum(axis=3)
        halves = pairs.transpose(0, 1, 3, 2, 4)
    return halves.astype("<u2")


def _plane(values: np.ndarray, bits: int) -> np.ndarray:
    """Bytes of a plane ``[tiles, tiles, rows * cols * bits / 8]``: of 32 columns one byte has those 4 * bits apart."""
    across, down, rows, cols = values.shape
    each = GROUP * bits // 8
    apart = values.reshape(across, down, rows * cols // GROUP, 8 // bits, each)
    plane = np.zeros((across, down, rows * cols // GROUP, each), np.uint8)
    for place in range(8 // bits):
        plane |= apart[:, :, :, place] << np.uint8(bits * place)
    return plane.reshape(across, down, -1)


def pack_vector(vector: Vector) -> bytes:
    """fp32, padded to 16 bytes."""
    raw = np.ascontiguousarray(vector.values, "<f4").tobytes()
    return raw + bytes(aligned(len(raw)) - len(raw))


def vector_bytes(vector: Vector) -> int:
    """Length of what `pack_vector` makes."""
    return aligned(4 * vector.values.size)


@dataclass(frozen=True)
class Layouts:
    """Layout of each matrix, and the row stride in elements of each quantised buffer.

    Attributes:
        wide_activations: whether 8-bit activations stand in 16 bits each.
        read_once: matrices whose kernel copies its input first and works on the copy.
    """

    matrices: dict[str, MatrixLayout]
    strides: dict[str, int]
    wide_activations: bool = False
    read_once: frozenset[str] = frozenset()


def plan_layouts(graph: Graph, kernels: KernelSet) -> Layouts:
    """Choose the packing of each matrix by the kernel that reads it (a tied embedding: by the head's)."""
    matrices: dict[str, MatrixLayout] = {}
    strides: dict[str, int] = {}
    read_once = set[str]()

    def lay(name: str, tile: Tile) -> None:
        matrix = graph.matrix(name)
        n, k = matrix.shape[0] // matrix.parts, matrix.shape[1]
        matrices[name] = matrix_layout(matrix.coding, n, k, matrix.has_bias, tile, matrix.parts)

    for product in (product for op in graph.ops for product in op.products()):
        matrix = graph.matrix(product.weight)
        tile = kernels.tile(matrix.coding, product.kind)
        lay(product.weight, tile)
        if tile.between and takes_whole(tile, matrices[product.weight]):
            read_once.add(product.weight)
        if product.kind is not BufferKind.FLOAT:
            strides[product.buffer] = max(strides.get(product.buffer, 0), aligned(matrix.shape[1], tile.cols))
    for op in graph.ops:
        if isinstance(op, Embedding) and op.table not in matrices:
            columns = GROUP if graph.matrix(op.table).format.grouped else 1
            lay(op.table, Tile(1, columns))
    return Layouts(matrices, strides, kernels.wide_activations, frozenset(read_once))
