"""A profile as a picture's geometry: instructions of one token by layer and kind of step, and the largest functions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from colibri.profile.model import PositionCost, Profile

_KINDS = 8  # with a colour of their own
_FUNCTIONS = 10  # seen at once
_MORE_FUNCTIONS = 40  # below them
_THINNEST = 0.1  # percent of the widest bar
_REST = "padding"


@dataclass(frozen=True)
class Slice:
    """Instructions of one kind of step in a layer's bar; ``left`` and ``width`` in percent of the widest bar."""

    kind: str
    colour: str
    instructions: int
    share: float
    left: float
    width: float


@dataclass(frozen=True)
class LayerBar:
    """Instructions of one layer, or of what is outside of layers; ``share`` in percent of all."""

    name: str
    instructions: int
    share: float
    slices: tuple[Slice, ...]


@dataclass(frozen=True)
class KindRow:
    """Instructions of one kind of step in all layers."""

    name: str
    colour: str
    instructions: int
    share: float
    macs: int

    @property
    def per_mac(self) -> float | None:
        """Instructions for each multiply-add; None where there are none."""
        return self.instructions / self.macs if self.macs else None


@dataclass(frozen=True)
class Count:
    """Instructions of one function; ``share`` of all, ``width`` of the largest, both in percent."""

    name: str
    instructions: int
    share: float
    width: float


@dataclass(frozen=True)
class PositionRow:
    """One position, or a call, for people."""

    name: str
    instructions: int
    macs: int
    estimate: str

    @property
    def per_mac(self) -> float | None:
        """Instructions for each multiply-add."""
        return self.instructions / self.macs if self.macs else None


@dataclass(frozen=True)
class ProfileView:
    """What the page shows of a profile.

    Attributes:
        profile: where it is from.
        one: what a run is, ``token`` or ``call``; ``many`` is its plural.
        size: of a call, ``of 2 samples``; empty for tokens.
        shown: the last position, which the bars are of.
        at: the same in words, empty for calls.
        kinds: largest first.
        functions: the largest; ``more`` those behind them.
    """

    profile: Profile
    one: str
    many: str
    size: str
    shown: PositionCost
    at: str
    positions: tuple[PositionRow, ...]
    kinds: tuple[KindRow, ...]
    layers: tuple[LayerBar, ...]
    functions: tuple[Count, ...]
    more: tuple[Count, ...]

    @property
    def estimated(self) -> bool:
        """Whether there is an estimate of time."""
        return any(row.estimate for row in self.positions)


def profile_view(profile: Profile) -> ProfileView:
    """Prepare a profile that has a position."""
    tokens = profile.unit == "token"
    shown = profile.positions[-1]
    colours = _colours(shown)
    kinds = tuple(
        KindRow(kind, colours[kind], count, _percent(count, shown.instructions), macs)
        for kind, (count, macs) in shown.kinds().items()
    )
    counts = _counts((one.name, one.instructions) for one in shown.functions)
    return ProfileView(
        profile=profile,
        one="token" if tokens else "call",
        many="tokens" if tokens else "calls",
        size="" if tokens else profile.unit.removeprefix("call "),
        shown=shown,
        at=f"position {shown.position:,}" if tokens else "",
        positions=tuple(
            PositionRow(
                f"position {cost.position:,}" if tokens else profile.unit,
                cost.instructions,
                cost.macs,
                cost.estimate.words() if cost.estimate else "",
            )
            for cost in profile.positions
        ),
        kinds=kinds,
        layers=_layers(shown, colours),
        functions=counts[:_FUNCTIONS],
        more=counts[_FUNCTIONS:],
    )


def _colours(cost: PositionCost) -> dict[str, str]:
    return {kind: f"h{order}" if order < _KINDS else f"c-{_REST}" for order, kind in enumerate(cost.kinds())}


def _layers(cost: PositionCost, colours: dict[str, str]) -> tuple[LayerBar, ...]:
    found: dict[int, dict[str, int]] = {}
    for step in cost.steps:
        kinds = found.setdefault(step.layer, dict.fromkeys(colours, 0))
        kinds[step.kind] += step.instructions
    widest = max((sum(kinds.values()) for kinds in found.values()), default=1)
    bars = []
    for layer, kinds in sorted(found.items(), key=lambda item: (item[0] < 0, item[0])):
        slices, left = [], 0.0
        for kind, count in kinds.items():
            width = _percent(count, widest)
            if width >= _THINNEST:
                share = _percent(count, cost.instructions)
                slices.append(Slice(kind, colours[kind], count, share, round(left, 2), round(width, 2)))
            left += width
        name = f"layer {layer}" if layer >= 0 else "outside"
        total = sum(kinds.values())
        bars.append(LayerBar(name, total, _percent(total, cost.instructions), tuple(slices)))
    return tuple(bars)


def _counts(instructions: Iterable[tuple[str, int]]) -> tuple[Count, ...]:
    """The largest counts, the rest as one."""
    ranked = sorted(((name, count) for name, count in instructions if count), key=lambda one: (-one[1], one[0]))
    total, largest = sum(count for _, count in ranked), ranked[0][1] if ranked else 1
    most = _FUNCTIONS + _MORE_FUNCTIONS
    if len(ranked) > most:
        rest = ranked[most:]
        ranked = [*ranked[:most], (f"{len(rest)} more", sum(count for _, count in rest))]
    return tuple(
        Count(name, count, _percent(count, total), min(100.0, round(_percent(count, largest), 2)))
        for name, count in ranked
    )


def _percent(part: int, whole: int) -> float:
    return 100 * part / max(whole, 1)
