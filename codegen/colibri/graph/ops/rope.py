"""Rotary position embedding, with angles from two small tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from colibri.graph.float32 import Float
from colibri.graph.graph import Op

if TYPE_CHECKING:
    from colibri.emit.c_module import CScope
    from colibri.graph.interpret import Run


def rope_tables(
    inverse_frequencies: NDArray[np.float64], context: int, factor: float = 1.0
) -> tuple[Float, Float, int]:
    """Cosines and sines for positions ``a * step + b``.

    Args:
        inverse_frequencies: ``[head_dim / 2]``, radians a position.
        context: positions that must be covered.
        factor: of all cosines and sines.

    Returns:
        coarse ``[ceil(context / step), head_dim / 2, 2]`` (the angle of a * step, times factor), fine
        ``[step, head_dim / 2, 2]`` (the angle of b), each (cos, sin), and step, a power of two near the square root
        of the context.
    """
    step = 1
    while step * step < context:
        step *= 2

    def table(positions: NDArray[np.int64], times: float) -> Float:
        angles = positions[:, None] * inverse_frequencies
        return (np.stack([np.cos(angles), np.sin(angles)], axis=-1) * times).astype(np.float32)

    return table(np.arange(0, context, step), factor), table(np.arange(step), 1.0), step


@dataclass(frozen=True)
class Rope(Op):
    """Rotate pairs ``(i, i + head_dim / 2)`` of each head by ``position * inverse_frequency[i]``, in place.

    cos and sin of the position follow from the tables by the addition theorems:
    ``cos = ca * cb - sa * sb``, ``sin = sa * cb + ca * sb``. Source: arXiv 2104.09864; the pairing is that of
    transformers' `rotate_half`.
    """

    x: str
    coarse: str
    fine: str
    step: int
    heads: int
    head_dim: int

    def reads(self) -> tuple[str, ...]:
        return (self.x,)

    def writes(self) -> tuple[str, ...]:
        return (self.x,)

    def weights(self) -> dict[str, str]:
        return {"rope_coarse": self.coarse, "rope_fine": self.fine}

    def signature(self) -> tuple[object, ...]:
        return ("rope", self.x, self.step, self.heads, self.head_dim)

    def reference(self, run: Run) -> None:
        positions = run.positions()
        a, b = run.vector(self.coarse)[positions // self.step], run.vector(self.fine)[positions % self.step]
        cos = (a[..., 0] * b[..., 0] - a[..., 1] * b[..., 1])[:, None, :]
        sin = (a[..., 1] * b[..., 0] + a[..., 0] * b[..., 1])[:, None, :]
        x = run.floats[self.x].reshape(-1, self.heads, self.head_dim)
        half = self.head_dim // 2
        low, high = x[..., :half], x[..., half:]
        turned = np.concatenate([low * cos - high * sin, high * cos + low * sin], axis=-1)
        run.floats[self.x] = turned.reshape(x.shape[0], -1)

    def emit(self, c: CScope) -> None:
        c.kernel("rope")
        each, heads, head_dim = c.each, c.number("heads", self.heads), c.number("head_dim", self.head_dim)
        width = c.number("width", self.heads * self.head_dim)
        kernel, size = ("colibri_rope_2", "") if self.head_dim == 2 else ("colibri_rope", f", {head_dim}")
        name = c.instance(
            f"rope_{c.rows}x{heads}x{head_dim}",
            f"rotate x[{c.rows}][{heads}][{head_dim}] by its position",
            "float *restrict x, const uint8_t *restrict coarse, const uint8_t *restrict fine, uint32_t position",
            each.loop(
                [
                    f"{kernel}({each.at('x', width)}, {c.as_floats('coarse', 0)}, {c.as_floats('fine', 0)}, "
                    f"{each.offset('position')}, {self.step}, {heads}{size});"
                ]
            ),
        )
        c.line(f"{name}({c.floats(self.x)}, {c.weight('rope_coarse')}, {c.weight('rope_fine')}, {c.position()});")
