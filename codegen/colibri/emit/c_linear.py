"""Write matrix products: the dot kernel of each tile of rows, what the tail adds, scales and bias."""

from __future__ import annotations

from typing import TYPE_CHECKING

from colibri.graph.coding import GROUP, WeightFormat
from colibri.graph.graph import BufferKind
from colibri.passes.kernels import scheme_name
from colibri.passes.pack import MatrixLayout, takes_whole

if TYPE_CHECKING:
    from colibri.emit.c_block import Rows
    from colibri.emit.c_module import CScope

ELEMENT = {
    BufferKind.Q8: "int8_t",
    BufferKind.Q16: "int16_t",
    BufferKind.INT8: "int8_t",
    BufferKind.INT32: "int32_t",
}


def linear_sums(c: CScope, layout: MatrixLayout, kind: BufferKind) -> str:
    """Instance of the integer sums ``sums[n] = x[k] W^T`` of a matrix without bias, for a row; returns its name.

    It takes ``(sums, w, x)``; see `linear`, which scales them.
    """
    scheme, stem = scheme_name(layout.coding, kind), c.dot_kernel(layout.coding, kind)
    c.kernel("linear")
    c.kernel(stem)
    tile, n = c.tile(layout.coding, kind), str(layout.n)
    if takes_whole(tile, layout):
        weights = f"w + {layout.data}, w + {layout.group_scale}"
        body = [f"colibri_{stem.replace('dot_', 'sums_')}(sums, {weights}, x, {layout.padded_k}, {n});"]
    else:
        before, steps, _ = _sum_steps(c, layout, kind, c.once, layout.padded_k)
        count = row_count(c, layout) if c.whole_tiles(layout) else f"({row_count(c, layout)})"
        copies = [f"for (int i = 0; i < {count}; i++) {{", "    sums[n + i] = sum[i];", "}"]
        body = [*before, *c.loop_over("int", "n", n, layout.tile_rows)]
        body += [*(f"    {line}" for line in [f"int32_t sum[{layout.tile_rows}];", *steps, *copies]), "}"]
    return c.instance(
        f"{instance_name(layout, kind, '1', n, str(layout.k))}_sums",
        f"sums[1][{n}] = x[1][{layout.k}] W[{n}][{layout.k}]^T, {scheme} without scales",
        f"int32_t *restrict sums, const uint8_t *restrict w, const {c.element(kind)} *restrict x",
        body,
    )


def linear(c: CScope, layout: MatrixLayout, kind: BufferKind, each: Rows, x_stride: int, unit: int = 0) -> str:
    """Instance of a matrix product ``y[rows][n] = x[rows][k] W^T + bias``; returns its name.

    It takes ``(y, w, x)`` for fp32 and ``(y, w, x, x_scale)`` for quantised x.

    Args:
        x_stride: elements from one row of quantised x to the next; any value for one row.
        unit: rows of W that a part of a shared op takes at least; 0 for those of a tile.
    """
    tile, form = layout.tile_rows, layout.coding.format
    n, k = c.number("out_features", layout.n, "int"), c.number("in_features", layout.k, "int")
    padded_k = c.number("padded", layout.padded_k, "int")
    scheme, stem = scheme_name(layout.coding, kind), c.dot_kernel(layout.coding, kind)
    c.kernel("linear")
    c.kernel(stem)
    before = list[str]()
    y = f"{each.at('y', n)} + n"
    if form.floating:
        data = f"{c.as_values(form, 'w', layout.data, 'data')} + n * {padded_k}"
        steps = [
            f"float sum[{tile}];",
            f"colibri_{stem}(sum, {data}, {each.at('x', k)}, {k});",
            f"colibri_store({y}, sum, {_bias(c, layout)}, {row_count(c, layout)});",
        ]
        params = "float *restrict y, const uint8_t *restrict w, const float *restrict x"
    else:
        x = each.at("x", c.number("stride", x_stride, "int"))
        store = store_name(layout)
        sums = "int64_t" if store == "colibri_store_wide" else "int32_t"
        wanted = c.tile(layout.coding, kind)
        before, own_steps, operands = _sum_steps(c, layout, kind, each, x_stride)
        steps = [f"{sums} sum[{tile}];", *own_steps]
        scales = f"{scale_arguments(c, layout)}, {each.element('x_scale')}"
        steps.append(f"{store}({y}, sum, {scales}, {row_count(c, layout)});")
        params = (
            f"float *restrict y, const uint8_t *restrict w, const {c.element(kind)} *restrict x, "
            "const float *restrict x_scale"
        )
    if not form.floating and takes_whole(wanted, layout) and c.whole_tiles(layout) and not c.op.shared:
        steps = [_whole_call(c, layout, stem, each.at("y", n), operands, each.element("x_scale"))]
        if wanted.between:
            before = [f"int32_t between[{c.extent('between', layout.padded_k // GROUP * wanted.between)}];"]
            steps = [
                f"colibri_sum_groups_between(between, {x}, {padded_k});",
                _whole_call(c, layout, stem, each.at("y", n), ["between"], each.element("x_scale")),
            ]
        body = [*before, *each.loop(steps)]
    else:
        body = [
            *before,
            *c.loop_over("int", "n", n, tile, unit),
            *(f"    {line}" for line in each.loop(steps)),
            "}",
        ]
    plus = "" if layout.bias < 0 else " + bias"
    rows = each.shown
    doc = f"y[{rows}][{n}] = x[{rows}][{k}] W[{n}][{k}]^T{plus}, {scheme}"
    return c.instance(instance_name(layout, kind, rows, n, k), doc, params + c.part_params, body)


def _sum_steps(
    c: CScope, layout: MatrixLayout, kind: BufferKind, each: Rows, x_stride: int
) -> tuple[list[str], list[str], list[str]]:
    """What stands before the loop over tiles, what makes a tile's integer sums, and the dot kernel's operands."""
    padded_k, k = c.number("padded", layout.padded_k, "int"), c.number("in_features", layout.k, "int")
    x = each.at("x", c.number("stride", x_stride, "int"))
    before, operands = list[str](), [x]
    wanted = c.tile(layout.coding, kind)
    if wanted.group_sums:
        count_of_sums = layout.padded_k // GROUP
        own = each.at("sums", c.number("groups", count_of_sums, "int"))
        before = [
            f"int32_t sums[{c.extent('sums', each.count * count_of_sums)}];",
            *each.loop([f"colibri_sum_groups({own}, {x}, {padded_k});"]),
        ]
        operands.append(own)
    more = [str(layout.coding.group)] if wanted.any_group else []
    steps = [dot_call(c, layout, c.dot_kernel(layout.coding, kind), operands, more)]
    if layout.tail_count:
        c.kernel("tail")
        count = c.number("tail_count", layout.tail_count, "int")
        own, bits = each.at("tail", count), c.element_bits(kind)
        columns = c.as_shorts("w", layout.tail_columns, "tail_columns")
        gather = f"colibri_gather{bits}({own}, {x}, {columns}, {count}, {k});"
        length = c.extent("tail", each.count * layout.tail_count)
        before += [f"{c.element(kind)} tail[{length}];", *each.loop([gather])]
        place = f"w + {c.number('tail_data', layout.tail, 'int')} + n * {count}"
        steps.append(f"colibri_tail{bits}(sum, {place}, {own}, {count}, {layout.tile_rows});")
    return before, steps, operands


def _whole_call(c: CScope, layout: MatrixLayout, stem: str, y: str, operands: list[str], x_scale: str) -> str:
    """Call of an integer kernel for the whole matrix."""
    data, group_scale = (c.number(name, getattr(layout, name), "int") for name in ("data", "group_scale"))
    weights = f"w + {data}, w + {group_scale}, {c.row_scale(layout)}"
    k, n = c.number("padded", layout.padded_k, "int"), c.number("out_features", layout.n, "int")
    function = stem.replace("dot_", "linear_")
    return f"colibri_{function}({y}, {weights}, {', '.join(operands)}, &{x_scale}, {k}, {n});"


def instance_name(layout: MatrixLayout, kind: BufferKind, rows: str, n: str, k: str) -> str:
    """C name of a product of so many rows, with as many outputs and inputs."""
    scheme = scheme_name(layout.coding, kind).replace("+", "_")
    return f"linear_{scheme}_{rows}x{n}x{k}{'' if layout.bias < 0 else '_bias'}"


def row_count(c: CScope, layout: MatrixLayout) -> str:
    """Rows of the tile of row ``n`` that exist, as C."""
    n, tile = c.number("out_features", layout.n, "int"), layout.tile_rows
    if c.whole_tiles(layout):
        return str(tile)
    left = f"{n} - n"
    if c.whole_rows:  # gcc sees that a remainder is no whole register of sums, and warns of what it cannot rule out
        left = str(layout.n % tile) if n.isdigit() else f"{n} % {tile}"
    return f"n + {tile} <= {n} ? {tile} : {left}"


def store_name(layout: MatrixLayout) -> str:
    """What stores integer sums."""
    form = layout.coding.format
    return f"colibri_store_{'wide' if form is WeightFormat.FP4 else 'grouped' if form.grouped else 'scaled'}"


def scale_arguments(c: CScope, layout: MatrixLayout) -> str:
    """The scales of the tile of row ``n``, and its bias or NULL."""
    return f"{c.row_scale(layout)} + n, {_bias(c, layout)}"


def _bias(c: CScope, layout: MatrixLayout) -> str:
    return "NULL" if layout.bias < 0 else f"{c.as_floats('w', layout.bias, 'bias')} + n"


def dot_call(c: CScope, layout: MatrixLayout, stem: str, values: list[str], more: list[str] | None = None) -> str:
    """Call of an integer dot kernel for the tile of row ``n``.

    Args:
        values: the activations, and their sums where the kernel takes them.
        more: what it takes last.
    """
    coding = layout.coding
    groups = c.number("groups", layout.groups, "int")
    data, row_bytes = c.number("data", layout.data, "int"), c.number("row_bytes", layout.row_bytes, "int")
    operands = [f"w + {data} + n * {row_bytes}"]
    constants = [c.number("padded", layout.padded_k, "int")]
    if coding.format.grouped:
        operands.append(f"w + {c.number('group_scale', layout.group_scale, 'int')} + n * {groups}")
    if stem.startswith("dot_planes"):
        operands.append(f"w + {c.number('zeros', layout.zeros, 'int')} + n * {groups}" if coding.zero else "NULL")
        constants += [str(coding.format.bits), str(coding.group)]
    return f"colibri_{stem}(sum, {', '.join([*operands, *values, *constants, *(more or [])])});"
