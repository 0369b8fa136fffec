"""The chosen experts' MLPs, added with their weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from colibri.emit.c_experts import activation, at, combine_instance, emit_grouped, emit_shared, hidden_from_sums
from colibri.graph.float32 import ACTIVATIONS, Float, clipped_swiglu, quantise
from colibri.graph.graph import Buffer, BufferKind, Op, Product, TensorClass
from colibri.graph.interpret import Quantised

if TYPE_CHECKING:
    from colibri.emit.c_module import CScope
    from colibri.graph.interpret import Run


@dataclass(frozen=True)
class ExpertWeights:
    """Names of one expert's matrices; ``gate`` is None for a plain two-layer MLP.

    Attributes:
        id: the expert's number in the checkpoint, which stays its name after pruning.
    """

    id: int
    gate: str | None
    up: str
    down: str

    def slots(self) -> dict[str, str]:
        """Slot to weight name, in the order in which the bytes lie."""
        gate = {} if self.gate is None else {"gate": self.gate}
        return {**gate, "up": self.up, "down": self.down}


@dataclass(frozen=True)
class Experts(Op):
    """``out = sum over chosen e, ascending, of weight_e * down_e(act(gate_e x) * up_e x)``.

    Without gate matrices the hidden values are ``act(up_e x)``. x is quantised once for all experts; the hidden
    values are quantised for each (row, expert). The first term is assigned, not added to zero.

    Attributes:
        x: float or quantised buffer ``[rows, width]``.
        hidden_kind: how the hidden values go into ``down``.
        hidden_qmax: largest magnitude of the quantised hidden values.
        weigh_input: the route's weight multiplies an expert's input, not its output.
        grouped: the C takes all rows that chose an expert together, so that its weights are read once a call; no bit
            depends on it.
        estimated: the C quantises ``silu(gate) * up`` from estimates where those decide; no bit depends on it.
        clipped: alpha and limit, where the hidden values are `float32.clipped_swiglu` of gate and up.
    """

    x: str
    route: str
    out: str
    kept: tuple[ExpertWeights, ...]
    top_k: int
    width: int
    hidden: int
    activation: str
    bias: bool
    input_kind: BufferKind = BufferKind.FLOAT
    hidden_kind: BufferKind = BufferKind.FLOAT
    hidden_qmax: int = 0
    clipped: tuple[float, float] | None = None
    weigh_input: bool = False
    grouped: bool = False
    estimated: bool = False

    can_share: ClassVar[bool] = True

    @property
    def gated(self) -> bool:
        """Whether experts have a gate matrix."""
        return self.kept[0].gate is not None

    def reads(self) -> tuple[str, ...]:
        return (self.x, self.route)

    def writes(self) -> tuple[str, ...]:
        return (self.out,)

    def scratch(self) -> tuple[Buffer, ...]:
        rows = 0 if self.grouped else 1
        if self.shared and not self.grouped:
            return self._shared_scratch()
        kind, sums = (BufferKind.INT32, "_sums") if self.estimated else (BufferKind.FLOAT, "")
        buffers = [Buffer(f"expert_hidden{sums}", kind, self.hidden, rows)]
        if self.grouped:
            buffers.append(Buffer("expert_slots", BufferKind.INT32, 1))
        if self.gated:
            buffers.append(Buffer(f"expert_gate{sums}", kind, self.hidden, rows))
        if self.weigh_input:
            width = self.width if self.input_kind is BufferKind.FLOAT else 1
            buffers.append(Buffer("expert_input", BufferKind.FLOAT, width, fixed_rows=1))
        buffers.append(Buffer("expert_down", BufferKind.FLOAT, self.width, rows))
        if self.hidden_kind is not BufferKind.FLOAT:
            buffers.append(Buffer(f"expert_hidden_{self.hidden_kind}", self.hidden_kind, self.hidden, rows))
        if self.estimated:
            buffers.append(Buffer("expert_estimates", BufferKind.FLOAT, self.hidden, fixed_rows=1))
        return tuple(buffers)

    def _shared_scratch(self) -> tuple[Buffer, ...]:
        """The hidden values of all slots wait for all parts; the rest is only used by the part that wrote it."""
        slots = self.top_k
        buffers = [Buffer("expert_hidden", BufferKind.FLOAT, self.hidden, pieces=slots)]
        if self.gated:
            buffers.append(Buffer("expert_gate", BufferKind.FLOAT, self.hidden, fixed_rows=1))
        if self.weigh_input:
            width = self.width if self.input_kind is BufferKind.FLOAT else 1
            buffers.append(Buffer("expert_input", BufferKind.FLOAT, width, pieces=slots))
        buffers.append(Buffer("expert_down", BufferKind.FLOAT, self.width, fixed_rows=1))
        if self.hidden_kind is not BufferKind.FLOAT:
            buffers.append(Buffer(f"expert_hidden_{self.hidden_kind}", self.hidden_kind, self.hidden, pieces=slots))
        return tuple(buffers)

    def experts(self) -> tuple[dict[str, str], ...]:
        return tuple(expert.slots() for expert in self.kept)

    def products(self) -> tuple[Product, ...]:
        hidden = "expert_hidden" if self.hidden_kind is BufferKind.FLOAT else f"expert_hidden_{self.hidden_kind}"
        return tuple(
            Product(name, hidden, self.hidden_kind) if slot == "down" else Product(name, self.x, self.input_kind)
            for slots in self.experts()
            for slot, name in slots.items()
        )

    def passes(self) -> dict[str, int]:
        return {buffer.name: 2 * self.top_k for buffer in self.scratch()}

    def tensor_class(self) -> TensorClass:
        return TensorClass.EXPERTS

    def signature(self) -> tuple[object, ...]:
        shape = (len(self.kept), self.top_k, self.width, self.hidden, self.gated, self.bias)
        kinds = (self.input_kind, self.hidden_kind, self.hidden_qmax)
        return (
            "experts",
            self.x,
            self.route,
            self.out,
            *shape,
            self.activation,
            *kinds,
            self.clipped,
            self.weigh_input,
            self.estimated,
        )

    def reference(self, run: Run) -> None:
        route = run.routes[self.route]
        rows = route.index.shape[0]
        out = np.zeros((rows, self.width), np.float32)
        started = np.zeros(rows, bool)
        for index in range(len(self.kept)):
            chosen, term = self.term(run, index)
            out[chosen] = np.where(started[chosen, None], out[chosen] + term, term)
            started[chosen] = True
        run.floats[self.out] = out

    def term(self, run: Run, index: int) -> tuple[NDArray[np.intp], Float]:
        """What one expert adds: the rows that chose it, and its weighted outputs for them ``[rows, width]``."""
        route = run.routes[self.route]
        chosen, slot = np.nonzero(route.index == index)
        if chosen.size == 0:
            return chosen, np.zeros((0, self.width), np.float32)
        weight = route.weight[chosen, slot]
        if self.weigh_input:
            return chosen, self._expert(run, self.kept[index], chosen, weight)
        return chosen, weight[:, None] * self._expert(run, self.kept[index], chosen)

    def _expert(self, run: Run, expert: ExpertWeights, rows: np.ndarray, weight: Float | None = None) -> Float:
        """One expert's output for some rows, whose inputs are multiplied by the weight if there is one."""
        x: Float | Quantised
        if self.input_kind is BufferKind.FLOAT:
            floats = run.floats[self.x][rows]
            x = floats if weight is None else floats * weight[:, None]
        else:
            whole = run.quantised[self.x]
            scale = whole.scale[rows] if weight is None else whole.scale[rows] * weight
            x = Quantised(whole.integers[rows], scale)
        act = ACTIVATIONS[self.activation]
        hidden = run.product(expert.up, x, rows)
        if expert.gate is None:
            hidden = act(hidden)
        elif self.clipped is None:
            hidden = act(run.product(expert.gate, x, rows)) * hidden
        else:
            hidden = clipped_swiglu(run.product(expert.gate, x, rows), hidden, *self.clipped)
        if self.hidden_kind is BufferKind.FLOAT:
            return run.product(expert.down, hidden, rows)
        return run.product(expert.down, Quantised(*quantise(hidden, self.hidden_qmax)), rows)

    def emit(self, c: CScope) -> None:
        c.kernel("experts")
        c.kernel("float32")
        if self.grouped and c.here.end:
            emit_grouped(self, c)
            return
        if self.shared:
            emit_shared(self, c)
            return
        each, route = c.here, c.route(self.route)
        lines = []
        first, last = ("0", str(self.top_k)) if not each.end else (f"row * {self.top_k}", f"(row + 1) * {self.top_k}")
        lines.append(f"for (uint32_t slot = {first}; slot < {last}; slot++) {{")
        lines.append(f"    const uint8_t *const expert = {c.expert_weights(f'{route.index}[slot]')};")
        lines += [f"    {line}" for line in self._expert_lines(c, f"{route.weight}[slot]")]
        combine = combine_instance(self, c)
        out, down = each.at(c.floats(self.out), self.width), c.floats("expert_down")
        weight = "1.0f" if self.weigh_input else f"{route.weight}[slot]"
        lines.append(f"    {combine}({out}, {down}, {weight}, slot == {first});")
        lines.append("}")
        for line in each.loop(lines):
            c.line(line)

    def _expert_lines(self, c: CScope, weight: str) -> list[str]:
        """One expert's MLP for one row: from x to expert_down.

        Args:
            weight: of the route, as C.
        """
        layouts, each = c.expert(), c.here
        if self.input_kind is BufferKind.FLOAT:
            x, stride = each.at(c.floats(self.x), self.width), self.width
        else:
            q = c.quantised(self.x)
            x, stride = f"{each.at(q.integers, q.stride)}, {each.at(q.scale, 1)}", q.stride
        lines = []
        if self.weigh_input:
            weighed = c.floats("expert_input")
            if self.input_kind is BufferKind.FLOAT:  # the first of a sum is assigned
                lines.append(f"{combine_instance(self, c)}({weighed}, {x}, {weight}, true);")
                x = weighed
            else:
                lines.append(f"{weighed}[0] = {each.element(q.scale)} * {weight};")
                x = f"{each.at(q.integers, q.stride)}, {weighed}"
        if self.estimated:
            lines += hidden_from_sums(self, c, *x.split(", "))
        else:
            lines += self._hidden_lines(c, x, stride)
        if self.hidden_kind is BufferKind.FLOAT:
            inner, stride = c.floats("expert_hidden"), self.hidden
        else:
            hidden = c.quantised(f"expert_hidden_{self.hidden_kind}")
            inner, stride = f"{hidden.integers}, {hidden.scale}", hidden.stride
        linear = c.linear(layouts["down"].layout, self.hidden_kind, c.once, stride)
        lines.append(f"{linear}({c.floats('expert_down')}, {at('expert', layouts['down'].offset)}, {inner});")
        return lines

    def _hidden_lines(self, c: CScope, x: str, stride: int) -> list[str]:
        """An expert's hidden values for one row, quantised unless the scheme is f32."""
        layouts, hidden, lines = c.expert(), c.floats("expert_hidden"), []
        for part in ("gate", "up") if self.gated else ("up",):
            target = c.floats("expert_gate") if part == "gate" else hidden
            linear = c.linear(layouts[part].layout, self.input_kind, c.once, stride)
            lines.append(f"{linear}({target}, {at('expert', layouts[part].offset)}, {x});")
        lines += activation(self, c, hidden, c.floats("expert_gate") if self.gated else "")
        if self.hidden_kind is not BufferKind.FLOAT:
            q = c.quantised(f"expert_hidden_{self.hidden_kind}")
            quantiser = c.quantise(self.hidden, q.stride, self.hidden_kind, self.hidden_qmax, c.once)
            lines.append(f"{quantiser}({q.integers}, {q.scale}, {hidden});")
        return lines
