"""Run a graph with numpy: the reference that every board must equal, bit for bit.

Several sequences of equal length can run side by side; rows are ordered sequence by sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colibri.graph.attend_int8 import to_int8
from colibri.graph.float32 import Float, Int, canonical, matvec, to_f16
from colibri.graph.graph import BufferKind, Graph, ModelKind, Op, StateType
from colibri.graph.weights import AnyMatrix, Matrix, Vector

States = dict[str, NDArray[Any]]  # fp32, fp16, int8, and uint16 for the scales of int8 rows


def scales_of(state: str) -> str:
    """What the scales ``[sequences, capacity, pieces]`` of an int8 state are called."""
    return f"{state} scales"


@dataclass
class Quantised:
    """Rows as integers: ``integers[rows, k]`` (int32 values) and ``scale[rows]``."""

    integers: Int
    scale: Float


@dataclass
class Route:
    """Chosen experts in ascending order: ``index[rows, top_k]`` and ``weight[rows, top_k]``."""

    index: Int
    weight: Float


Multiplied = Callable[[str, "Float | Quantised", "NDArray[np.intp] | None"], None]


@dataclass
class Run:
    """What an op sees while the reference runs.

    Attributes:
        sequences: sequences side by side.
        length: rows a sequence has in this call.
        position: absolute position of the first row.
        all_rows: keep every row at `LastRow`, to see the logits of each position.
        states: name to ``[sequences, capacity, width]``; `scales_of` the name to those of int8 rows.
        source: rows that encode took in.
        multiplied: is told the name of each matrix, the rows that it is multiplied with, and which rows of the call
            they are where they are not all.
    """

    graph: Graph
    sequences: int
    length: int
    position: int
    all_rows: bool
    states: States
    tokens: Int | None = None
    source: int = 0
    multiplied: Multiplied | None = None
    floats: dict[str, Float] = field(default_factory=dict)
    quantised: dict[str, Quantised] = field(default_factory=dict)
    routes: dict[str, Route] = field(default_factory=dict)

    def vector(self, name: str) -> Float:
        """The fp32 values of a vector weight."""
        weight = self.graph.weights[name]
        assert isinstance(weight, Vector)
        return weight.values

    def matrix(self, name: str) -> AnyMatrix:
        """A matrix weight."""
        return self.graph.loaded(name)

    def operand(self, buffer: str, kind: BufferKind) -> Float | Quantised:
        """The rows of a buffer as `product` takes them."""
        return self.floats[buffer] if kind is BufferKind.FLOAT else self.quantised[buffer]

    def product(self, name: str, x: Float | Quantised, rows: NDArray[np.intp] | None = None) -> Float:
        """Rows times a matrix weight, as `product`.

        Args:
            rows: which of the call they are; None for all.
        """
        self.seen(name, x, rows)
        return product(self.matrix(name), x)

    def seen(self, name: str, x: Float | Quantised, rows: NDArray[np.intp] | None = None) -> None:
        """Tell who wants to know what a matrix is multiplied with."""
        if self.multiplied is not None:
            self.multiplied(name, x, rows)

    def keep(self, state: str, rows: Float, slots: slice | int) -> None:
        """Put rows ``[sequences, …, width]`` into a state, as its type has them."""
        if self.states[state].dtype == np.int8:
            scales = self.states[scales_of(state)]
            self.states[state][:, slots], scales[:, slots] = to_int8(rows, scales.shape[-1])
        else:
            self.states[state][:, slots] = to_f16(rows) if self.states[state].dtype == np.float16 else rows

    def positions(self) -> Int:
        """Absolute position of each row."""
        one = np.arange(self.position, self.position + self.length, dtype=np.int32)
        return np.tile(one, self.sequences)


_DTYPES = {StateType.F32: np.float32, StateType.F16: np.float16, StateType.I8: np.int8}
_BLOCK = 1 << 17  # weights of a large matrix that are looked at together: as doubles they stay in a cache


def product(weight: AnyMatrix, x: Float | Quantised) -> Float:
    """``x`` times the matrix transposed, plus its bias: ``[rows, n]``.

    Integer sums are exact in float64 (below 2^53); then ``(float)sum * row_scale * x_scale``, in this order.
    """
    if isinstance(weight, Matrix):
        return _product(weight, x)
    step = max(1, _BLOCK // weight.shape[1])
    return np.concatenate([_product(block, x) for block in weight.blocks(step)], axis=1)


def _product(weight: Matrix, x: Float | Quantised) -> Float:
    if not isinstance(x, Quantised):
        y = matvec(x, weight.values)
    else:
        assert weight.row_scale is not None
        sums = x.integers.astype(np.float64) @ weight.combined.T
        y = sums.astype(np.int64).astype(np.float32) * weight.row_scale
        y = y * x.scale[:, None]
    return y if weight.bias is None else y + weight.bias


class Reference:
    """A graph with its states, ready to be called.

    Args:
        graph: what to run.
        sequences: independent sequences of equal length side by side (1 on a board).
        watch: is called after each op.
        multiplied: is told what each matrix is multiplied with, before it is.
    """

    def __init__(
        self,
        graph: Graph,
        sequences: int = 1,
        watch: Callable[[Op, Run], None] = lambda op, run: None,
        multiplied: Multiplied | None = None,
    ) -> None:
        self.graph = graph
        self._watch = watch
        self._multiplied = multiplied
        self.sequences = sequences
        self.position = 0
        self.source = 0
        self.states: States = {}
        self.last: Run | None = None
        self.reset()

    def reset(self) -> None:
        """Forget all positions and the source."""
        self.position = 0
        self.source = 0
        for state in self.graph.states.values():
            self.states[state.name] = np.zeros((self.sequences, state.capacity, state.width), _DTYPES[state.type])
            if state.type is StateType.I8:
                shape = self.sequences, state.capacity, state.pieces
                self.states[scales_of(state.name)] = np.zeros(shape, np.uint16)

    def forward(self, samples: Float) -> Float:
        """Predict ``[rows, inputs]`` to ``[rows, outputs]``; rows are independent."""
        return self._output(self.run_of_samples(samples))

    def run_of_samples(self, samples: Float) -> Run:
        """A call of `forward` before its first op."""
        assert self.graph.kind is ModelKind.SAMPLES
        run = Run(self.graph, 1, samples.shape[0], 0, True, self.states, multiplied=self._multiplied)
        run.floats[Graph.INPUT] = np.ascontiguousarray(samples, np.float32)
        return run

    def encode(self, tokens: NDArray[np.integer]) -> None:
        """Take in the source ``[sequences, length]`` (or ``[length]``) and forget all positions.

        Raises:
            ValueError: there is no encoder, or the source is longer than it takes.
        """
        tokens = np.asarray(tokens, np.int32).reshape(self.sequences, -1)
        length = tokens.shape[1]
        if not 0 < length <= self.graph.source:
            raise ValueError(f"a source has 1 to {self.graph.source} tokens, not {length}")
        self.reset()
        self.source = length
        run = Run(
            self.graph, self.sequences, length, 0, True, self.states, tokens.reshape(-1), length, self._multiplied
        )
        self._run(run, self.graph.ops[: self.graph.encoder])

    def extend(self, tokens: NDArray[np.integer], *, all_rows: bool = False) -> Float:
        """Take in ``tokens [sequences, length]`` (or ``[length]``).

        Returns:
            logits of the last position ``[sequences, vocab]``, or of all ``[sequences, length, vocab]``.

        Raises:
            ValueError: the context would overflow, or there is an encoder and no source.
        """
        run = self.run_of_tokens(tokens, all_rows=all_rows)
        logits = self._output(run)
        self.position += run.length
        return logits.reshape(self.sequences, -1, logits.shape[-1]) if all_rows else logits

    def run_of_tokens(self, tokens: NDArray[np.integer], *, all_rows: bool = False) -> Run:
        """A call of `extend` before its first op, which leaves the position as it is.

        Raises:
            ValueError: as `extend`.
        """
        tokens = np.asarray(tokens, np.int32).reshape(self.sequences, -1)
        if self.position + tokens.shape[1] > self.graph.context:
            raise ValueError(f"context of {self.graph.context} is full")
        if self.graph.source and not self.source:
            raise ValueError("encode comes first")
        return Run(
            self.graph,
            self.sequences,
            tokens.shape[1],
            self.position,
            all_rows,
            self.states,
            tokens.reshape(-1),
            self.source,
            self._multiplied,
        )

    def resume(self, run: Run, start: int) -> Float:
        """Go on with a call from an op on, of a graph without an encoder.

        Args:
            run: with the buffers that the ops from ``start`` on read.
        """
        self._run(run, self.graph.ops[start:])
        return canonical(run.floats[Graph.OUTPUT])

    def _output(self, run: Run) -> Float:
        self._run(run, self.graph.ops[self.graph.encoder :])
        return canonical(run.floats[Graph.OUTPUT])

    def _run(self, run: Run, ops: Sequence[Op]) -> None:
        with np.errstate(all="ignore"):
            for op in ops:
                op.reference(run)
                self._watch(op, run)
        self.last = run
