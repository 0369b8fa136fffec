"""Causal attention over a key and a value state, grouped heads, optional sliding window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from colibri.graph.attend_int8 import attend, attention_scratch, int8_kernels, int8_passes, query_max
from colibri.graph.float32 import LANES, Float, exp, lane_dot, lane_tree
from colibri.graph.graph import Buffer, Op, StateType
from colibri.graph.interpret import scales_of

if TYPE_CHECKING:
    from colibri.emit.c_module import CScope
    from colibri.graph.interpret import Run

_ELEMENTS_AT_ONCE = 1 << 22  # bounds the reference's memory, not its bits


@dataclass(frozen=True)
class Attention(Op):
    """Store this row's key and value, then attend to every position in reach.

    Shapes: q ``[rows, heads * head_dim]``, k and v ``[rows, kv_heads * head_dim]``, out like q.
    Scores are q.k (8 lanes) times ``scale``; the softmax sum runs in 8 lanes by absolute position; values are added
    in ascending position and multiplied by the reciprocal of the sum at the end. ``window`` counts the current
    position; 0 means none; with ``chunked`` it is not the last positions that are seen, but those of the same multiple
    of the window. A head's sink is a score without a value: it joins the maximum and, last, the sum. With int8 states
    all this is done in integers, see `attend_int8`.

    Source: Attention Is All You Need, section 3.2; GQA (arXiv 2305.13245); Mixtral's window as in transformers'
    `sliding_window_overlay`: key > query - window.
    """

    q: str
    k: str
    v: str
    out: str
    key_state: str
    value_state: str
    heads: int
    kv_heads: int
    head_dim: int
    capacity: int
    window: int
    scale: float
    state_type: StateType
    sinks: str = ""
    chunked: bool = False

    can_share: ClassVar[bool] = True

    def reads(self) -> tuple[str, ...]:
        return (self.q, self.k, self.v)

    def writes(self) -> tuple[str, ...]:
        return (self.out,)

    def weights(self) -> dict[str, str]:
        return {"sinks": self.sinks} if self.sinks else {}

    def scratch(self) -> tuple[Buffer, ...]:
        at_once = self.kv_heads if self.shared else 1
        return attention_scratch(self.state_type, self.capacity, self.head_dim, at_once)

    def states(self) -> dict[str, str]:
        return {"key_state": self.key_state, "value_state": self.value_state}

    def passes(self) -> dict[str, int]:
        """For each position in reach, every head loads its q, and loads and stores its part of ``out``."""
        shared, reach = self.heads // self.kv_heads, self.capacity
        if self.state_type is StateType.I8:
            states = {self.key_state: shared, self.value_state: shared}
            return {**states, **int8_passes(self.heads, self.capacity, self.head_dim), self.q: 2}
        states = {self.key_state: shared, self.value_state: shared}
        return {**states, "scores": 2 * self.heads, self.q: reach, self.out: 2 * reach + 3}

    def signature(self) -> tuple[object, ...]:
        shape = (self.heads, self.kv_heads, self.head_dim, self.capacity, self.window)
        return (
            "attention",
            self.q,
            self.k,
            self.v,
            self.out,
            *shape,
            self.scale,
            self.state_type,
            bool(self.sinks),
            self.chunked,
        )

    def reference(self, run: Run) -> None:
        batch = (run.sequences, run.length)
        q = run.floats[self.q].reshape(*batch, self.heads, self.head_dim)
        new = {s: run.floats[b].reshape(*batch, -1) for s, b in ((self.key_state, self.k), (self.value_state, self.v))}
        out = np.empty_like(q)
        if self.window == 0 or run.position + run.length <= self.capacity:
            for name, rows in new.items():
                run.keep(name, rows, slice(run.position, run.position + run.length))
            self._attend(run, q, out, 0, run.length)
        else:  # the ring wraps: one row at a time, as the board does it
            for row in range(run.length):
                slot = (run.position + row) % self.capacity
                for name, rows in new.items():
                    run.keep(name, rows[:, row], slot)
                self._attend(run, q, out, row, row + 1)
        run.floats[self.out] = out.reshape(run.sequences * run.length, -1)

    def _attend(self, run: Run, q: Float, out: Float, start: int, stop: int) -> None:
        """Rows ``start..stop`` against all states; a masked score is -inf, whose exp is an exact 0."""
        last = run.position + stop - 1
        first = max(0, run.position + start - self.window + 1) if self.window else 0
        if self.chunked:
            first = (run.position + start) // self.window * self.window
        seen = np.arange(first, last + 1)
        slots = seen % self.capacity
        rows = np.arange(run.position + start, run.position + stop)[:, None]
        masked = seen > rows
        if self.chunked:
            masked |= seen < rows - rows % self.window
        elif self.window:
            masked |= seen <= rows - self.window
        group = self.heads // self.kv_heads
        sinks = run.vector(self.sinks) if self.sinks else np.full(self.heads, -np.inf, np.float32)
        at_once = max(1, _ELEMENTS_AT_ONCE // (masked.size * LANES))
        if self.state_type is StateType.I8:
            self._attend_int8(run, q[:, start:stop], out[:, start:stop], slots, masked)
            return
        for head in range(self.heads):
            columns = slice(head // group * self.head_dim, (head // group + 1) * self.head_dim)
            for low in range(0, run.sequences, at_once):
                some = slice(low, low + at_once)
                keys = run.states[self.key_state][some, slots, columns].astype(np.float32)
                values = run.states[self.value_state][some, slots, columns].astype(np.float32)
                scores = lane_dot(q[some, start:stop, head, None], keys[:, None]) * np.float32(self.scale)
                scores = np.where(masked, np.float32(-np.inf), scores)
                top = np.fmax.reduce(scores, axis=-1, initial=sinks[head])
                terms = exp(scores - top[..., None])
                lanes = np.zeros((*top.shape, LANES), np.float32)
                total = np.zeros((*top.shape, self.head_dim), np.float32)
                for i, position in enumerate(seen):
                    visible = np.flatnonzero(~masked[:, i])
                    sees = slice(visible[0], visible[-1] + 1)
                    lanes[:, :, position % LANES] += terms[:, :, i]
                    total[:, sees] += terms[:, sees, i, None] * values[:, i, None]
                whole = lane_tree(lanes)
                if self.sinks:
                    whole = whole + exp(sinks[head] - top)
                out[some, start:stop, head] = total * (np.float32(1.0) / whole)[..., None]

    def _attend_int8(self, run: Run, q: Float, out: Float, slots: NDArray[np.intp], masked: NDArray[np.bool_]) -> None:
        """Heads one by one; ``q`` and ``out`` are ``[sequences, rows, heads, head_dim]``."""
        sinks = run.vector(self.sinks) if self.sinks else None
        at_once = max(1, _ELEMENTS_AT_ONCE // (masked.size * LANES))
        for head in range(self.heads):
            shared = head // (self.heads // self.kv_heads)
            columns = slice(shared * self.head_dim, (shared + 1) * self.head_dim)
            sink = None if sinks is None else sinks[head]
            for low in range(0, run.sequences, at_once):
                some = slice(low, low + at_once)
                keys, values = (
                    (run.states[name][some, slots, columns], run.states[scales_of(name)][some, slots, shared])
                    for name in (self.key_state, self.value_state)
                )
                out[some, :, head] = attend([q[some, :, head]], [keys], values, masked, self.scale, sink=sink)

    def emit(self, c: CScope) -> None:
        if self.state_type is StateType.I8:
            self._emit_int8(c)
            return
        c.kernel("attention")
        element = "float" if self.state_type is StateType.F32 else "uint16_t"
        heads, kv_heads, head_dim, capacity, q_width, kv_width = self._numbers(c)
        window = f", {'chunks of' if self.chunked else 'window'} {self.window}" if self.window else ""
        ring = f"_{'in' if self.chunked else 'of'}_{capacity}" if self.window else ""
        name = c.instance(
            f"attention_{c.rows}x{heads}x{kv_heads}x{head_dim}{ring}",
            f"out[{c.rows}][{q_width}] from q[{c.rows}][{q_width}], k and v[{c.rows}][{kv_width}]; "
            f"states {self._states_doc(c)} {self.state_type}{window}",
            f"float *restrict out, const float *restrict q, const float *restrict k, const float *restrict v, "
            f"{element} *restrict key_state, {element} *restrict value_state, float *restrict scores, "
            + ("const uint8_t *restrict sinks, " if self.sinks else "")
            + f"uint32_t position{c.part_params}",
            self._rows(
                c,
                f"colibri_attention_{self.state_type}("
                f"{self._operands(c, 'out q k v key_state value_state scores sinks')}, "
                f"{c.each.offset('position')}, {self._shape(c)});",
            ),
        )
        call = (
            f"{name}({c.floats(self.out)}, {c.floats(self.q)}, {c.floats(self.k)}, {c.floats(self.v)}, "
            f"{c.state('key_state')}, {c.state('value_state')}, {c.floats('scores')}, "
            f"{c.weight('sinks') + ', ' if self.sinks else ''}{c.position()}{c.part});"
        )
        c.share([call])

    def _states_doc(self, c: CScope, *, scales: bool = False) -> str:
        """Extents of a state, or of its scales."""
        _, kv_heads, head_dim, capacity, _, kv_width = self._numbers(c)
        if self.shared:
            return f"[{kv_heads}][{capacity}]" + ("" if scales else f"[{head_dim}]")
        return f"[{capacity}][{kv_heads if scales else kv_width}]"

    def _shape(self, c: CScope) -> str:
        """Constants that the kernels take; of a shared op those of one head of keys and values."""
        heads, kv_heads, head_dim, capacity, _, _ = self._numbers(c)
        if self.shared:
            heads, kv_heads = str(self.heads // self.kv_heads), "1"
        chunked = "true" if self.chunked else "false"
        return f"{heads}, {kv_heads}, {head_dim}, {capacity}, {chunked}, {c.float_literal(self.scale)}"

    def _operands(self, c: CScope, names: str) -> str:
        """Arguments of a kernel for one row; of a shared op those of one head of keys and values."""
        *_, q_width, kv_width = self._numbers(c)
        row = {"out": q_width, "q": q_width, "k": kv_width, "v": kv_width}
        group, states = self.heads // self.kv_heads, self.capacity * self.head_dim
        of_head = {"out": group * self.head_dim, "q": group * self.head_dim, "k": self.head_dim, "v": self.head_dim}
        of_head |= {"key_state": states, "value_state": states, "sinks": group, "query": self.head_dim}
        found = []
        for name in names.split():
            place = {"sinks": c.as_floats("sinks", 0) if self.sinks else "NULL"}.get(name, name)
            if name in row:
                place = c.each.at(place, row[name])
            if self.shared and place != "NULL":
                place = f"{place} + head * {of_head.get(name, self.capacity)}"
            found.append(place)
        return ", ".join(found)

    def _rows(self, c: CScope, call: str) -> list[str]:
        """A kernel's body: the call for each row; of a shared op in a loop over this part's heads."""
        lines = c.each.loop([call])
        if not self.shared:
            return lines
        return [*c.loop_over("uint32_t", "head", self.kv_heads), *(f"    {line}" for line in lines), "}"]

    def _emit_int8(self, c: CScope) -> None:
        int8_kernels(c, "attention_int8")
        heads, kv_heads, head_dim, capacity, q_width, kv_width = self._numbers(c)
        window = f", {'chunks of' if self.chunked else 'window'} {self.window}" if self.window else ""
        ring = f"_{'in' if self.chunked else 'of'}_{capacity}" if self.window else ""
        states = "key_state key_scales value_state value_scales"
        name = c.instance(
            f"attention_int8_{c.rows}x{heads}x{kv_heads}x{head_dim}{ring}",
            f"out[{c.rows}][{q_width}] from q[{c.rows}][{q_width}], k and v[{c.rows}][{kv_width}]; "
            f"states {self._states_doc(c)} int8, scales {self._states_doc(c, scales=True)}{window}",
            "float *restrict out, const float *restrict q, const float *restrict k, const float *restrict v, "
            "int8_t *restrict key_state, uint16_t *restrict key_scales, int8_t *restrict value_state, "
            "uint16_t *restrict value_scales, int32_t *restrict scores, int8_t *restrict query, "
            + ("const uint8_t *restrict sinks, " if self.sinks else "")
            + f"uint32_t position{c.part_params}",
            self._rows(
                c,
                f"colibri_attention_int8({self._operands(c, 'out q k v')}, {self._operands(c, states)}, "
                f"{self._operands(c, 'scores query sinks')}, {c.each.offset('position')}, {self._shape(c)}, "
                f"{query_max(self.head_dim)}.0f);",
            ),
        )
        keys, values = c.rows_int8("key_state", self.key_state), c.rows_int8("value_state", self.value_state)
        call = (
            f"{name}({c.floats(self.out)}, {c.floats(self.q)}, {c.floats(self.k)}, {c.floats(self.v)}, "
            f"{keys}, {values}, {c.integers('scores')}, {c.integers('query')}, "
            f"{c.weight('sinks') + ', ' if self.sinks else ''}{c.position()}{c.part});"
        )
        c.share([call])

    def _numbers(self, c: CScope) -> tuple[str, str, str, str, str, str]:
        """Those of the kernel's shape: heads, kv_heads, head_dim, capacity, width of q, width of k and v."""
        return (
            c.number("heads", self.heads),
            c.number("kv_heads", self.kv_heads),
            c.number("head_dim", self.head_dim),
            c.number("capacity", self.capacity),
            c.number("q_width", self.heads * self.head_dim),
            c.number("kv_width", self.kv_heads * self.head_dim),
        )
