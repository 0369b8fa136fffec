"""The profile for people."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from colibri.profile.model import ControlFlow, PositionCost, Profile, Spread, Verdict

_FUNCTIONS = 12
_FOREIGN = " (not the package's)"
_VARYING = 8
_VERDICTS = {
    Verdict.CONSTANT: ("constant", "bold green", "every instruction ran equally often, whatever the data"),
    Verdict.CHOICE: ("constant for a choice of experts", "bold green", "it depends on nothing but that choice"),
    Verdict.DATA: ("depends on the data", "bold yellow", "also where the same experts ran"),
    Verdict.OPEN: ("varies", "bold yellow", "and no two inputs ran the same experts: give more data"),
}


def print_profile(profile: Profile, console: Console, *, full: bool = False) -> None:
    """Print the profile.

    Args:
        full: all functions, and every step of every layer.
    """
    console.print(
        Text.assemble(
            (profile.package, "bold"), f"  {profile.scheme}  {profile.board} ({profile.core})  per {profile.unit}"
        ),
        soft_wrap=True,
    )
    _print_positions(profile, console)
    shown = profile.positions[-1]
    if len(profile.positions) > 1:
        console.print(Text(f"\nat position {shown.position}, the last", "bold"))
    _print_steps(profile, shown, console, full)
    _print_functions(shown, console, full)
    _print_memory(shown, console)
    _print_spread(profile, console)
    _print_control_flow(profile.control_flow, console)
    _print_estimate(profile, console)
    note = f": {profile.note}" if profile.note else ""
    console.print()
    console.print(Text(f"counted in {profile.emulator}, which proves the {profile.proves}{note}", "dim"))
    console.print(Text("Instructions are not time; QEMU knows no caches, pipelines or wait states.", "dim"))


def _table(*columns: str, first: str = "") -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column(first, min_width=24, overflow="fold")
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _print_positions(profile: Profile, console: Console) -> None:
    table = _table("instructions", "multiply-adds", "per MAC")
    for cost in profile.positions:
        name = f"position {cost.position}" if profile.unit == "token" else profile.unit
        table.add_row(name, f"{cost.instructions:,}", f"{cost.macs:,}", _ratio(cost.instructions, cost.macs))
    if profile.encode is not None:
        tokens = profile.encode.tokens
        table.add_row(f"encode {tokens}, each token", f"{round(profile.encode.instructions / tokens):,}", "", "")
    if profile.prefill is not None:
        tokens = profile.prefill.tokens
        name = f"prompt of {tokens}, per token"
        table.add_row(name, f"{round(profile.prefill.instructions / tokens):,}", "", "")
    console.print(table)


def _ratio(instructions: int, macs: int) -> str:
    return f"{instructions / macs:.2f}" if macs else ""


def _print_steps(profile: Profile, cost: PositionCost, console: Console, full: bool) -> None:
    console.print()
    if not cost.steps:
        console.print(Text(f"steps and layers cannot be told apart: {profile.no_steps}", "yellow"))
        return
    table = _table("instructions", "share", "multiply-adds", "per MAC", first="step")
    for kind, (instructions, macs) in cost.kinds().items():
        table.add_row(kind, *_counted(cost, instructions, macs))
    console.print(table)
    console.print()
    table = _table("instructions", "share", first="layer")
    for layer, instructions in cost.layers().items():
        name = "outside of layers" if layer < 0 else f"layer {layer}"
        table.add_row(name, *_counted(cost, instructions, 0)[:2])
        if full:
            for step in cost.steps:
                if step.layer == layer:
                    table.add_row(f"  {step.kind} {step.name}", *_counted(cost, step.instructions, 0)[:2])
    console.print(table)


def _counted(cost: PositionCost, instructions: int, macs: int) -> list[str]:
    share = f"{100 * instructions / cost.instructions:.1f} %"
    return [f"{instructions:,}", share, f"{macs:,}" if macs else "", _ratio(instructions, macs)]


def _print_functions(cost: PositionCost, console: Console, full: bool) -> None:
    console.print()
    table = _table("instructions", "share", first="function")
    shown = cost.functions if full else cost.functions[:_FUNCTIONS]
    for one in shown:
        name = one.name if one.model else one.name + _FOREIGN
        table.add_row(name, f"{one.instructions:,}", f"{100 * one.share:.1f} %")
    if rest := cost.functions[len(shown) :]:
        table.add_row(f"{len(rest)} more", f"{sum(one.instructions for one in rest):,}", "")
    console.print(table)


def _print_memory(cost: PositionCost, console: Console) -> None:
    console.print()
    table = _table("loads", "bytes", "stores", "bytes", first="memory")
    for one in cost.memory:
        table.add_row(
            f"{one.region} {one.content}".strip(),
            f"{one.loads:,}",
            f"{one.load_bytes:,}",
            f"{one.stores:,}" if one.stores else "",
            f"{one.store_bytes:,}" if one.stores else "",
        )
    console.print(table)
    outside = "" if cost.outside is None else f", {cost.outside} outside the board's memory"
    bad = bool(cost.unaligned or cost.outside)
    console.print(Text(f"{cost.unaligned} unaligned accesses{outside}", "bold red" if bad else ""))


def _print_spread(profile: Profile, console: Console) -> None:
    console.print()
    console.print(Text(f"on {profile.inputs}", "bold"))
    table = _table("runs", "minimum", "median", "maximum", "spread", first="instructions")
    for one in _some(profile.spread):
        name = profile.unit if one.position is None else f"position {one.position}"
        apart = "none" if one.minimum == one.maximum else f"{100 * (one.maximum / one.minimum - 1):.3f} %"
        table.add_row(name, f"{one.inferences:,}", f"{one.minimum:,}", f"{one.median:,}", f"{one.maximum:,}", apart)
    console.print(table)


def _some(spread: tuple[Spread, ...]) -> tuple[Spread, ...]:
    """First, middle and last, and the widest."""
    if len(spread) < 4:
        return spread
    widest = max(range(len(spread)), key=lambda i: spread[i].maximum - spread[i].minimum)
    return tuple(spread[i] for i in sorted({0, len(spread) // 2, len(spread) - 1, widest}))


def _print_control_flow(flow: ControlFlow, console: Console) -> None:
    title, style, meaning = _VERDICTS[flow.verdict]
    console.print(Text.assemble("control flow: ", (title, style), f": {meaning}"))
    console.print(
        f"  {flow.inferences:,} inferences at {flow.positions:,} positions, {flow.choices:,} choices of experts, "
        f"{flow.same_choice:,} inferences share position and choice with another",
        soft_wrap=True,
    )
    if flow.varying and not any(one.model for one in flow.varying):
        console.print("  only in routines of the compiler, such as those for floats without an FPU:", soft_wrap=True)
    for one in flow.varying[:_VARYING]:
        owner = "" if one.model else _FOREIGN
        same = f", {one.of_choice:,} for a choice of experts" if one.of_choice else ""
        console.print(f"  {one.name}{owner}: up to {one.widest:,} instructions apart{same}", soft_wrap=True)
    if len(flow.varying) > _VARYING:
        console.print(f"  and {len(flow.varying) - _VARYING} more functions")


def _print_estimate(profile: Profile, console: Console) -> None:
    console.print()
    if profile.no_estimate:
        console.print(Text(f"no estimate of time: {profile.no_estimate}"), soft_wrap=True)
        return
    estimates = [(cost, cost.estimate) for cost in profile.positions if cost.estimate is not None]
    console.print(
        Text(
            "estimate of time, from documents; not measured",
            "bold",
        )
    )
    for cost, estimate in estimates:
        name = f"position {cost.position}" if profile.unit == "token" else profile.unit
        console.print(f"  {name}: {estimate.words()}", soft_wrap=True)
    first = estimates[0][1]
    console.print(f"  assumes {first.assumes}", soft_wrap=True)
    for source in first.sources:
        console.print(Text(f"  source: {source}", "dim"), soft_wrap=True)
