"""A search on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from colibri.errors import printable
from colibri.evaluate.model import Estimate
from colibri.fit.model import Choice, Final, Fit, Region

_MOST_ROWS = 12  # of the front
_BAR = 40  # characters of a region
_WIDEST = 1e6  # figure that is written out


def print_fit(found: Fit, console: Console) -> None:
    """What was searched, the front, and what was built."""
    console.print(_headline(found), soft_wrap=True)
    for line in _facts(found):
        console.print(Text(line, style="dim"), soft_wrap=True)
    console.print()
    _print_front(found, console)
    for line in notes(found):
        console.print(Text(line, style="dim"), soft_wrap=True)
    if found.final is not None:
        console.print()
        _print_final(found, found.front[found.chosen], found.final, console)


def _headline(found: Fit) -> Text:
    line = Text(f"{found.checkpoint} on {found.title}", style="bold")
    room = " · ".join(
        f"{region.name} {region.limit:,}" + (f" less {region.reserve:,}" if region.reserve else "")
        for region in found.regions
        if region.limit
    )
    return line.append(f"  {room} bytes", style="dim") if room else line


def _facts(found: Fit) -> list[str]:
    rows = found.rows
    window = f" in windows of {rows.window}, each with an empty context" if rows.window else ""
    fresh = "that the search never saw" if rows.fresh else "that the search saw too: there are too few"
    known = f", {found.known} of them known from the journal" if found.known else ""
    original = f"{measured(found.original)} {found.unit}"
    final = f"{rows.final:,} for the final figures, {fresh}"
    return [
        f"{found.data}: {rows.search:,} {rows.kind} for the search, {final}{window}",
        f"{found.evaluated} evaluations among {found.points:,} recipes{known}; the original has {original}",
    ]


def _print_front(found: Fit, console: Console) -> None:
    """A line of figures for each point, and one of what was chosen."""
    tokens, choosing = found.rows.kind == "tokens", agreeing(found)
    heads = ["flash", "memory", *(["context"] if tokens else []), "lost in the search", "lost on final rows"]
    heads += ["same top 1"] if choosing else []
    rows = []
    for number in _shown(found):
        choice = found.front[number]
        cells = [f"{choice.flash:,}", f"{choice.memory:,}", *([f"{choice.context:,}"] if tokens else [])]
        cells += [figure(choice.lost), figure(choice.final) if choice.final else "–"]
        cells += [f"{100 * choice.agreement:.1f} %"] if choosing else []
        rows.append(cells)
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        return "  ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))

    console.print(Text(f"    {line(heads)}", style="dim"), soft_wrap=True)
    for number, cells in zip(_shown(found), rows, strict=True):
        chosen = number == found.chosen
        mark = f"{'▸' if chosen else ' '}{number + 1:>2} "
        console.print(Text(mark + line(cells), style="bold" if chosen else ""), soft_wrap=True)
        console.print(Text(f"      {_choices(found.front[number])}", style="" if chosen else "dim"), soft_wrap=True)


def _choices(choice: Choice) -> str:
    """``experts w4 w3 w4 w3 · attention w4 · a8 · kv f16 · dropped 0 4 1 2``, layer by layer, without what is usual."""
    found: dict[str, list[str]] = {}
    for axis, value in choice.values.items():
        found.setdefault(axis.rpartition(".")[2], []).append(value)
    parts = []
    for name in sorted(found, key=lambda one: (one != "experts", one == "dropped")):
        values = found[name] if len(set(found[name])) > 1 else found[name][:1]
        if name == "activations":
            parts.append(values[0])
        elif name != "dropped" or values != ["0"]:
            parts.append(f"{name} {' '.join(values)}")
    parts += [f"prefill {choice.prefill}"] if choice.prefill > 1 else []
    return " · ".join([*parts, *(["calibrated"] if ":calibrate=" in choice.recipe else [])])


def _shown(found: Fit) -> Sequence[int]:
    """Rows of the front: all, or some of them, evenly, the chosen one among them."""
    count = len(found.front)
    if count <= _MOST_ROWS:
        return range(count)
    some = {round(number * (count - 1) / (_MOST_ROWS - 1)) for number in range(_MOST_ROWS)}
    return sorted(some | {found.chosen})


def notes(found: Fit) -> list[str]:
    """What the figures mean."""
    shown = len(_shown(found))
    lines = [f"lost: {found.measure} above the original's, {found.unit}; ± 95 %, paired; flash with predicted code"]
    lines += [f"calibrated: weights rounded for {_calibration(found)}"] if _calibrated(found) else []
    if shown < len(found.front):
        lines.append(f"{shown} of {len(found.front)} points that nothing beats in loss, flash and memory at once")
    return lines


def agreeing(found: Fit) -> bool:
    """Whether the largest output means something."""
    return not found.measure.startswith("mean")


def brief(recipe: str) -> str:
    """The recipe without the path of its calibration data.

    >>> brief("w4a8:kv=f16:calibrate=build/x.calibration.npz")
    'w4a8:kv=f16:calibrated'
    """
    before, calibrate, _ = recipe.partition(":calibrate=")
    return printable(before) + (":calibrated" if calibrate else "")


def _calibrated(found: Fit) -> bool:
    return any(":calibrate=" in choice.recipe for choice in found.front)


def _calibration(found: Fit) -> str:
    return "the model's own text" if found.rows.calibration == "self" else found.rows.calibration


def _print_final(found: Fit, choice: Choice, final: Final, console: Console) -> None:
    for region in found.regions:
        if (used := final.regions.get(region.name)) and region.limit:
            console.print(_bar(region, used), soft_wrap=True)
    lost = f"{figure(final.lost)} {found.unit}"
    console.print(
        Text.assemble(
            (f"{found.measure} {measured(final.loss)}", "bold"),
            f" where the original has {measured(final.original)}: ",
            (lost, "bold"),
            f" lost; the same first choice in {100 * final.agreement:.1f} %" if agreeing(found) else " lost",
        ),
        soft_wrap=True,
    )
    console.print(_dropped(choice), soft_wrap=True)
    if final.instructions is not None:
        console.print(f"{final.instructions:,} instructions per {final.unit}, counted by the emulator")
    console.print(f"recipe: {printable(choice.recipe)}", soft_wrap=True)
    if final.package:
        console.print(f"package: {printable(final.package)}", soft_wrap=True)


def _bar(region: Region, used: int) -> Text:
    filled = min(_BAR, -(-_BAR * used // region.limit))
    kept = min(_BAR - filled, round(_BAR * region.reserve / region.limit))
    line = Text(f"{region.name:<8}")
    line.append("█" * filled, style="cyan").append("░" * kept, style="yellow")
    line.append("·" * (_BAR - filled - kept), style="dim")
    free = region.limit - region.reserve - used
    reserve = f", {region.reserve:,} reserved" if region.reserve else ""
    return line.append(f" {used:,} of {region.limit:,}{reserve}, {free:,} free")


def _dropped(choice: Choice) -> str:
    if not choice.dropped:
        return "dropped: nothing"
    said = [
        f"layer {layer}: {' '.join(map(str, ids))}"
        for layer, ids in sorted(choice.dropped.items(), key=lambda one: int(one[0]))
    ]
    return f"dropped: experts of {'; '.join(said)}"


def figure(value: Estimate) -> str:
    """``+0.0123 ± 0.0045``; fewer digits of large figures."""
    if abs(value.mean) > _WIDEST:
        return f"{value.mean:+.4g}" + ("" if value.within is None else f" ± {value.within:.2g}")
    digits = 4 if abs(value.mean) < 10 else 2
    within = "" if value.within is None else f" ± {value.within:.{digits}f}"
    return f"{round(value.mean, digits) + 0.0:+.{digits}f}{within}"


def measured(value: Estimate) -> str:
    """A loss in as many digits as it is worth."""
    if abs(value.mean) > _WIDEST:
        return f"{value.mean:.4g}"
    return f"{value.mean:.4f}" if abs(value.mean) < 100 else f"{value.mean:,.1f}"
