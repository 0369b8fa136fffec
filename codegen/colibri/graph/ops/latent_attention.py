"""Causal attention over latent states: all heads read the same key and value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from colibri.graph.attend_int8 import Rows, attend, attention_scratch, int8_kernels, int8_passes, query_max
from colibri.graph.float32 import LANES, Float, exp, lane_dot, lane_tree
from colibri.graph.graph import Buffer, Op, StateType
from colibri.graph.interpret import scales_of

if TYPE_CHECKING:
    from colibri.emit.c_module import CScope
    from colibri.graph.interpret import Run


@dataclass(frozen=True)
class LatentAttention(Op):
    """Store this row's latent and rotated key, then attend to every position so far.

    Shapes: q ``[rows, heads * rank]`` (queries taken into the latent space), q_rope ``[rows, heads * rope_dim]``,
    latent ``[rows, rank]``, k_rope ``[rows, rope_dim]``, out ``[rows, heads * rank]``. A score is q.latent plus
    q_rope.k_rope (8 lanes each), times ``scale``; the values are the latents themselves, added as `Attention` adds.
    With int8 states all this is done in integers, see `attend_int8`.

    Source: DeepSeek-V2 (arXiv 2405.04434), section 2.1, with the matrices taken into the query and the output.
    """

    q: str
    q_rope: str
    latent: str
    k_rope: str
    out: str
    latent_state: str
    rope_state: str
    heads: int
    rank: int
    rope_dim: int
    capacity: int
    scale: float
    state_type: StateType

    def reads(self) -> tuple[str, ...]:
        return (self.q, self.q_rope, self.latent, self.k_rope)

    def writes(self) -> tuple[str, ...]:
        return (self.out,)

    def scratch(self) -> tuple[Buffer, ...]:
        return attention_scratch(self.state_type, self.capacity, self.rank + self.rope_dim)

    def states(self) -> dict[str, str]:
        return {"latent_state": self.latent_state, "rope_state": self.rope_state}

    def passes(self) -> dict[str, int]:
        """For each position in reach, every head loads its query, and loads and stores its part of ``out``."""
        reach = self.capacity
        states = {self.latent_state: 2 * self.heads, self.rope_state: self.heads}
        if self.state_type is StateType.I8:
            inner = int8_passes(self.heads, self.capacity, self.rank)
            return {**states, **inner, self.q: 2, self.q_rope: 2}
        return {**states, "scores": 2 * self.heads, self.q: reach, self.q_rope: reach, self.out: 2 * reach + 3}

    def signature(self) -> tuple[object, ...]:
        shape = (self.heads, self.rank, self.rope_dim, self.capacity)
        names = (self.q, self.q_rope, self.latent, self.k_rope, self.out)
        return ("latent_attention", *names, *shape, self.scale, self.state_type)

    def reference(self, run: Run) -> None:
        rows, past = (run.sequences, run.length), slice(run.position, run.position + run.length)
        for state, buffer in ((self.latent_state, self.latent), (self.rope_state, self.k_rope)):
            run.keep(state, run.floats[buffer].reshape(*rows, -1), past)
        q = run.floats[self.q].reshape(*rows, self.heads, self.rank)
        turned = run.floats[self.q_rope].reshape(*rows, self.heads, self.rope_dim)
        seen = run.position + run.length
        if self.state_type is StateType.I8:
            self._attend_int8(run, q, turned, seen)
            return
        latents = run.states[self.latent_state][:, :seen].astype(np.float32)
        keys = run.states[self.rope_state][:, :seen].astype(np.float32)
        out = np.empty_like(q)
        for row in range(run.length):
            reach = run.position + row + 1
            for head in range(self.heads):
                near = lane_dot(q[:, row, head, None], latents[:, :reach])
                far = lane_dot(turned[:, row, head, None], keys[:, :reach])
                scores = (near + far) * np.float32(self.scale)
                top = np.fmax.reduce(scores, axis=-1, initial=np.float32(-np.inf))
                terms = exp(scores - top[:, None])
                lanes = np.zeros((run.sequences, LANES), np.float32)
                total = np.zeros((run.sequences, self.rank), np.float32)
                for position in range(reach):
                    lanes[:, position % LANES] += terms[:, position]
                    total += terms[:, position, None] * latents[:, position]
                out[:, row, head] = total * (np.float32(1.0) / lane_tree(lanes))[:, None]
        run.floats[self.out] = out.reshape(run.sequences * run.length, -1)

    def _attend_int8(self, run: Run, q: Float, turned: Float, seen: int) -> None:
        latents, keys = (
            (run.states[name][:, :seen], run.states[scales_of(name)][:, :seen, 0])
            for name in (self.latent_state, self.rope_state)
        )
        parts: list[Rows] = [latents, keys]
        out = np.empty_like(q)
        for row in range(run.length):
            reach = run.position + row + 1
            near = [(elements[:, :reach], scales[:, :reach]) for elements, scales in parts]
            visible = np.zeros((1, reach), np.bool_)
            for head in range(self.heads):
                queries = [one[:, row : row + 1, head] for one in (q, turned)]
                out[:, row, head] = attend(queries, near, near[0], visible, self.scale)[:, 0]
        run.floats[self.out] = out.reshape(run.sequences * run.length, -1)

    def emit(self, c: CScope) -> None:
        if self.state_type is StateType.I8:
            self._emit_int8(c)
            return
        c.kernel("latent_attention")
        each = c.each
        element = "float" if self.state_type is StateType.F32 else "uint16_t"
        heads, rank, rope_dim, capacity, q_width, rope_width = self._numbers(c)
        name = c.instance(
            f"latent_attention_{c.rows}x{heads}x{rank}x{rope_dim}",
            f"out[{c.rows}][{q_width}] from q[{c.rows}][{q_width}], q_rope[{c.rows}][{rope_width}], "
            f"latent[{c.rows}][{rank}], k_rope[{c.rows}][{rope_dim}]; states "
            f"[{capacity}][{rank}] and [{capacity}][{rope_dim}] {self.state_type}",
            "float *restrict out, const float *restrict q, const float *restrict q_rope, "
            "const float *restrict latent, const float *restrict k_rope, "
            f"{element} *restrict latent_state, {element} *restrict rope_state, float *restrict scores, "
            "uint32_t position",
            each.loop(
                [
                    f"colibri_latent_attention_{self.state_type}({each.at('out', q_width)}, {each.at('q', q_width)}, "
                    f"{each.at('q_rope', rope_width)}, {each.at('latent', rank)}, "
                    f"{each.at('k_rope', rope_dim)}, latent_state, rope_state, scores, "
                    f"{each.offset('position')}, {heads}, {rank}, {rope_dim}, "
                    f"{c.float_literal(self.scale)});",
                ]
            ),
        )
        buffers = ", ".join(c.floats(buffer) for buffer in (self.out, *self.reads()))
        c.line(
            f"{name}({buffers}, {c.state('latent_state')}, {c.state('rope_state')}, {c.floats('scores')}, "
            f"{c.position()});"
        )

    def _emit_int8(self, c: CScope) -> None:
        int8_kernels(c, "latent_attention_int8")
        each = c.each
        heads, rank, rope_dim, capacity, q_width, rope_width = self._numbers(c)
        name = c.instance(
            f"latent_attention_int8_{c.rows}x{heads}x{rank}x{rope_dim}",
            f"out[{c.rows}][{q_width}] from q[{c.rows}][{q_width}], q_rope[{c.rows}][{rope_width}], "
            f"latent[{c.rows}][{rank}], k_rope[{c.rows}][{rope_dim}]; states "
            f"[{capacity}][{rank}] and [{capacity}][{rope_dim}] int8, scales [{capacity}]",
            "float *restrict out, const float *restrict q, const float *restrict q_rope, "
            "const float *restrict latent, const float *restrict k_rope, "
            "int8_t *restrict latent_state, uint16_t *restrict latent_scales, int8_t *restrict rope_state, "
            "uint16_t *restrict rope_scales, int32_t *restrict scores, int8_t *restrict query, uint32_t position",
            each.loop(
                [
                    f"colibri_latent_attention_int8({each.at('out', q_width)}, {each.at('q', q_width)}, "
                    f"{each.at('q_rope', rope_width)}, {each.at('latent', rank)}, "
                    f"{each.at('k_rope', rope_dim)}, latent_state, latent_scales, rope_state, rope_scales, "
                    f"scores, query, {each.offset('position')}, {heads}, {rank}, {rope_dim}, "
                    f"{c.float_literal(self.scale)}, {query_max(self.rank + self.rope_dim)}.0f);",
                ]
            ),
        )
        buffers = ", ".join(c.floats(buffer) for buffer in (self.out, *self.reads()))
        latents, keys = c.rows_int8("latent_state", self.latent_state), c.rows_int8("rope_state", self.rope_state)
        c.line(f"{name}({buffers}, {latents}, {keys}, {c.integers('scores')}, {c.integers('query')}, {c.position()});")

    def _numbers(self, c: CScope) -> tuple[str, str, str, str, str, str]:
        """Those of the kernel's shape: heads, rank, rope_dim, capacity, width of q, width of its rotated part."""
        return (
            c.number("heads", self.heads),
            c.number("rank", self.rank),
            c.number("rope_dim", self.rope_dim),
            c.number("capacity", self.capacity),
            c.number("q_width", self.heads * self.rank),
            c.number("rope_width", self.heads * self.rope_dim),
        )
