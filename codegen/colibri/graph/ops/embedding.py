"""Token embedding: one row of a matrix for each token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from colibri.graph.coding import WeightFormat
from colibri.graph.float32 import Float, Int
from colibri.graph.graph import Op, TensorClass
from colibri.graph.weights import AnyMatrix, Matrix

if TYPE_CHECKING:
    from colibri.emit.c_module import CScope
    from colibri.graph.interpret import Run


@dataclass(frozen=True)
class Embedding(Op):
    """``out[row] = table[token[row]]``; a quantised row is ``(float)(integer * group scale) * row scale``."""

    tokens: str
    out: str
    table: str
    vocab_size: int
    width: int

    def reads(self) -> tuple[str, ...]:
        return (self.tokens,)

    def writes(self) -> tuple[str, ...]:
        return (self.out,)

    def weights(self) -> dict[str, str]:
        return {"embedding": self.table}

    def tensor_class(self) -> TensorClass:
        return TensorClass.EMBEDDING

    def signature(self) -> tuple[object, ...]:
        return ("embedding", self.out, self.vocab_size, self.width)

    def reference(self, run: Run) -> None:
        assert run.tokens is not None
        run.floats[self.out] = self._looked_up(run.matrix(self.table), run.tokens)

    def _looked_up(self, table: AnyMatrix, tokens: Int) -> Float:
        if not isinstance(table, Matrix):
            rows = [self._looked_up(table.rows(token, token + 1), np.zeros(1, np.int32)) for token in tokens.tolist()]
            return np.concatenate(rows)
        if table.format.floating:
            assert table.dense is not None
            return table.dense[tokens]
        assert table.row_scale is not None
        integers = table.combined[tokens].astype(np.float32)
        return integers * table.row_scale[tokens, None]

    def emit(self, c: CScope) -> None:
        layout, each = c.matrix("embedding"), c.each
        form = layout.coding.format
        c.kernel("embedding_fp4" if form is WeightFormat.FP4 else "embedding")
        grouped = f"w + {layout.data}, w + {layout.group_scale}, {c.as_floats('w', layout.row_scale)}"
        parts = {
            WeightFormat.F32: f"{c.as_floats('w', layout.data)}",
            WeightFormat.W8: f"w + {layout.data}, {c.as_floats('w', layout.row_scale)}",
            WeightFormat.W4: grouped,
            WeightFormat.FP4: grouped,
        }[form]
        name = c.instance(
            f"embedding_{form}_{c.rows}x{self.width}",
            f"out[{c.rows}][{self.width}] = table[{self.vocab_size}][{self.width}], {form}, at each token",
            "float *restrict out, const uint8_t *restrict w, const uint32_t *restrict tokens",
            each.loop(
                [
                    f"colibri_embedding_{form}({each.at('out', self.width)}, {parts}, {each.element('tokens')}, "
                    f"{self.width}, {layout.tile_rows}, {layout.tile_cols}, {layout.padded_k});"
                ]
            ),
        )
        c.line(f"{name}({c.floats(self.out)}, {c.weight('embedding')}, tokens);")
