"""RAM over the program's steps, as a picture's geometry: every buffer of the arena at its offset, while it lives."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from colibri.errors import in_bytes
from colibri.package import Block, Package, Span

WIDTH, HEIGHT = 1000, 392
LEFT, TOP, PLOT_WIDTH, PLOT_HEIGHT = 74, 30, 914, 300
_COLOURS = 10
_GLYPH, _LINE = 6.2, 12.0  # of a label, in the picture's units


@dataclass(frozen=True)
class Band:
    """Ops of one layer, or of what is before the first and after the last."""

    label: str
    left: float
    width: float
    shaded: bool


@dataclass(frozen=True)
class Label:
    """A buffer's name within one of its rectangles, upright or along it."""

    text: str
    x: float
    y: float
    upright: bool


@dataclass(frozen=True)
class Shape:
    """One buffer.

    Attributes:
        outline: an SVG path, a rectangle for each interval.
        about: all there is to say, for those who cannot hover.
    """

    span: Span
    outline: str
    colour: int
    about: str


@dataclass(frozen=True)
class Tick:
    """A mark on an axis, at a distance from the picture's left or top edge."""

    at: float
    label: str


@dataclass(frozen=True)
class Lifetimes:
    """The picture of one block, and what it proves.

    Attributes:
        region: where the block is.
        alone: whether the package has no other block.
        arena: bytes of the arena, the height of the plot.
        base: where the arena starts in the block.
        bound: most bytes alive at one op: no placement takes less.
        proven: whether no placement takes less than this one, even where it is above the bound.
        busiest: the first op where it is so.
        live: bytes alive at each op.
        states: bytes of what lives from call to call.
    """

    region: str
    alone: bool
    arena: int
    base: int
    bound: int
    proven: bool
    busiest: int
    live: tuple[int, ...]
    states: int
    context: int
    bands: tuple[Band, ...]
    shapes: tuple[Shape, ...]
    labels: tuple[Label, ...]
    rows: tuple[Tick, ...]
    columns: tuple[Tick, ...]

    @property
    def gap(self) -> int:
        """Bytes above the lower bound."""
        return self.arena - self.bound


def lifetimes(package: Package) -> tuple[Lifetimes, ...]:
    """Picture the arena of each block of a package that has one."""
    found = (_picture(package, block) for block in package.memory.blocks)
    return tuple(picture for picture in found if picture is not None)


def _picture(package: Package, memory: Block) -> Lifetimes | None:
    ops = len(package.ops)
    buffers = [span for span in memory.spans if span.kind == "arena" and span.bytes]
    if not memory.arena or not ops or not buffers:
        return None
    base = memory.context + memory.states
    live = tuple(
        sum(span.bytes for span in buffers if any(first <= op <= last for first, last in span.live))
        for op in range(ops)
    )
    across, up = PLOT_WIDTH / ops, PLOT_HEIGHT / memory.arena
    shapes, labels = [], []
    for order, span in enumerate(buffers):
        height = span.bytes * up
        top = TOP + PLOT_HEIGHT - (span.offset - base) * up - height
        boxes = [(LEFT + first * across, (last - first + 1) * across) for first, last in span.live]
        outline = "".join(f"M{_n(left)} {_n(top)}h{_n(width)}v{_n(height)}h{_n(-width)}z" for left, width in boxes)
        shapes.append(Shape(span, outline, order % _COLOURS, _about(span, base)))
        if label := next((found for left, width in boxes if (found := _label(span, left, top, width, height))), None):
            labels.append(label)
    return Lifetimes(
        region=memory.region,
        alone=len(package.memory.blocks) == 1,
        arena=memory.arena,
        base=base,
        bound=memory.bound,
        proven=memory.proven,
        busiest=live.index(max(live)),
        live=live,
        states=memory.states,
        context=memory.context,
        bands=_bands(package, across),
        shapes=tuple(shapes),
        labels=tuple(labels),
        rows=tuple(
            Tick(round(TOP + PLOT_HEIGHT - at * up, 1), f"{at:,}")
            for at in (*range(0, memory.arena, _step(memory.arena, 5)), memory.arena)
            if at in (0, memory.arena) or (memory.arena - at) * up > _LINE
        ),
        columns=tuple(Tick(round(LEFT + (at + 0.5) * across, 1), f"{at:,}") for at in range(0, ops, _step(ops, 12))),
    )


def _n(value: float) -> str:
    """One decimal at most, which is a tenth of a pixel."""
    return f"{value:.1f}".removesuffix(".0")


def _about(span: Span, base: int) -> str:
    ops = ", ".join(str(first) if first == last else f"{first}–{last}" for first, last in span.live)
    return f"{span.name}: {in_bytes(span.bytes)} at offset {span.offset - base:,} of the arena, alive in ops {ops}"


def _label(span: Span, left: float, top: float, width: float, height: float) -> Label | None:
    length = len(span.name) * _GLYPH + 6
    x, y = round(left + width / 2, 1), round(top + height / 2, 1)
    if length <= width and height >= _LINE:
        return Label(span.name, x, y, upright=False)
    if length <= height and width >= _LINE:
        return Label(span.name, x, y, upright=True)
    return None


def _bands(package: Package, across: float) -> tuple[Band, ...]:
    bands, start = [], 0
    for order, (layer, run) in enumerate(groupby(package.ops, key=lambda op: op.layer)):
        count = len(list(run))
        width = count * across
        label = next((text for text in (f"layer {layer}", str(layer)) if len(text) * _GLYPH <= width), "")
        bands.append(Band(label if layer >= 0 else "", _round(LEFT + start * across), _round(width), order % 2 == 1))
        start += count
    return tuple(bands)


def _round(value: float) -> float:
    return round(value, 1)


def _step(whole: int, most: int) -> int:
    """The smallest power of two that divides a whole into at most so many steps."""
    step = 1
    while whole > most * step:
        step *= 2
    return step
