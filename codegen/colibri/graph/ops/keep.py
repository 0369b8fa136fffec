"""Put the rows of a call into a state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from colibri.graph.graph import Op, StateType

if TYPE_CHECKING:
    from colibri.emit.c_module import CScope
    from colibri.graph.interpret import Run


@dataclass(frozen=True)
class Keep(Op):
    """``state[position + row] = x[row]``, rounded to nearest even where the state is fp16; see `to_int8` for int8.

    Attributes:
        pieces: of a row, each with a scale of its own in an int8 state.
    """

    slot: str
    x: str
    state: str
    width: int
    state_type: StateType
    pieces: int = 1

    def reads(self) -> tuple[str, ...]:
        return (self.x,)

    def writes(self) -> tuple[str, ...]:
        return ()

    def states(self) -> dict[str, str]:
        return {self.slot: self.state}

    def signature(self) -> tuple[object, ...]:
        return ("keep", self.slot, self.x, self.width, self.state_type, self.pieces)

    def reference(self, run: Run) -> None:
        rows = run.floats[self.x].reshape(run.sequences, run.length, self.width)
        run.keep(self.state, rows, slice(run.position, run.position + run.length))

    def emit(self, c: CScope) -> None:
        c.kernel("keep")
        width = c.number("width", self.width)
        if self.state_type is StateType.I8:
            self._emit_int8(c)
            return
        element = "float" if self.state_type is StateType.F32 else "uint16_t"
        name = c.instance(
            f"keep_{self.state_type}_{c.rows}x{width}",
            f"state[position...][{width}] = x[{c.rows}][{width}], {self.state_type}",
            f"{element} *restrict state, const float *restrict x, uint32_t position",
            [f"colibri_keep_{self.state_type}(state + position * {width}, x, {c.values(c.each, self.width)});"],
        )
        c.line(f"{name}({c.state(self.slot)}, {c.floats(self.x)}, {c.position()});")

    def _emit_int8(self, c: CScope) -> None:
        width, pieces = c.number("width", self.width), c.number("pieces", self.pieces)
        piece = c.number("piece", self.width // self.pieces)
        name = c.instance(
            f"keep_int8_{c.rows}x{pieces}x{piece}",
            f"state[position...][{width}] int8 and scales [{pieces}] = x[{c.rows}][{width}]",
            "int8_t *restrict state, uint16_t *restrict scales, const float *restrict x, uint32_t position",
            [
                f"colibri_keep_int8(state + position * {width}, scales + position * {pieces}, x, "
                f"{c.values(c.each, self.pieces)}, {piece});"
            ],
        )
        c.line(f"{name}({c.rows_int8(self.slot, self.state)}, {c.floats(self.x)}, {c.position()});")
