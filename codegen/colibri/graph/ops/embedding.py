"""Token embedding: one row of a matrix for each token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from colibri.graph.coding import W4
from colibri.graph.float32 import Float, Int
from colibri.graph.graph import Op, TensorClass
from colibri.graph.weights import AnyMatrix, Matrix

if TYPE_CHECKING:
    from colibri.emit.c_module import CScope
    from colibri.graph.interpret import Run
    from colibri.passes.pack import MatrixLayout


_OWN_FILES = ("planes", "fp4", "pairs", "quads", "plus128", "lanes")


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

    @staticmethod
    def _tail(c: CScope, layout: MatrixLayout) -> list[str]:
        """Its integers, their columns, and how many there are."""
        if not layout.tail_count:
            return ["NULL", "NULL", "0"]
        return [f"w + {layout.tail}", c.as_shorts("w", layout.tail_columns), str(layout.tail_count)]

    def emit(self, c: CScope) -> None:
        layout, each = c.matrix("embedding"), c.each
        coding, form = layout.coding, layout.coding.format
        tile = [str(layout.tile_rows), str(layout.tile_cols), str(layout.padded_k)]
        if form.floating:
            kernel, parts = str(form), [c.as_values(form, "w", layout.data)]
        elif not form.grouped:
            kernel, parts = str(form), [f"w + {layout.data}"]
        else:
            kernel, parts = str(form), [f"w + {layout.data}", f"w + {layout.group_scale}"]
        if layout.order == "plus128":
            kernel = str(layout.order)
        elif layout.order:
            kernel, tile = str(layout.order), [tile[2]]
            if layout.order == "lanes":
                tile.insert(0, str(layout.tile_rows))
            else:
                parts[0] = c.as_shorts("w", layout.data)
            if form.scaled:
                parts += self._tail(c, layout)
                tile.append(str(coding.group))
        elif form.scaled and coding != W4:
            kernel = "planes"
            parts.append(f"w + {layout.zeros}" if coding.zero else "NULL")
            parts += self._tail(c, layout)
            tile = [tile[0], tile[2], str(form.bits), str(coding.group)]
        if not form.floating:
            parts.append(c.row_scale(layout))
        c.kernel(f"embedding_{kernel}" if kernel in _OWN_FILES else "embedding")
        width = c.number("width", self.width)
        operands = ", ".join([*parts, each.element("tokens"), width, *tile])
        name = c.instance(
            f"embedding_{str(coding).replace('+', '_')}_{c.rows}x{width}",
            f"out[{c.rows}][{width}] = table[{self.vocab_size}][{width}], {coding}, at each token",
            "float *restrict out, const uint8_t *restrict w, const uint32_t *restrict tokens",
            each.loop([f"colibri_embedding_{kernel}({each.at('out', width)}, {operands});"]),
        )
        c.line(f"{name}({c.floats(self.out)}, {c.weight('embedding')}, tokens);")
