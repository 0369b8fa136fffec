"""A pruning on the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from colibri.evaluate.table import print_evaluation
from colibri.prune.model import DEAD, ExpertFacts, Pruning, Step

_MOST = 64  # experts that have a row each; beyond, only those that go


def print_pruning(found: Pruning, console: Console) -> None:
    """Each expert, what goes in which order, and what that costs."""
    name = f"{found.loss:.4f} {found.loss_is}"
    console.print(f"{found.rows:,} {found.unit} through the model in {found.search}: {name}", soft_wrap=True)
    console.print(_experts(found))
    for line in _remarks(found):
        console.print(line, soft_wrap=True)
    if not found.steps:
        return
    console.print()
    console.print(_steps(found))
    console.print()
    for line in summary(found):
        console.print(line, soft_wrap=True)
    if found.evaluation is not None:
        console.print()
        print_evaluation(found.evaluation, console)


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right", no_wrap=True)
    return table


def _experts(found: Pruning) -> Table:
    steps = {(step.layer, step.id): step for step in found.steps}
    rows = [one for one in found.experts if len(found.experts) <= _MOST or (one.layer, one.id) in steps]
    measured = any(one.lost is not None for one in rows)
    lost = ["loss\nwithout it"] if measured else []
    what = [""] if steps else []
    table = _table("layer.expert", "chosen\nby", "weight,\n%", "norm", "layer's\nchange, %", *lost, "bytes", *what)
    layer = None
    for one in rows:
        cells = [
            f"{one.layer}.{one.id}",
            (f"{100 * one.hit_share:.2f} %" if one.hit_share > DEAD else f"{one.hits:,}") if one.hits else "none",
            f"{100 * one.mass_share:.2f}",
            "" if one.norm is None else f"{one.norm:.3g}",
            "stays" if one.error is None else f"{100 * one.error:.1f}",
        ]
        cells += [_signed(one.lost)] if measured else []
        cells.append(f"{one.bytes:,}")
        cells += [_fate(steps.get((one.layer, one.id)))] if steps else []
        if layer not in (None, one.layer):
            table.add_section()
        layer = one.layer
        table.add_row(*cells)
    return table


def _fate(step: Step | None) -> str:
    if step is None:
        return ""
    return "goes" if step.into is None else f"into {step.layer}.{step.into}"


def _signed(value: float | None) -> str:
    return "" if value is None else f"{round(value, 4) + 0.0:+.4f}"  # + 0.0: no minus before zero


def _remarks(found: Pruning) -> list[str]:
    lines = []
    if never := [one for one in found.experts if not one.hits]:
        lines.append(f"never chosen, so that nothing can be measured of them: {_names(never)}")
    if hardly := [one for one in found.dead if one.hits]:
        lines.append(f"as good as dead, chosen by at most one of 10,000: {_names(hardly)}")
    if bound := [one for one in found.experts if one.error is None]:
        lines.append(f"cannot go, since the router needs as many: {_names(bound)}")
    return lines


def _names(experts: tuple[ExpertFacts, ...] | list[ExpertFacts]) -> str:
    names = [f"{one.layer}.{one.id}" for one in experts]
    return ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")


def _steps(found: Pruning) -> Table:
    table = _table("goes", f"{found.loss_is},\nabove the whole model", "model.bin,\nbytes")
    for step in found.steps:
        name = f"{step.layer}.{step.id}" + ("" if step.into is None else f" into {step.layer}.{step.into}")
        table.add_row(name, _signed(step.lost), f"{step.weight_bytes:,}")
    return table


def summary(found: Pruning) -> list[str]:
    """What was saved, and what the experts that stay do."""
    before, after = found.weight_bytes
    lines = [
        f"{found.recipe}: {before:,} bytes before, {after:,} after: {before - after:,} saved; "
        f"{found.macs[0]:,} multiply-adds a {found.unit.rstrip('s')} before, {found.macs[1]:,} after"
    ]
    if found.routing is not None:
        lines.append(
            f"{100 * found.mass_removed:.2f} % of the router's weights went to what goes; "
            f"the same experts as before run at {100 * found.routing:.2f} % of places"
        )
    if proof := found.proof:
        names = ", ".join(f"{layer}.{number}" for layer, number in proof.experts)
        others = f"; {proof.others:,} {found.unit} stand at or behind one that chose it" if proof.others else ""
        if proof.equal == proof.rows:
            lines.append(f"without {names}: outputs equal, bit for bit, on {proof.rows:,} {found.unit}{others}")
        else:
            lines.append(
                f"without {names}: outputs equal, bit for bit, on {proof.equal:,} of {proof.rows:,} {found.unit}: "
                f"this model's weights are shares of all experts, whether they run or not{others}"
            )
    return lines
