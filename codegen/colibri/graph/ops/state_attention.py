"""Attention to rows that other ops keep in a key and a value state, with a bias by distance."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from colibri.graph.float32 import LANES, Float, exp, lane_dot, lane_tree
from colibri.graph.graph import Buffer, BufferKind, Op, StateType

if TYPE_CHECKING:
    from colibri.emit.c_module import CScope
    from colibri.graph.interpret import Run


class Reach(StrEnum):
    """Which rows of the states a row of the call sees."""

    PAST = "past"  # its own position and all before it
    SOURCE = "source"  # all that encode took in


@dataclass(frozen=True)
class StateAttention(Op):
    """Attend to every row in reach of the key and the value state.

    Shapes: q and out ``[rows, heads * head_dim]``; states ``[capacity, heads * head_dim]``. Scores are q.k (8 lanes)
    times ``scale``, plus the bias of head and distance; the softmax sum runs in 8 lanes by the row's index; values are
    added in ascending order and multiplied by the reciprocal of the sum at the end.

    Attributes:
        bias: weight ``[heads, distances]``, at index key - query + capacity - 1: ``capacity`` distances where the past
            is seen, ``2 * capacity - 1`` where all of the source is; empty for none.

    Source: Exploring the Limits of Transfer Learning (arXiv 1910.10683), section 2.1: a scalar by distance is added to
    each score.
    """

    q: str
    out: str
    key_state: str
    value_state: str
    heads: int
    head_dim: int
    capacity: int
    scale: float
    state_type: StateType
    reach: Reach
    bias: str = ""

    def reads(self) -> tuple[str, ...]:
        return (self.q,)

    def writes(self) -> tuple[str, ...]:
        return (self.out,)

    def weights(self) -> dict[str, str]:
        return {"distance_bias": self.bias} if self.bias else {}

    def scratch(self) -> tuple[Buffer, ...]:
        return (Buffer("scores", BufferKind.FLOAT, self.capacity, fixed_rows=1),)

    def states(self) -> dict[str, str]:
        slot = "source_" if self.reach is Reach.SOURCE else ""
        return {f"{slot}key_state": self.key_state, f"{slot}value_state": self.value_state}

    def passes(self) -> dict[str, int]:
        """For each row in reach, every head loads its q, and loads and stores its part of ``out``."""
        return {"scores": 2 * self.heads, self.q: self.capacity, self.out: 2 * self.capacity + 3}

    def signature(self) -> tuple[object, ...]:
        shape = (self.heads, self.head_dim, self.capacity)
        kind = (self.scale, self.state_type, self.reach, bool(self.bias))
        return ("state_attention", self.q, self.out, *shape, *kind)

    @property
    def distances(self) -> int:
        """Width of the bias."""
        return self.capacity if self.reach is Reach.PAST else 2 * self.capacity - 1

    def reference(self, run: Run) -> None:
        rows = np.arange(run.position, run.position + run.length)[:, None]
        count = run.source if self.reach is Reach.SOURCE else run.position + run.length
        seen = np.arange(count)
        masked = (seen > rows) & (self.reach is Reach.PAST)
        q = run.floats[self.q].reshape(run.sequences, run.length, self.heads, self.head_dim)
        out = np.empty_like(q)
        for head in range(self.heads):
            columns = slice(head * self.head_dim, (head + 1) * self.head_dim)
            keys = run.states[self.key_state][:, :count, columns].astype(np.float32)
            values = run.states[self.value_state][:, :count, columns].astype(np.float32)
            scores = lane_dot(q[:, :, head, None], keys[:, None]) * np.float32(self.scale)
            if self.bias:
                distance = np.minimum(seen - rows + self.capacity - 1, self.distances - 1)  # beyond it all is masked
                scores = scores + run.vector(self.bias)[head][distance]
            out[:, :, head] = _softmax_sum(np.where(masked, np.float32(-np.inf), scores), masked, values)
        run.floats[self.out] = out.reshape(run.sequences * run.length, -1)

    def emit(self, c: CScope) -> None:
        c.kernel("state_attention")
        each, width = c.each, self.heads * self.head_dim
        element = "float" if self.state_type is StateType.F32 else "uint16_t"
        past = self.reach is Reach.PAST
        count = f"{each.offset('position')} + 1" if past else "source"
        bias = "NULL"
        if self.bias:  # where it stands for the first key
            bias = f"{c.as_floats('bias', 0)} + {self.capacity - 1} - {each.offset('position').replace('+', '-')}"
        known = "position" if past else "position, uint32_t source" if self.bias else "source"
        shape = f"{c.rows}x{self.heads}x{self.head_dim}_{'of' if past else 'source'}_{self.capacity}"
        name = c.instance(
            f"state_attention{'_biased' if self.bias else ''}_{shape}",
            f"out[{c.rows}][{width}] from q[{c.rows}][{width}]; states [{self.capacity}][{width}] {self.state_type}, "
            + ("the past" if past else "the whole source")
            + (f"; bias [{self.heads}][{self.distances}]" if self.bias else ""),
            f"float *restrict out, const float *restrict q, const {element} *restrict key_state, "
            f"const {element} *restrict value_state, float *restrict scores, "
            + ("const uint8_t *restrict bias, " if self.bias else "")
            + f"uint32_t {known}",
            each.loop(
                [
                    f"colibri_state_attention_{self.state_type}({each.at('out', width)}, {each.at('q', width)}, "
                    f"key_state, value_state, scores, {bias}, {self.distances}, {count}, {self.heads}, "
                    f"{self.head_dim}, {c.float_literal(self.scale)});",
                ]
            ),
        )
        keys, values = map(c.state, self.states())
        arguments = [c.floats(self.out), c.floats(self.q), keys, values, c.floats("scores")]
        arguments += [c.weight("distance_bias")] if self.bias else []
        arguments += [c.position()] if past or self.bias else []
        arguments += [] if past else [c.source()]
        c.line(f"{name}({', '.join(arguments)});")


def _softmax_sum(scores: Float, masked: np.ndarray, values: Float) -> Float:
    """Sum of values ``[sequences, seen, head_dim]`` by the softmax of scores ``[sequences, rows, seen]``."""
    top = np.fmax.reduce(scores, axis=-1, initial=np.float32(-np.inf))
    terms = exp(scores - top[..., None])  # of a masked score: an exact 0
    lanes = np.zeros((*top.shape, LANES), np.float32)
    total = np.zeros((*top.shape, values.shape[-1]), np.float32)
    for i in range(scores.shape[-1]):
        sees = slice(int(np.argmin(masked[:, i])), None)  # masked rows come first
        lanes[:, :, i % LANES] += terms[:, :, i]
        total[:, sees] += terms[:, sees, i, None] * values[:, i, None]
    return np.asarray(total * (np.float32(1.0) / lane_tree(lanes))[..., None])
