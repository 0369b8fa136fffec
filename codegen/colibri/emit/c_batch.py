"""Write matrix products of many rows: kernels that multiply a tile of weights with several inputs at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from colibri.emit.c_linear import dot_call, instance_name, row_count, scale_arguments, store_name
from colibri.graph.coding import GROUP
from colibri.graph.graph import BufferKind
from colibri.passes.kernels import scheme_name
from colibri.passes.pack import MatrixLayout, aligned

if TYPE_CHECKING:
    from colibri.emit.c_module import CScope

MOST_ROWS = 64  # with which a tile of weights is multiplied before the next: more need no fewer reads, but more stack
MOST_FACTS = 256 << 10  # bytes of stack for what kernels want to know of these rows: large models have fewer at once


def linear_batch(c: CScope, layout: MatrixLayout, kind: BufferKind, x_stride: int, rows: int) -> str:
    """Instance of ``y[rows][n] = x[rows][k] W^T + bias``, x quantised; it takes ``(y, w, x, x_scale)``.

    Its name is returned. A tile of weights is read once and meets all rows.
    """
    return _instance(c, layout, kind, x_stride, rows=rows)


def linear_chosen(c: CScope, layout: MatrixLayout, kind: BufferKind, x_stride: int, top_k: int, unit: int = 0) -> str:
    """The same for the rows of x to which slots of a route belong: ``(y, w, x, x_scale, slots, count)``.

    Args:
        top_k: slots of a row; 0 if x has the wanted rows alone, one behind the other: ``(y, w, x, x_scale, count)``.
        unit: rows of W that a part of a shared op takes at least; 0 for those of a tile.
    """
    return _instance(c, layout, kind, x_stride, top_k=top_k, unit=unit)


def _instance(
    c: CScope, layout: MatrixLayout, kind: BufferKind, x_stride: int, *, rows: int = 0, top_k: int = 0, unit: int = 0
) -> str:
    n, k, tile, at_once = layout.n, layout.padded_k, layout.tile_rows, c.inputs(layout, kind)
    stem, element, store = c.dot_kernel(layout.coding, kind), c.element(kind), store_name(layout)
    c.kernel("linear")
    c.kernel(stem)
    scales, sums = scale_arguments(c, layout), "int64_t" if store == "colibri_store_wide" else "int32_t"
    count = str(rows) if rows else "count"
    possible = rows or c.here.count  # no row chooses an expert twice
    told = c.tile(layout.coding, kind).facts * k
    groups = min(MOST_ROWS // at_once, max(1, MOST_FACTS // told) if told else MOST_ROWS)
    most = min(aligned(possible, at_once), groups * at_once)
    if rows > most:
        most = aligned(-(-rows // -(-rows // most)), at_once)  # about as many each time
    whole = 0 < rows <= most  # all rows are taken together
    even = whole and rows % at_once == 0
    first, some = ("", count) if whole else ("first + ", "some")

    def place(row: str) -> str:
        """Of a row in x and x_scale."""
        return f"slots[{row}] / {top_k}" if top_k else row

    def stored(row: str, own: str) -> str:
        row = first + row
        y = f"y + {f'({row})' if ' ' in row else row} * {n} + n"
        return f"{store}({y}, {own}, {scales}, x_scale[{place(row)}], {row_count(c, layout)});"

    at_least_two = f"i < {some}" if even else f"i + 1 < {some}"
    operands, facts, gather = ["inputs + i"], list[str](), list[str]()
    if told:
        operands.append(f"facts[i / {at_once}]")
        facts = [f"int32_t facts[{most // at_once}][COLIBRI_{stem.upper()}_FACTS({k})];"]
        gather = [
            f"for (uint32_t i = 0; {at_least_two}; i += {at_once}) {{",
            f"    colibri_{stem}_facts(facts[i / {at_once}], inputs + i, {k});",
            "}",
        ]
    body = [
        f"for (uint32_t i = 0; i < {most}; i++) {{ /* what would be behind the last is the last */",
        f"    const uint32_t row = {f'{first}(i < some ? i : some - 1)' if first else f'i < {rows} ? i : {rows - 1}'};",
        f"    inputs[i] = x + {place('row')} * {x_stride};",
        "}",
    ]
    if even:
        body = [f"for (uint32_t i = 0; i < {most}; i++) {{", f"    inputs[i] = x + {place('i')} * {x_stride};", "}"]
    last = not rows or rows % at_once == 1  # one that may be left goes alone
    alone = ["inputs[i]"]
    if last and c.tile(layout.coding, kind).group_sums:
        alone.append("sums")
        facts.append(f"int32_t sums[{k // GROUP}];")
        gather += [f"if ({some} % {at_once} == 1) {{", f"    colibri_sum_groups(sums, inputs[{some} - 1], {k});", "}"]
    more = list[str]()
    if c.tile(layout.coding, kind).fetches:
        calls = str(rows // at_once + (rows % at_once > 1)) if whole else "calls"
        more = [f"i / {at_once}", calls]
        gather += [] if whole else [f"const uint32_t calls = (some + {at_once - 2}) / {at_once};"]
    body += [
        *gather,
        *c.loop_over("int", "n", n, tile, unit),
        *(["    uint32_t i = 0;", f"    for (; {at_least_two}; i += {at_once}) {{"] if last else []),
        *([] if last else [f"    for (uint32_t i = 0; {at_least_two}; i += {at_once}) {{"]),
        f"        {sums} sum[{at_once * tile}];",
        f"        {dot_call(c, layout, f'{stem}_inputs', operands, more)}",
        f"        for (uint32_t j = 0; j < {at_once}{'' if even else f' && i + j < {some}'}; j++) {{",
        f"            {stored('i + j', f'sum + j * {tile}')}",
        "        }",
        "    }",
    ]
    if last:
        body += [
            f"    if (i < {some}) {{",
            f"        {sums} sum[{tile}];",
            f"        {dot_call(c, layout, stem, alone)}",
            f"        {stored('i', 'sum')}",
            "    }",
        ]
    body.append("}")
    if not whole:
        body = [
            f"for (uint32_t first = 0; first < {count}; first += {most}) {{",
            f"    const uint32_t some = {count} - first < {most} ? {count} - first : {most};",
            *(f"    {line}" for line in body),
            "}",
        ]
    body = [f"const {element} *inputs[{most}];", *facts, *body]
    params = f"float *restrict y, const uint8_t *restrict w, const {element} *restrict x, const float *restrict x_scale"
    which = f"x[{count}]"
    if not rows:
        params += ", const int32_t *restrict slots, uint32_t count" if top_k else ", uint32_t count"
        which = f"x[slots[count] / {top_k}]" if top_k else which
    plus = "" if layout.bias < 0 else " + bias"
    doc = f"y[{count}][{n}] = {which}[{layout.k}] W[{n}][{layout.k}]^T{plus}, {scheme_name(layout.coding, kind)}"
    which = str(rows) if rows else f"top{top_k}" if top_k else "some"
    name = instance_name(layout, kind, which, str(n), str(layout.k))
    return c.instance(name, doc, params + c.part_params, body)
