"""Write matrix products: the dot kernel of each tile of rows, what the tail adds, scales and bias."""

from __future__ import annotations

from typing import TYPE_CHECKING

from colibri.graph.coding import GROUP, WeightFormat
from colibri.graph.graph import BufferKind
from colibri.passes.kernels import scheme_name
from colibri.passes.pack import MatrixLayout

if TYPE_CHECKING:
    from colibri.emit.c_module import CScope

ELEMENT = {
    BufferKind.Q8: "int8_t",
    BufferKind.Q16: "int16_t",
    BufferKind.INT8: "int8_t",
    BufferKind.INT32: "int32_t",
}


def linear(c: CScope, layout: MatrixLayout, kind: BufferKind, rows: int, x_stride: int) -> str:
    """Instance of a matrix product ``y[rows][n] = x[rows][k] W^T + bias``; returns its name.

    It takes ``(y, w, x)`` for fp32 and ``(y, w, x, x_scale)`` for quantised x.

    Args:
        x_stride: elements from one row of quantised x to the next; any value for one row.
    """
    n, k, tile, form = layout.n, layout.k, layout.tile_rows, layout.coding.format
    scheme, stem = scheme_name(layout.coding, kind), c.dot_kernel(layout.coding, kind)
    c.kernel("linear")
    c.kernel(stem)
    each, before = c.loop(rows), list[str]()
    y = f"{each.at('y', n)} + n"
    if form.floating:
        data = f"{c.as_values(form, 'w', layout.data)} + n * {layout.padded_k}"
        steps = [
            f"float sum[{tile}];",
            f"colibri_{stem}(sum, {data}, {each.at('x', k)}, {k});",
            f"colibri_store({y}, sum, {_bias(c, layout)}, {row_count(layout)});",
        ]
        params = "float *restrict y, const uint8_t *restrict w, const float *restrict x"
    else:
        x = each.at("x", x_stride)
        store = store_name(layout)
        sums = "int64_t" if store == "colibri_store_wide" else "int32_t"
        steps, operands = [f"{sums} sum[{tile}];"], [x]
        wanted = c.tile(layout.coding, kind)
        if wanted.group_sums:
            count_of_sums = layout.padded_k // GROUP
            own = each.at("sums", count_of_sums)
            before = [
                f"int32_t sums[{rows * count_of_sums}];",
                *each.loop([f"colibri_sum_groups({own}, {x}, {layout.padded_k});"]),
            ]
            operands.append(own)
        steps.append(dot_call(layout, stem, operands, [str(layout.coding.group)] if wanted.any_group else []))
        if layout.tail_count:
            c.kernel("tail")
            own, bits = each.at("tail", layout.tail_count), c.element_bits(kind)
            columns = c.as_shorts("w", layout.tail_columns)
            gather = f"colibri_gather{bits}({own}, {x}, {columns}, {layout.tail_count}, {k});"
            before += [f"{c.element(kind)} tail[{rows * layout.tail_count}];", *each.loop([gather])]
            place = f"w + {layout.tail} + n * {layout.tail_count}"
            steps.append(f"colibri_tail{bits}(sum, {place}, {own}, {layout.tail_count}, {tile});")
        scales = f"{scale_arguments(c, layout)}, {each.element('x_scale')}"
        steps.append(f"{store}({y}, sum, {scales}, {row_count(layout)});")
        params = (
            f"float *restrict y, const uint8_t *restrict w, const {c.element(kind)} *restrict x, "
            "const float *restrict x_scale"
        )
    if not form.floating and wanted.whole and n % tile == 0 and layout.bias < 0 and not layout.tail_count:
        body = [*before, *each.loop([_whole_call(c, layout, stem, each.at("y", n), operands, each.element("x_scale"))])]
    else:
        body = [
            *before,
            f"for (int n = 0; n < {n}; n += {tile}) {{",
            *(f"    {line}" for line in each.loop(steps)),
            "}",
        ]
    plus = "" if layout.bias < 0 else " + bias"
    doc = f"y[{rows}][{n}] = x[{rows}][{k}] W[{n}][{k}]^T{plus}, {scheme}"
    return c.instance(instance_name(layout, kind, str(rows)), doc, params, body)


def _whole_call(c: CScope, layout: MatrixLayout, stem: str, y: str, operands: list[str], x_scale: str) -> str:
    """Call of an integer kernel for the whole matrix."""
    weights = f"w + {layout.data}, w + {layout.group_scale}, {c.row_scale(layout)}"
    function = stem.replace("dot_", "linear_")
    return f"colibri_{function}({y}, {weights}, {', '.join(operands)}, &{x_scale}, {layout.padded_k}, {layout.n});"


def instance_name(layout: MatrixLayout, kind: BufferKind, rows: str) -> str:
    """C name of a product of so many rows."""
    scheme = scheme_name(layout.coding, kind).replace("+", "_")
    return f"linear_{scheme}_{rows}x{layout.n}x{layout.k}{'' if layout.bias < 0 else '_bias'}"


def row_count(layout: MatrixLayout) -> str:
    """Rows of the tile of row ``n`` that exist, as C."""
    n, tile = layout.n, layout.tile_rows
    return str(tile) if n % tile == 0 else f"n + {tile} <= {n} ? {tile} : {n} - n"


def store_name(layout: MatrixLayout) -> str:
    """What stores integer sums."""
    form = layout.coding.format
    return f"colibri_store_{'wide' if form is WeightFormat.FP4 else 'grouped' if form.grouped else 'scaled'}"


def scale_arguments(c: CScope, layout: MatrixLayout) -> str:
    """The scales of the tile of row ``n``, and its bias or NULL."""
    return f"{c.row_scale(layout)} + n, {_bias(c, layout)}"


def _bias(c: CScope, layout: MatrixLayout) -> str:
    return "NULL" if layout.bias < 0 else f"{c.as_floats('w', layout.bias)} + n"


def dot_call(layout: MatrixLayout, stem: str, values: list[str], more: list[str] | None = None) -> str:
    """Call of an integer dot kernel for the tile of row ``n``.

    Args:
        values: the activations, and their sums where the kernel takes them.
        more: what it takes last.
    """
    coding = layout.coding
    operands = [f"w + {layout.data} + n * {layout.row_bytes}"]
    constants = [str(layout.padded_k)]
    if coding.format.grouped:
        operands.append(f"w + {layout.group_scale} + n * {layout.groups}")
    if stem.startswith("dot_planes"):
        operands.append(f"w + {layout.zeros} + n * {layout.groups}" if coding.zero else "NULL")
        constants += [str(coding.format.bits), str(coding.group)]
    return f"colibri_{stem}(sum, {', '.join([*operands, *values, *constants, *(more or [])])});"
