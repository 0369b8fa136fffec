"""Put the rows of a call into a state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from colibri.graph.float32 import to_f16
from colibri.graph.graph import Op, StateType

if TYPE_CHECKING:
    from colibri.emit.c_module import CScope
    from colibri.graph.interpret import Run


@dataclass(frozen=True)
class Keep(Op):
    """``state[position + row] = x[row]``, rounded to nearest even where the state is fp16."""

    slot: str
    x: str
    state: str
    width: int
    state_type: StateType

    def reads(self) -> tuple[str, ...]:
        return (self.x,)

    def writes(self) -> tuple[str, ...]:
        return ()

    def states(self) -> dict[str, str]:
        return {self.slot: self.state}

    def signature(self) -> tuple[object, ...]:
        return ("keep", self.slot, self.x, self.width, self.state_type)

    def reference(self, run: Run) -> None:
        rows = run.floats[self.x].reshape(run.sequences, run.length, self.width)
        stored = to_f16(rows) if self.state_type is StateType.F16 else rows
        run.states[self.state][:, run.position : run.position + run.length] = stored

    def emit(self, c: CScope) -> None:
        c.kernel("keep")
        element = "float" if self.state_type is StateType.F32 else "uint16_t"
        name = c.instance(
            f"keep_{self.state_type}_{c.rows}x{self.width}",
            f"state[position...][{self.width}] = x[{c.rows}][{self.width}], {self.state_type}",
            f"{element} *restrict state, const float *restrict x, uint32_t position",
            [f"colibri_keep_{self.state_type}(state + position * {self.width}, x, {c.rows * self.width});"],
        )
        c.line(f"{name}({c.state(self.slot)}, {c.floats(self.x)}, {c.position()});")
