"""Attention to rows that other ops keep in a key and a value state, with a bias by distance."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from colibri.graph.attend_int8 import attend, attention_scratch, int8_kernels, int8_passes, query_max
from colibri.graph.float32 import LANES, Float, exp, lane_dot, lane_tree
from colibri.graph.graph import Buffer, Op, StateType
from colibri.graph.interpret import scales_of

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
    added in ascending order and multiplied by the reciprocal of the sum at the end. With int8 states all
    this is done in integers, see `attend_int8`.

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
        return attention_scratch(self.state_type, self.capacity, self.head_dim)

    def states(self) -> dict[str, str]:
        slot = "source_" if self.reach is Reach.SOURCE else ""
        return {f"{slot}key_state": self.key_state, f"{slot}value_state": self.value_state}

    def passes(self) -> dict[str, int]:
        """For each row in reach, every head loads its q, and loads and stores its part of ``out``."""
        if self.state_type is StateType.I8:
            return {**int8_passes(self.heads, self.capacity, self.head_dim), self.q: 2}
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
        distance = np.minimum(seen - rows + self.capacity - 1, self.distances - 1)  # beyond it all is masked
        for head in range(self.heads):
            columns = slice(head * self.head_dim, (head + 1) * self.head_dim)
            if self.state_type is StateType.I8:
                near, own = (
                    (run.states[name][:, :count, columns], run.states[scales_of(name)][:, :count, head])
                    for name in (self.key_state, self.value_state)
                )
                bias = run.vector(self.bias)[head][distance] if self.bias else None
                hidden = np.broadcast_to(masked, (run.length, count))
                out[:, :, head] = attend([q[:, :, head]], [near], own, hidden, self.scale, bias=bias)
                continue
            keys = run.states[self.key_state][:, :count, columns].astype(np.float32)
            values = run.states[self.value_state][:, :count, columns].astype(np.float32)
            scores = lane_dot(q[:, :, head, None], keys[:, None]) * np.float32(self.scale)
            if self.bias:
                scores = scores + run.vector(self.bias)[head][distance]
            out[:, :, head] = _softmax_sum(np.where(masked, np.float32(-np.inf), scores), masked, values)
        run.floats[self.out] = out.reshape(run.sequences * run.length, -1)

    def emit(self, c: CScope) -> None:
        int8 = self.state_type is StateType.I8
        if int8:
            int8_kernels(c, "state_attention_int8")
        else:
            c.kernel("state_attention")
        each, heads, head_dim = c.each, c.number("heads", self.heads), c.number("head_dim", self.head_dim)
        capacity, width = c.number("capacity", self.capacity), c.number("width", self.heads * self.head_dim)
        element = {StateType.F32: "float", StateType.F16: "uint16_t", StateType.I8: "int8_t"}[self.state_type]
        scratch = "int32_t *restrict scores, int8_t *restrict query, " if int8 else "float *restrict scores, "
        past = self.reach is Reach.PAST
        count = f"{each.offset('position')} + 1" if past else "source"
        bias = "NULL"
        if self.bias:  # where it stands for the first key
            bias = f"{c.as_floats('bias', 0)} + {self.capacity - 1} - {each.offset('position').replace('+', '-')}"
        known = "position" if past else "position, uint32_t source" if self.bias else "source"
        shape = f"{c.rows}x{heads}x{head_dim}_{'of' if past else 'source'}_{capacity}"
        states = (
            "key_state, key_scales, value_state, value_scales, scores, query"
            if int8
            else "key_state, value_state, scores"
        )
        most = f", {query_max(self.head_dim)}.0f" if int8 else ""
        name = c.instance(
            f"state_attention{'_int8' if int8 else ''}{'_biased' if self.bias else ''}_{shape}",
            f"out[{c.rows}][{width}] from q[{c.rows}][{width}]; states [{capacity}][{width}] {self.state_type}, "
            + (f"scales [{capacity}][{heads}], " if int8 else "")
            + ("the past" if past else "the whole source")
            + (f"; bias [{heads}][{self.distances}]" if self.bias else ""),
            f"float *restrict out, const float *restrict q, const {element} *restrict key_state, "
            + ("const uint16_t *restrict key_scales, " if int8 else "")
            + f"const {element} *restrict value_state, "
            + ("const uint16_t *restrict value_scales, " if int8 else "")
            + scratch
            + ("const uint8_t *restrict bias, " if self.bias else "")
            + f"uint32_t {known}",
            each.loop(
                [
                    f"colibri_state_attention_{self.state_type}({each.at('out', width)}, {each.at('q', width)}, "
                    f"{states}, {bias}, {self.distances}, {count}, {heads}, "
                    f"{head_dim}, {c.float_literal(self.scale)}{most});",
                ]
            ),
        )
        keys, values = (c.rows_int8(*one) if int8 else c.state(one[0]) for one in self.states().items())
        arguments = [c.floats(self.out), c.floats(self.q), keys, values]
        arguments += [c.integers("scores"), c.integers("query")] if int8 else [c.floats("scores")]
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
