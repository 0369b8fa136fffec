"""What a point is going to take and to lose, from what single moves away from the widest point did."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from colibri.fit.knapsack import Option, least_harm
from colibri.fit.space import Kind, Point, Space, moved

_OUTER = (Kind.ACTIVATIONS, Kind.KV)  # they decide about RAM, and every combination of them is looked at


@dataclass
class Harms:
    """Distance from the original that a move adds: measured, or between two that were.

    Attributes:
        base: distance of the widest point.
        measured: by axis and value; that of the first value is 0.
    """

    base: float = 0.0
    measured: dict[tuple[int, int], float] = field(default_factory=dict)

    def of(self, axis: int, value: int) -> float:
        """The harm of a value; between measured ones each step multiplies by the same factor, as bits do."""
        if value == 0:
            return 0.0
        if (axis, value) in self.measured:
            return self.measured[axis, value]
        known = sorted(step for number, step in self.measured if number == axis)
        above = next((step for step in known if step > value), None)
        below = next((step for step in reversed(known) if step < value), None)
        if above is None:
            return math.inf
        high = self.measured[axis, above]
        if below is None:
            return high * value / above if high <= 0 else high * 4.0 ** (value - above)
        low = self.measured[axis, below]
        share = (value - below) / (above - below)
        if low <= 0 or high <= 0:
            return low + (high - low) * share
        return float(low ** (1 - share) * high**share)

    def total(self, point: Point) -> float:
        """Predicted distance of a point."""
        return self.base + sum(self.of(axis, value) for axis, value in enumerate(point))


Sections = Mapping[str, int]


@dataclass(frozen=True)
class Weights:
    """Bytes of sections of the weights, at the widest point and behind each single move.

    Attributes:
        base: at the widest point.
        single: by axis and value, without those of the first value; None for what cannot be.
    """

    base: Sections
    single: Mapping[tuple[int, int], Sections | None]

    def groups(self, space: Space) -> list[tuple[int, ...]]:
        """Axes that change the same sections belong together; those that change none are in no group."""
        found: list[tuple[set[int], set[str]]] = []
        for axis, own in enumerate(space.axes):
            changed = set() if own.kind in _OUTER else self._changed(axis, len(own.values))
            if not changed:
                continue
            axes = {axis}
            for other in [one for one in found if one[1] & changed]:
                found.remove(other)
                axes |= other[0]
                changed |= other[1]
            found.append((axes, changed))
        return sorted(tuple(sorted(axes)) for axes, _ in found)

    def _changed(self, axis: int, count: int) -> set[str]:
        changed: set[str] = set()
        for value in range(1, count):
            moved_to = self.single.get((axis, value))
            if moved_to is not None:
                changed |= {name for name, size in self.base.items() if moved_to.get(name) != size}
        return changed

    def options(self, space: Space, axes: tuple[int, ...], harms: Harms) -> list[tuple[tuple[int, ...], Option]]:
        """Every combination of values of a group: what it adds to the sections that the group changes, and its harm."""
        names = sorted(set().union(*(self._changed(axis, len(space.axes[axis].values)) for axis in axes)))
        found = []
        for values in itertools.product(*(range(len(space.axes[axis].values)) for axis in axes)):
            moves = [
                self.single.get((axis, value), {}) if value else self.base
                for axis, value in zip(axes, values, strict=True)
            ]
            harm = sum(harms.of(axis, value) for axis, value in zip(axes, values, strict=True))
            if all(moves) and math.isfinite(harm):
                size = sum(self._section(name, [move for move in moves if move]) for name in names)
                found.append((values, Option(size, harm)))
        return found

    def _section(self, name: str, moves: Sequence[Sections]) -> int:
        if any(name not in move for move in moves):
            return 0
        base = self.base[name]
        return next((move[name] for move in moves if move[name] != base), base)

    def total(self, space: Space, point: Point) -> int:
        """Bytes of all sections at a point."""
        moves = [move for axis, value in enumerate(point) if value and (move := self.single.get((axis, value)))]
        return sum(self._section(name, moves) for name in self.base)

    def governed(self, space: Space) -> int:
        """Bytes that the groups decide about, at the widest point."""
        names = set().union(
            *(self._changed(axis, len(space.axes[axis].values)) for group in self.groups(space) for axis in group)
        )
        return sum(self.base[name] for name in names)


def outer_points(space: Space) -> list[Point]:
    """The widest point with every combination of what is not a matter of weights."""
    choices = [range(len(axis.values)) if axis.kind in _OUTER else range(1) for axis in space.axes]
    return [tuple(point) for point in itertools.product(*choices)]


@dataclass(frozen=True)
class Groups:
    """Axes that decide about the weights, group by group, with every combination of their values.

    Attributes:
        axes: of each group.
        options: of each group, the values and what they take and cost.
        governed: bytes that the groups decide about, at the widest point.
    """

    axes: list[tuple[int, ...]]
    options: list[list[tuple[tuple[int, ...], Option]]]
    governed: int

    @classmethod
    def make(cls, space: Space, weights: Weights, harms: Harms) -> Groups:
        """Find them."""
        axes = weights.groups(space)
        return cls(axes, [weights.options(space, group, harms) for group in axes], weights.governed(space))

    def best(self, harms: Harms, outer: Point, capacity: int, count: int) -> list[tuple[float, Point]]:
        """Points with the choices of ``outer`` that have room, with their predicted distances; the best first.

        Args:
            capacity: bytes for the sections that the groups decide about.
        """
        if not all(self.options):
            return []
        found = []
        for numbers in least_harm([[option for _, option in group] for group in self.options], capacity, count):
            point = outer
            for axes, group, number in zip(self.axes, self.options, numbers, strict=True):
                for axis, value in zip(axes, group[number][0], strict=True):
                    point = moved(point, axis, value)
            found.append((harms.total(point), point))
        return sorted(found)
