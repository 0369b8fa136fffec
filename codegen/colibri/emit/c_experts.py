"""Write the chosen experts' MLPs: all rows of a call that chose an expert together, and with several threads."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from colibri.graph.graph import BufferKind

if TYPE_CHECKING:
    from colibri.emit.c_module import CScope
    from colibri.graph.ops import Experts


def emit_grouped(op: Experts, c: CScope) -> None:
    """Expert by expert, in ascending index: each with all rows that chose it."""
    route, layouts, x = c.route(op.route), c.expert(), c.quantised(op.x)
    slots, hidden, down = c.integers("expert_slots"), c.floats("expert_hidden"), c.floats("expert_down")
    q = c.quantised(f"expert_hidden_{op.hidden_kind}")
    expert = f"const uint8_t *const expert = {c.expert_weights('index')};"
    unit = _unit(op, c)
    product = {
        part: c.linear_chosen(layouts[part].layout, op.input_kind, x.stride, op.top_k, unit)
        for part in (("gate", "up") if op.gated else ("up",))
    }
    c.line(f"for (uint32_t index = 0; index < {len(op.kept)}; index++) {{")
    c.line(f"    const uint32_t count = colibri_slots_of({slots}, {route.index}, {c.here.times(op.top_k)}, index);")
    if op.shared:
        for line in ("if (count == 0) {", "    continue; /* three jobs less to hand out */", "}"):
            c.line(f"    {line}")
        c.line(f"    {c.tell('uint32_t', 'index')}")
        c.line(f"    {c.tell('uint32_t', 'count')}")
    lines = [expert]
    for part, called in product.items():
        target = c.floats("expert_gate") if part == "gate" else hidden
        operands = f"{x.integers}, {x.scale}, {slots}, count{c.part}"
        lines.append(f"{called}({target}, {at('expert', layouts[part].offset)}, {operands});")
    own, row = f"{hidden} + i * {op.hidden}", "for (uint32_t i = 0; i < count; i++) {"
    active = activation(op, c, own, f"{c.floats('expert_gate')} + i * {op.hidden}" if op.gated else "")
    quantiser = c.quantise(op.hidden, q.stride, op.hidden_kind, op.hidden_qmax, c.once)
    quantised = f"    {quantiser}({q.integers} + i * {q.stride}, {q.scale} + i, {own});"
    if op.shared:
        lines += [row, *_indented(active), "}"] if active else []
        c.share(lines, "    ")
        c.join()
        c.share([*c.loop_over("uint32_t", "i", "count"), quantised, "}"], "    ")
        c.join()
        lines = [expert]
    else:
        lines += [row, *_indented(active), quantised, "}"]
    called = c.linear_chosen(layouts["down"].layout, op.hidden_kind, q.stride, 0)
    operands = f"{q.integers}, {q.scale}, count{c.part}"
    lines.append(f"{called}({down}, {at('expert', layouts['down'].offset)}, {operands});")
    out = f"{c.floats(op.out)} + {slots}[i] / {op.top_k} * {op.width}"
    weight, first = f"{route.weight}[{slots}[i]]", f"{slots}[i] % {op.top_k} == 0"
    combine = combine_instance(op, c, layouts["down"].layout.tile_rows)
    lines += [row, f"    {combine}({out}, {down} + i * {op.width}, {weight}, {first}{c.part});", "}"]
    c.share(lines, "    ")
    c.line("}")


def emit_shared(op: Experts, c: CScope) -> None:
    """All chosen experts' hidden values in one job, their sum in another one."""
    layouts, route, each, hidden = c.expert(), c.route(op.route), c.here, c.floats("expert_hidden")
    first, last = ("0", str(op.top_k)) if not c.here.end else (f"row * {op.top_k}", f"(row + 1) * {op.top_k}")
    slots = f"for (uint32_t slot = {first}; slot < {last}; slot++) {{"
    expert = f"    const uint8_t *const expert = {c.expert_weights(f'{route.index}[slot]')};"
    unit, x = _unit(op, c), _input(op, c)
    stride = op.width if op.input_kind is BufferKind.FLOAT else c.quantised(op.x).stride
    if op.weigh_input:
        for line in each.loop([slots, f"    {_weighed(op, c, f'{route.weight}[slot]')}", "}"]):
            c.line(line)
    lines = [slots, expert]
    for part in ("gate", "up") if op.gated else ("up",):
        target = c.floats("expert_gate") if part == "gate" else f"{hidden} + slot * {op.hidden}"
        linear = c.linear(layouts[part].layout, op.input_kind, c.once, stride, unit)
        lines.append(f"    {linear}({target}, {at('expert', layouts[part].offset)}, {x}{c.part});")
    gate = c.floats("expert_gate") if op.gated else ""
    lines += _indented(activation(op, c, f"{hidden} + slot * {op.hidden}", gate))
    c.share(each.loop([*lines, "}"]))
    c.join()
    inner, inner_stride = f"{hidden} + slot * {op.hidden}", op.hidden
    if op.hidden_kind is not BufferKind.FLOAT:
        q = c.quantised(f"expert_hidden_{op.hidden_kind}")
        quantiser = c.quantise(op.hidden, q.stride, op.hidden_kind, op.hidden_qmax, c.loop(op.top_k))
        c.line(f"{quantiser}({q.integers}, {q.scale}, {hidden});")
        inner, inner_stride = f"{q.integers} + slot * {q.stride}, {q.scale} + slot", q.stride
    down = layouts["down"]
    linear = c.linear(down.layout, op.hidden_kind, c.once, inner_stride)
    weight = "1.0f" if op.weigh_input else f"{route.weight}[slot]"
    out, term = each.at(c.floats(op.out), op.width), c.floats("expert_down")
    combine = combine_instance(op, c, down.layout.tile_rows)
    c.share(
        each.loop(
            [
                slots,
                expert,
                f"    {linear}({term}, {at('expert', down.offset)}, {inner}{c.part});",
                f"    {combine}({out}, {term}, {weight}, slot == {first}{c.part});",
                "}",
            ]
        )
    )


def _unit(op: Experts, c: CScope) -> int:
    """Hidden values that a part takes at least: whole tiles of both matrices."""
    layouts = c.expert()
    return math.lcm(*(part.layout.tile_rows for slot, part in layouts.items() if slot != "down"))


def activation(op: Experts, c: CScope, hidden: str, gate: str) -> list[str]:
    """What becomes of a row of hidden values in place."""
    unit = _unit(op, c)
    if op.gated:
        return [f"{c.gate(op.activation, c.values(c.once, op.hidden), op.clipped, unit)}({hidden}, {gate}{c.part});"]
    if op.activation != "identity":
        return [f"{c.activate(op.activation, c.values(c.once, op.hidden), unit)}({hidden}{c.part});"]
    return []


def hidden_from_sums(op: Experts, c: CScope, x: str, x_scale: str) -> list[str]:
    """An expert's quantised hidden values for one row, where most are estimated from the integer sums of gate and up.

    Args:
        x: the row's integers.
        x_scale: pointer to their scale.
    """
    c.kernel("hidden_int8")
    q, layouts = c.quantised(f"expert_hidden_{op.hidden_kind}"), c.expert()
    up, gate = c.integers("expert_hidden_sums"), c.integers("expert_gate_sums")
    lines, scales = [], {}
    for part, sums in (("gate", gate), ("up", up)):
        layout, own = layouts[part].layout, at("expert", layouts[part].offset)
        lines.append(f"{c.linear_sums(layout, op.input_kind)}({sums}, {own}, {x});")
        place = c.as_shorts if layout.coding.format.grouped else c.as_floats
        scales[part] = place(part, layout.row_scale)
    width, limit = op.hidden, op.hidden_qmax
    called = f"colibri_hidden_int8_{'grouped' if layouts['up'].layout.coding.format.grouped else 'scaled'}"
    operands = f"sums_of_up, {scales['up']}, sums_of_gate, {scales['gate']}, x_scale"
    name = c.instance(
        f"silu_times_int8_{width}{'' if q.stride == width else f'_in_{q.stride}'}_to_{limit}",
        f"y[{q.stride}] = silu(gate[{width}]) * up[{width}] / scale[1], within +-{limit}, from their sums",
        "int8_t *restrict y, float *restrict scale, float *restrict estimates, const int32_t *restrict sums_of_up, "
        "const uint8_t *restrict up, const int32_t *restrict sums_of_gate, const uint8_t *restrict gate, "
        "const float *restrict x_scale",
        [f"{called}(y, scale, estimates, {operands}, {width}, {q.stride}, {limit}.0f);"],
    )
    weights = [at("expert", layouts[part].offset) for part in ("up", "gate")]
    operands = f"{c.floats('expert_estimates')}, {up}, {weights[0]}, {gate}, {weights[1]}, {x_scale}"
    return [*lines, f"{name}({q.integers}, {q.scale}, {operands});"]


def _input(op: Experts, c: CScope) -> str:
    """What a slot of a row gives to its expert."""
    weighed = f"{c.floats('expert_input')} + slot" if op.weigh_input else ""
    if op.input_kind is BufferKind.FLOAT:
        return f"{weighed} * {op.width}" if weighed else c.here.at(c.floats(op.x), op.width)
    q = c.quantised(op.x)
    return f"{c.here.at(q.integers, q.stride)}, {weighed or c.here.at(q.scale, 1)}"


def _weighed(op: Experts, c: CScope, weight: str) -> str:
    """A slot's input, or its scale, times the weight of its route."""
    weighed = c.floats("expert_input")
    if op.input_kind is BufferKind.FLOAT:  # the first of a sum is assigned
        x = c.here.at(c.floats(op.x), op.width)
        return f"{combine_instance(op, c)}({weighed} + slot * {op.width}, {x}, {weight}, true);"
    return f"{weighed}[slot] = {c.here.element(c.quantised(op.x).scale)} * {weight};"


def combine_instance(op: Experts, c: CScope, unit: int = 0) -> str:
    """Instance that adds a weighted row; of a shared op a part of it, for the unit of `CScope.loop_over`."""
    params, call = "float *restrict out, const float *restrict x, float weight, bool first", "out, x, weight, first"
    width = c.number("width", op.width, "int")
    body = [f"colibri_combine({call}, {width});"]
    if op.shared and unit:
        begin, end = (f"colibri_part_of({op.width}, {unit}, {part}, parts)" for part in ("part", "part + 1"))
        body = [
            f"const uint32_t begin = {begin};",
            f"colibri_combine(out + begin, x + begin, weight, first, (int)({end} - begin));",
        ]
        params += c.part_params
    return c.instance(
        f"combine_{width}",
        f"out[{width}] = weight * x[{width}] for the first expert, added for the others",
        params,
        body,
    )


def at(pointer: str, offset: int) -> str:
    """So many bytes behind a pointer."""
    return f"{pointer} + {offset}" if offset else pointer


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]
