"""The model in integers of 16 bits, weights and activations: near to fp32, fast in numpy, equal on every machine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from colibri.graph.coding import W8
from colibri.graph.graph import Graph
from colibri.graph.scheme import Scheme
from colibri.graph.weights import Kept, Matrix, StoredMatrix, Vector
from colibri.passes.quantise import quantise_graph

_TOP = 32767


def wide_copy(graph: Graph) -> Graph:
    """A graph beside the one given, for the reference only.

    Its matrices say that they are w8, since no package holds them; their sums stay exact in float64.
    """
    copy = replace(
        graph, ops=list(graph.ops), buffers=dict(graph.buffers), weights=dict(graph.weights), warnings=[], kept=Kept()
    )
    quantise_graph(copy, Scheme.W8A16)
    for name, made in copy.weights.items():
        if not isinstance(made, Vector) and made.coding == W8:
            matrix = graph.matrix(name)
            copy.weights[name] = matrix.then(_wide, W8) if isinstance(matrix, StoredMatrix) else _wide(matrix)
    return copy


def _wide(rows: Matrix) -> Matrix:
    values = rows.values
    scale = np.maximum(np.abs(values).max(axis=1), np.float32(2.0**-100)) / np.float32(_TOP)
    integers: Any = np.rint(values / scale[:, None]).astype(np.int16)
    return Matrix(W8, rows.shape, integers=integers, row_scale=scale, bias=rows.bias, parts=rows.parts)
