"""A search as one HTML page that needs nothing else: the front as a plot, every point, and what each move cost."""

from __future__ import annotations

import base64
import hashlib
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from colibri.emit.templates import render
from colibri.fit.model import Choice, Fit, Other
from colibri.fit.table import agreeing, brief, figure, measured
from colibri.paths import data_folder

if TYPE_CHECKING:
    from markupsafe import Markup

_WIDTH, _HEIGHT = 1040, 460
_LEFT, _RIGHT, _TOP, _DOWN = 78, 24, 18, 52
_TICKS = 6
_FEW = 3  # points within the interval of the best one, from which on they have a picture of their own


@dataclass(frozen=True)
class Scale:
    """From figures to places along an axis."""

    low: float
    high: float
    begin: float
    end: float

    def at(self, value: float) -> float:
        """Place of a value, within the plot."""
        share = (value - self.low) / (self.high - self.low)
        return round(self.begin + min(1.0, max(0.0, share)) * (self.end - self.begin), 1)

    def ticks(self) -> list[float]:
        """Round values on it."""
        step = (self.high - self.low) / _TICKS
        power = 10.0 ** math.floor(math.log10(step))
        step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= step)
        first = math.ceil(self.low / step - 1e-9)
        return [number * step for number in range(first, math.floor(self.high / step + 1e-9) + 1)]


@dataclass(frozen=True)
class Dot:
    """A point of the plot.

    Attributes:
        number: in the front, from 1; 0 for one that another beats.
        low, high: ends of the interval.
    """

    x: float
    y: float
    number: int
    chosen: bool
    title: str
    about: str
    low: float = 0
    high: float = 0


@dataclass(frozen=True)
class Plot:
    """Points by flash and loss.

    Attributes:
        columns, rows: places and labels of ticks.
        line: through the front.
        limit: place of the flash that there is; None where it is not in the picture.
    """

    title: str
    columns: list[tuple[float, str]]
    rows: list[tuple[float, str]]
    others: list[Dot]
    front: list[Dot]
    line: str
    limit: float | None


def render_fit(found: Fit) -> str:
    """The page; byte-identical for the same search."""
    from markupsafe import Markup

    sources = data_folder("templates") / "report"
    script = (sources / "fit.js").read_text(encoding="utf-8")
    style = "".join((sources / name).read_text(encoding="utf-8") for name in ("page.css", "fit.css"))
    return render(
        "report/fit.html.j2",
        {
            "fit": found,
            "style": Markup(style),
            "script": Markup(script),
            "script_digest": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
            "chosen": found.front[found.chosen],
            "figure": figure,
            "breakable": breakable,
            "choosing": agreeing(found),
            "measured": measured,
            "frame": {"width": _WIDTH, "height": _HEIGHT, "left": _LEFT, "top": _TOP, "right": _RIGHT, "down": _DOWN},
            "plots": _plots(found),
            "limit_bytes": _limit(found),
            "moves": _moves(found),
        },
    )


def breakable(recipe: str) -> Markup:
    """A recipe of which lines end behind its parts.

    >>> breakable("w4a8:kv=f16:drop=0.1,2.5")
    Markup('w4a8:<wbr>kv=f16:<wbr>drop=0.1,<wbr>2.5')
    """
    from markupsafe import Markup

    return Markup(re.sub("([:,])", r"\1<wbr>", str(Markup.escape(brief(recipe)))))


def _limit(found: Fit) -> int:
    """Bytes of flash that there are; 0 without a limit."""
    return sum(region.limit - region.reserve for region in found.regions if region.kind == "flash")


def _plots(found: Fit) -> list[Plot]:
    """All points; and by themselves those within the interval of the best one, where there are some."""
    best, front, others = found.front[0].lost, list(enumerate(found.front)), list(found.others)
    most = best.mean + (best.within or 0.0)
    near = [(number, one) for number, one in front if one.lost.mean <= most]
    plots = [_plot(found, "What is lost for how much flash", front, others)]
    if _FEW <= len(near) < len(front):
        least = min(one.flash for _, one in near)
        beside = [one for one in others if one.lost <= most and one.flash >= least]
        plots.append(_plot(found, "Those within the best one's interval", near, beside))
    return plots


def thousands(ticks: list[float]) -> list[tuple[float, str]]:
    """Each tick, and the thousands that it is, in as many digits as tell them apart.

    >>> [label for _, label in thousands([400_000, 600_000])], [label for _, label in thousands([981_200, 981_400])]
    (['400', '600'], ['981.2', '981.4'])
    """
    step = ticks[1] - ticks[0] if len(ticks) > 1 else 1000
    digits = max(0, 3 - math.floor(math.log10(step) + 1e-9))
    return [(value, f"{value / 1000:,.{digits}f}") for value in ticks]


def _plot(found: Fit, title: str, front: list[tuple[int, Choice]], others: list[Other]) -> Plot:
    across, upward = _scales(found, [one for _, one in front], others)
    dots = [_dot(found, number, choice, across, upward) for number, choice in front]
    limit = _limit(found)
    return Plot(
        title,
        columns=[(across.at(value), label) for value, label in thousands(across.ticks())],
        rows=[(upward.at(value), f"{round(value, 6) + 0.0:g}") for value in upward.ticks()],
        others=[
            Dot(across.at(one.flash), upward.at(one.lost), 0, False, brief(one.recipe), _others_about(found, one))
            for one in others
        ],
        front=dots,
        line=" ".join(f"{dot.x},{dot.y}" for dot in sorted(dots, key=lambda dot: dot.x)),
        limit=across.at(limit) if limit and across.low <= limit <= across.high else None,
    )


def _scales(found: Fit, front: list[Choice], others: list[Other]) -> tuple[Scale, Scale]:
    flash = [*(one.flash for one in front), *(one.flash for one in others)]
    lost = [one.lost.mean for one in front]
    spread = [end for one in front for end in _ends(one)]
    limit = _limit(found)
    near = [limit] if limit and limit < 1.3 * max(flash) else []
    low, high = min(flash), max(*flash, *near)
    margin = 0.06 * (high - low) or 0.1 * high
    least, most = min(0.0, *lost, *spread), max(*lost, *spread)
    room = 0.08 * (most - least) or 0.01
    return (
        Scale(low - margin, high + margin, _LEFT, _WIDTH - _RIGHT),
        Scale(least - room, most + room, _HEIGHT - _DOWN, _TOP),
    )


def _ends(choice: Choice) -> tuple[float, float]:
    within = choice.lost.within or 0.0
    return choice.lost.mean - within, choice.lost.mean + within


def _dot(found: Fit, number: int, choice: Choice, across: Scale, upward: Scale) -> Dot:
    low, high = _ends(choice)
    about = f"{figure(choice.lost)} {found.unit}, {choice.flash:,} bytes of flash, {choice.memory:,} of memory"
    return Dot(
        across.at(choice.flash),
        upward.at(choice.lost.mean),
        number + 1,
        number == found.chosen,
        f"{number + 1}: {brief(choice.recipe)}",
        about,
        upward.at(low),
        upward.at(high),
    )


def _others_about(found: Fit, one: Other) -> str:
    return f"{one.lost:+.4f} {found.unit}, {one.flash:,} bytes of flash; another point beats it"


def _moves(found: Fit) -> list[tuple[str, list[dict[str, object]]]]:
    """Moves by axis, with the length of a bar each: its harm on a scale of logarithms."""
    harms = [move.harm for move in found.moves if move.harm > 0]
    low, high = (math.log10(min(harms)), math.log10(max(harms))) if harms else (0.0, 1.0)
    axes: dict[str, list[dict[str, object]]] = {}
    for move in found.moves:
        share = (math.log10(move.harm) - low) / (high - low or 1) if move.harm > 0 else 0.0
        width = round(4 + 96 * share, 1) if move.harm > 0 else 0
        axes.setdefault(move.axis, []).append({"move": move, "width": width})
    return list(axes.items())
