"""The plot of docs/frontier.md as SVG: bytes against loss, both logarithmic, panels two in a row."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 560, 400, 62, 40, 44, 48
COLOURS = {"Colibri": "#0b7a75", "llama.cpp": "#b5651d"}
BYTES = (600_000, 800_000, 1_000_000, 1_200_000, 1_500_000, 2_000_000, 2_500_000, 3_000_000, 4_000_000, 5_000_000)


@dataclass(frozen=True)
class Series:
    """One program's points: name, bytes and loss."""

    name: str
    points: list[tuple[str, int, float]]

    @property
    def lowest(self) -> list[tuple[str, int, float]]:
        """Those that no other of the series beats in both, from small to large."""
        found: list[tuple[str, int, float]] = []
        for point in sorted(self.points, key=lambda one: (one[1], one[2])):
            if not found or point[2] < found[-1][2]:
                found.append(point)
        return found


@dataclass(frozen=True)
class Plot:
    """A panel; losses below ``smallest`` stand at its lower edge."""

    title: str
    label: str
    series: list[Series]
    smallest: float


def draw(plots: list[Plot]) -> str:
    """The picture."""
    panels = "\n".join(
        f'<g transform="translate(0 {number // 2 * HEIGHT})">\n{_panel(plot, number % 2 * WIDTH)}\n</g>'
        for number, plot in enumerate(plots)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH * 2} {HEIGHT * -(-len(plots) // 2)}" '
        'font-family="sans-serif" font-size="11">\n'
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n{panels}\n</svg>\n'
    )


def _panel(plot: Plot, shift: int) -> str:
    points = [point for series in plot.series for point in series.points]
    sizes = [size for _, size, _ in points]
    low, high = min(sizes) / 1.25, max(sizes) * 1.03
    top = max(loss for _, _, loss in points) * 1.3

    def x(size: float) -> float:
        inner = WIDTH - LEFT - RIGHT
        return shift + LEFT + inner * math.log(size / low) / math.log(high / low)

    def y(loss: float) -> float:
        inner, held = HEIGHT - TOP - BOTTOM, max(loss, plot.smallest)
        return TOP + inner * (1 - math.log(held / plot.smallest) / math.log(top / plot.smallest))

    lines = [_text(shift + WIDTH / 2, 18, plot.title, "middle", size=13)]
    for size in BYTES:
        if low <= size <= high:
            lines.append(_line(x(size), TOP, x(size), HEIGHT - BOTTOM))
            lines.append(_text(x(size), HEIGHT - BOTTOM + 15, f"{size / 1e6:g}", "middle"))
    decade = plot.smallest
    while decade < top:
        for times in (1, 2, 5):
            if decade * times < top:
                lines.append(_line(shift + LEFT, y(decade * times), shift + WIDTH - RIGHT, y(decade * times)))
                lines.append(_text(shift + LEFT - 5, y(decade * times) + 4, f"{decade * times:g}", "end"))
        decade *= 10
    lines.append(_text(shift + LEFT + (WIDTH - LEFT - RIGHT) / 2, HEIGHT - 12, "MB", "middle"))
    lines.append(_text(shift + 6, TOP - 10, plot.label, "start"))
    frame = (shift + 2, TOP, shift + WIDTH - 2, HEIGHT - BOTTOM)
    labels = _Labels(frame, [(x(size), y(loss)) for _, size, loss in points])
    for number, series in enumerate(plot.series):
        colour, right = COLOURS[series.name], series.name != "Colibri"
        path = " ".join(f"{x(size):.1f},{y(loss):.1f}" for _, size, loss in series.lowest)
        lines.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        for name, size, loss in series.points:
            lines.append(f'<circle cx="{x(size):.1f}" cy="{y(loss):.1f}" r="3" fill="{colour}"/>')
            lines += labels.beside(x(size), y(loss), name, colour, right=right)
        legend = shift + WIDTH - RIGHT - 80
        lines.append(f'<circle cx="{legend}" cy="{TOP + 12 + 16 * number}" r="4" fill="{colour}"/>')
        lines.append(_text(legend + 9, TOP + 16 + 16 * number, series.name, "start", colour))
    return "\n".join(lines)


class _Labels:
    """Names of points, each as near to its point as those before it and the points leave room."""

    def __init__(self, frame: tuple[float, float, float, float], points: list[tuple[float, float]]) -> None:
        self._left, self._top, self._right, self._bottom = frame
        self._taken = [(x - 3, y - 3, x + 3, y + 3) for x, y in points]

    def beside(self, x: float, y: float, name: str, colour: str, *, right: bool) -> list[str]:
        """A text, and a line to it where it is not next to the point; ``right`` is the side that is tried first."""
        width = 5.2 * len(name)
        for step in range(80):
            down = (step // 4 + 1) // 2 * 9 * (1 if step // 4 % 2 else -1)
            to_right, far = right != bool(step % 2), 6 + 16 * (step % 4 // 2)
            start = x + far if to_right else x - far - width
            box = (start, y + down - 5, start + width, y + down + 4)
            if self._is_free(box):
                break
        self._taken.append(box)
        near = x + far if to_right else x - far
        text = _text(near, y + down + 3, name, "start" if to_right else "end", colour, 9)
        if abs(down) < 9 and far == 6:
            return [text]
        return [_line(x, y, near, y + down, colour, 0.4), text]

    def _is_free(self, box: tuple[float, float, float, float]) -> bool:
        left, top, right, bottom = box
        inside = self._left <= left and right <= self._right and self._top <= top and bottom <= self._bottom
        return inside and not any(
            left < other[2] and other[0] < right and top < other[3] and other[1] < bottom for other in self._taken
        )


def _line(x1: float, y1: float, x2: float, y2: float, colour: str = "#e3e3e3", width: float = 1) -> str:
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} stroke="{colour}" stroke-width="{width:g}"/>'


def _text(x: float, y: float, text: str, anchor: str, colour: str = "#333333", size: int = 11) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" font-size="{size}">{escape(text)}</text>'
    )
