"""How speed here and instructions on a Cortex-M grow with a model's sizes, for ci/bench: a table, and drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from bench_models import LOAD, Built, Model, built

from colibri.profile.inputs import built_in
from colibri.profile.profile import default_emulator, make_profile

SCHEME = "w8a8"
BARE = "nucleo-h743zi"  # Cortex-M7 in QEMU, which counts instructions
STEPS = 8  # positions that are timed at the end of a context
SIZES = {"hidden": 64, "intermediate": 128, "layers": 2, "experts": 8, "heads": 4, "kv_heads": 2, "vocab": 256}
CONTEXT, TOP_K = 16, 2
WORDS = "hidden 64, intermediate 128, 2 layers, 8 experts of which 2 run, 4 heads, 2 key-value heads, vocabulary 256"


@dataclass(frozen=True)
class Point:
    """One model: the value on its axis, and how to make it."""

    value: int
    model: Model
    options: tuple[str, ...] = ()
    context: int = 0
    batch: int = 1


@dataclass(frozen=True)
class Axis:
    """What grows, and the points along it."""

    name: str
    unit: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Measured:
    """Of each axis, values with tokens or samples a second here and instructions of one on the Cortex-M."""

    axes: list[tuple[Axis, list[float], list[int]]]
    text: str


def language(value: int, *, top_k: int = TOP_K, context: int = CONTEXT, **changes: int) -> Point:
    sizes = {**SIZES, **changes, "context": 1024}
    name = f"hidden{sizes['hidden']}-experts{sizes['experts']}-top{top_k}"
    model = Model(name, sizes, options=("--context", str(context)), tokens=STEPS, top_k=top_k)
    return Point(value, model, context=context)


def axes(*, quick: bool) -> list[Axis]:
    """Each changes one size of a small language model; the last, the batch of a sensor model."""
    hidden, experts, top, context, batch = (
        ((32, 128), (4, 16), (1, 4), (16, 64), (1, 8))
        if quick
        else ((32, 64, 96, 128), (4, 8, 16, 32), (1, 2, 4, 8), (16, 64, 128, 256), (1, 2, 4, 8, 16, 32))
    )
    return [
        Axis(
            "hidden_size (intermediate twice that)",
            "token",
            tuple(language(n, hidden=n, intermediate=2 * n) for n in hidden),
        ),
        Axis("experts", "token", tuple(language(n, experts=n) for n in experts)),
        Axis("top_k", "token", tuple(language(n, top_k=n) for n in top)),
        Axis("context, at its end", "token", tuple(language(n, context=n) for n in context)),
        Axis("batch of a sensor model", "sample", tuple(Point(n, LOAD, ("--batch", str(n)), batch=n) for n in batch)),
    ]


def speed(package: Built, point: Point) -> float:
    """Tokens or samples a second by the median call."""
    options = ["--runs", "100000"]
    if point.context:
        options = ["--prompt", str(point.context - STEPS), "--tokens", str(STEPS), "--seconds", "1"]
    return point.batch * 1e9 / package.bench(*options).series[-1].p50_ns


def instructions(package: Built, point: Point) -> int:
    """Of the last token of the context, or of a sample; counted once for a package, since they never change."""
    kept = package.folder / "build/instructions"
    if not kept.exists():
        facts = package.package
        profile = make_profile(package.folder, facts, default_emulator(facts.board), built_in(facts))
        kept.write_text(str(profile.positions[-1].instructions))
    return round(int(kept.read_text()) / point.batch)


def measure_scaling(work: Path, board: str, *, rounds: int, quick: bool) -> Measured:
    """Make the packages, then measure them in turn, so many times; of the speeds of a package the best is taken.

    What else runs on the machine only ever makes a model slower, and the curve is to be the model's.
    """
    measured: list[tuple[Axis, list[float], list[int]]] = []
    for axis in axes(quick=quick):
        here = [built(work, point.model, board, SCHEME, *point.options) for point in axis.points]
        there = [
            built(work, point.model, BARE, SCHEME, *point.options, target="build/test.elf") for point in axis.points
        ]
        counts = [instructions(package, point) for package, point in zip(there, axis.points, strict=True)]
        turns = [[speed(*pair) for pair in zip(here, axis.points, strict=True)] for _ in range(rounds)]
        speeds = [max(found) for found in zip(*turns, strict=True)] if turns else []
        measured.append((axis, speeds, counts))
    return Measured(measured, _table(measured, board, rounds) if rounds else "")


def _table(measured: Sequence[tuple[Axis, list[float], list[int]]], board: str, rounds: int) -> str:
    lines = [f"| | | {board}, a second | {BARE}, instructions |", "|---|---|---|---|"]
    for axis, speeds, counts in measured:
        for point, rate, count in zip(axis.points, speeds, counts, strict=True):
            lines.append(f"| {axis.name} | {point.value} | {rate:,.0f} {axis.unit}s | {count:,} a {axis.unit} |")
    about = f"Where nothing else is said: {WORDS}, context {CONTEXT}, `{SCHEME}`."
    about += f" Of {rounds} turns the fastest, by its median call." if rounds > 1 else ""
    return f"{about}\n\n" + "\n".join(lines) + "\n"


WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 250, 210, 58, 34, 16, 40


def draw_scaling(measured: Measured) -> str:
    """Panels: above speed here, below instructions there; both axes logarithmic."""
    panels = []
    for column, (axis, speeds, counts) in enumerate(measured.axes):
        values = [point.value for point in axis.points]
        panels.append(_panel(column, 0, f"{axis.unit}s a second", axis.name, values, speeds, "#0b7a75"))
        panels.append(_panel(column, 1, f"instructions a {axis.unit}", axis.name, values, counts, "#b5651d"))
    size = f"{WIDTH * len(measured.axes)} {HEIGHT * 2}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" font-family="sans-serif" font-size="10">\n'
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n{"".join(panels)}</svg>\n'
    )


def _panel(
    column: int, row: int, title: str, axis: str, values: Sequence[int], found: Sequence[float], colour: str
) -> str:
    low, high = min(found) / 1.3, max(found) * 1.5

    def x(value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log(value / values[0]) / math.log(values[-1] / values[0])

    def y(value: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - math.log(value / low) / math.log(high / low))

    shapes = [
        _text(LEFT, 18, title, "start"),
        _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, axis, "middle"),
        f'<polyline points="{" ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in zip(values, found, strict=True))}" '
        f'fill="none" stroke="{colour}" stroke-width="1.5"/>',
    ]
    for value, number in zip(values, found, strict=True):
        shapes.append(f'<circle cx="{x(value):.1f}" cy="{y(number):.1f}" r="3" fill="{colour}"/>')
        shapes.append(_text(x(value), HEIGHT - BOTTOM + 14, str(value), "middle"))
        shapes.append(_text(x(value), y(number) - 7, _short(number), "middle"))
    edge = f'<path d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}" fill="none" stroke="#999999"/>'
    body = "\n".join([edge, *shapes])
    return f'<g transform="translate({column * WIDTH} {row * HEIGHT})">\n{body}\n</g>\n'


def _short(number: float) -> str:
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.3g}"


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="#333333">{escape(text)}</text>'
