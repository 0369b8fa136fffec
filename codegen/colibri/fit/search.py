"""The search: single moves first, then what they promise, then the neighbours of the best."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from colibri.errors import UsageError
from colibri.fit.evaluator import Evaluator
from colibri.fit.predict import Groups, Harms, Weights, outer_points
from colibri.fit.sizes import Sizes
from colibri.fit.space import Point, Space, moved
from colibri.fit.split import Part
from colibri.fit.task import Outcome
from colibri.progress import Advance, Progress

COUNTED = (
    *("tokens", "samples"),  # through the model without some experts
    *("single moves", "candidates", "smaller ones", "neighbours", "rounded together", "final figures"),
)
_PROMISING = 12  # candidates that are evaluated before the neighbours of the best
_SMALLER = 6  # points below the limit, so that the front is one
_SPARE = 12  # points that are planned besides, since some have no room
_LEAST_STEP = 64  # bytes
_NEIGHBOURS = 8  # evaluated in a round
_CALIBRATED = 4  # of the best, whose weights are rounded for calibration data, which takes longer
_ATTEMPTS = 5  # to leave more room for code
_LESS = "give more, or search less with --only"


@dataclass(frozen=True)
class Found:
    """A point that was evaluated.

    Attributes:
        recipe: as it was evaluated, without what no bit depends on.
        predicted: its distance from the original, as single moves promised, with weights rounded to nearest.
        calibrated: whether its weights are rounded for calibration data.
    """

    point: Point
    recipe: str
    sizes: Sizes
    outcome: Outcome
    predicted: float
    calibrated: bool = False

    @property
    def order(self) -> tuple[float, float, int]:
        """The least loss first; among equals the nearest to the original, then the smallest."""
        return self.outcome.loss.mean, self.outcome.distance, self.sizes.flash


@dataclass
class Search:
    """What a search works with, and what it has found.

    Attributes:
        sizes: plans a point; None for one that cannot be.
        recipe: of a point, as it is evaluated.
        flash: bytes for weights and code; None without a limit.
        calibration: what the recipe of a point gets for calibrated weights; empty for none.
        found: by point, and whether it is calibrated.
    """

    space: Space
    evaluator: Evaluator
    sizes: Callable[[Point], Sizes | None]
    recipe: Callable[[Point], str]
    flash: int | None
    calibration: str = ""
    harms: Harms = field(default_factory=Harms)
    found: dict[tuple[Point, bool], Found] = field(default_factory=dict)

    def run(self) -> list[Found]:
        """Every point that was evaluated and fits, the least loss first; empty where none does."""
        self.single_moves()
        weights = self.weights()
        groups = Groups.make(self.space, weights, self.harms)
        best = self.promising(groups, _PROMISING, self.flash)
        if not best:
            return []
        self.evaluate("candidates", best)
        if not self.found:
            raise self._used_up()
        self.evaluate("smaller ones", self.smaller(groups))
        self.refine(weights)
        if self.calibration:
            self.evaluate("rounded together", self._worth_calibrating(), calibrated=True)
        return self.ranked()

    @property
    def _kept(self) -> int:
        """Evaluations that are kept for points with calibrated weights."""
        return min(_CALIBRATED, self.evaluator.budget // 8) if self.calibration else 0

    def _used_up(self, least: int = 0) -> UsageError:
        """Return (not raise) the error of a search that ends before a point is measured that fits.

        Args:
            least: evaluations that would do; 0 where nobody knows.
        """
        if self.evaluator.late:
            return time_is_over()
        what = "evaluations are used up by single moves, before a recipe that fits is measured"
        hint = f"give {least} at least, or search less with --only" if least else _LESS
        return UsageError(what, where=f"--budget {self.evaluator.budget}", hint=hint)

    def ranked(self) -> list[Found]:
        """What fits, the least loss first."""
        return sorted((one for one in self.found.values() if self.fits(one.point)), key=lambda one: one.order)

    def fits(self, point: Point) -> bool:
        """Whether a point has room, as planned."""
        sizes = self.sizes(point)
        return sizes is not None and sizes.fits

    # ---- single moves ----

    def single_moves(self) -> None:
        """Measure what each move away from the widest point adds to the distance from the original, on a first look.

        Where the budget does not allow all values of all axes, the last ones and some between are measured.
        """
        widest = self.space.widest
        left = self.evaluator.left - 1
        wanted = self._values_to_measure(left // 2)
        if len(wanted) >= left and not self.evaluator.late:
            raise self._used_up(len(wanted) + 2)
        (base,) = self._look([widest]) or (None,)
        if base is None:
            raise self._used_up()
        self.harms.base = base.distance
        points = [moved(widest, axis, value) for axis, value in wanted]
        possible = [(move, point) for move, point in zip(wanted, points, strict=True) if self.sizes(point) is not None]
        outcomes = self._look([point for _, point in possible])
        for (move, _), outcome in zip(possible, outcomes, strict=False):
            self.harms.measured[move] = max(0.0, outcome.distance - base.distance)

    def _look(self, points: Sequence[Point]) -> list[Outcome]:
        return self.evaluator.measure("single moves", [self.recipe(point) for point in points], Part.LOOK)

    def _values_to_measure(self, most: int) -> list[tuple[int, int]]:
        """Moves by (axis, value): of each axis the last value first, then the one in the middle of the widest gap."""
        chosen: list[tuple[int, int]] = []
        rounds = [_by_halves(len(axis.values) - 1) for axis in self.space.axes]
        for turn in range(max(map(len, rounds), default=0)):
            chosen += [(axis, values[turn]) for axis, values in enumerate(rounds) if turn < len(values)]
        least = sum(len(axis.values) > 1 for axis in self.space.axes)
        return sorted(chosen[: max(most, least)])

    # ---- what they promise ----

    def weights(self) -> Weights:
        """Sections of the weights behind every single move, as planned."""
        widest = self.space.widest
        single = {
            (axis, value): sizes.sections if (sizes := self.sizes(moved(widest, axis, value))) else None
            for axis, own in enumerate(self.space.axes)
            for value in range(1, len(own.values))
        }
        base = self.sizes(widest)
        assert base is not None
        return Weights(base.sections, single)

    def promising(self, groups: Groups, count: int, flash: int | None) -> list[Point]:
        """Points that fit, as planned to the byte, by their predicted distance from the original.

        Args:
            flash: bytes that they may take.
        """
        outer = [(point, sizes) for point in outer_points(self.space) if (sizes := self.sizes(point))]
        found: dict[Point, float] = {}
        spare = 0
        for _ in range(_ATTEMPTS):
            pool: list[tuple[float, Point]] = []
            for point, sizes in outer:
                beside = sizes.flash - groups.governed
                capacity = (sizes.flash if flash is None else flash) - beside - spare
                if not sizes.ram_over:
                    pool += groups.best(self.harms, point, capacity, count + _SPARE)
            chosen = sorted(pool)[: count + _SPARE]
            found |= {point: harm for harm, point in chosen if self._has_room(point, flash)}
            if len(found) >= count or not pool or flash is None:
                break
            planned = (self.sizes(point) for _, point in chosen)
            lacks = sorted(sizes.flash - flash for sizes in planned if sizes and sizes.flash > flash)
            spare += max(_LEAST_STEP, lacks[len(lacks) // 2] if lacks else 0)  # for code, which a mixture has more of
        return sorted(found, key=lambda point: (found[point], point))[:count]

    def _has_room(self, point: Point, flash: int | None) -> bool:
        sizes = self.sizes(point)
        return self.fits(point) and sizes is not None and (flash is None or sizes.flash <= flash)

    def smaller(self, groups: Groups) -> list[Point]:
        """The most promising points for less flash than there is, down to the smallest."""
        flash = [one.sizes.flash for one in self.ranked()]
        least = self.sizes(self.space.smallest)
        if not flash or least is None:
            return []
        high, low = max(flash), min(least.flash, max(flash))
        steps = (round(low * (high / low) ** (number / _SMALLER)) for number in reversed(range(1, _SMALLER)))
        return list(dict.fromkeys(point for step in steps for point in self.promising(groups, 1, step)))

    # ---- neighbours ----

    def refine(self, weights: Weights) -> None:
        """Evaluate the most promising neighbours of the best point, until none is better or the budget is used up."""
        looked: set[Point] = set()
        while self.evaluator.left > self._kept and (ranked := self.ranked()):
            centre = ranked[0]
            if centre.point in looked:
                break
            near = [point for point in self._near(centre.point) if (point, False) not in self.found]
            near.sort(key=lambda point: (self._step(centre, point), point))
            able = (point for point in near if self._may_fit(weights, point) and self.fits(point))
            self.evaluate("neighbours", list(itertools.islice(able, _NEIGHBOURS)))
            if self.ranked()[0].point == centre.point:
                looked.add(centre.point)

    def _may_fit(self, weights: Weights, point: Point) -> bool:
        """Whether its weights alone have room, which takes no planning."""
        return self.flash is None or weights.total(self.space, point) <= self.flash

    def _step(self, centre: Found, point: Point) -> float:
        """Predicted distance, from what was measured of the centre."""
        return centre.outcome.distance + self.harms.total(point) - self.harms.total(centre.point)

    def _near(self, point: Point) -> Iterable[Point]:
        """Points one move away, or two: one wider, another narrower."""
        ones = list(self.space.moves(point))
        twos = (two for one in ones for two in self.space.moves(one))
        return dict.fromkeys(near for near in (*ones, *twos) if near != point)

    def _worth_calibrating(self) -> list[Point]:
        """The best points, by their loss and by their distance: both are measured with some error."""
        ranked = self.ranked()
        nearest = sorted(ranked, key=lambda one: one.outcome.distance)
        mixed = (one.point for pair in zip(ranked, nearest, strict=True) for one in pair)
        return list(dict.fromkeys(mixed))[:_CALIBRATED]

    def evaluate(self, what: str, points: Sequence[Point], *, calibrated: bool = False) -> None:
        """Measure points that fit on all rows of the search."""
        recipes = [self.recipe(point) + (self.calibration if calibrated else "") for point in points]
        self.evaluator.measure(what, recipes, Part.SEARCH, keep=0 if calibrated else self._kept)
        for point, recipe in zip(points, recipes, strict=True):
            outcome, sizes = self.evaluator.found(recipe, Part.SEARCH), self.sizes(point)
            if outcome is not None and sizes is not None:
                one = Found(point, recipe, sizes, outcome, self.harms.total(point), calibrated)
                self.found[point, calibrated] = one


def time_is_over() -> UsageError:
    """Return (not raise) the error of a search that has nothing to show when its time ends."""
    return UsageError("is over before a recipe that fits is measured", where="--time", hint=_LESS)


def timed(progress: Progress, ends: float) -> Progress:
    """A progress whose every step raises `time_is_over` after so much monotonic time."""

    def watched(what: str, total: int) -> Advance:
        advance = progress(what, total)

        def step(done: int) -> None:
            if time.monotonic() > ends:
                raise time_is_over()
            advance(done)

        step(0)
        return step

    return watched


def front(found: Sequence[Found]) -> list[Found]:
    """Points than which none is better in flash, memory and loss at once; the least loss first, and equal ones once."""

    def figures(one: Found) -> tuple[float, ...]:
        return one.outcome.loss.mean, one.sizes.flash, one.sizes.memory

    def beaten(one: Found) -> bool:
        own = figures(one)
        return any(
            other != own and all(b <= a for a, b in zip(own, other, strict=True)) for other in map(figures, found)
        )

    best: dict[tuple[float, ...], Found] = {}
    for one in sorted((one for one in found if not beaten(one)), key=lambda one: one.order):
        best.setdefault(figures(one), one)
    return list(best.values())


def _by_halves(count: int) -> list[int]:
    """The numbers 1 to ``count``: the last first, then what is in the middle of the widest gap.

    >>> _by_halves(5)
    [5, 2, 3, 1, 4]
    """
    chosen = [0, count] if count else [0]
    while len(chosen) <= count:
        ends = sorted(chosen)
        gaps = [(high - low, -low, low) for low, high in itertools.pairwise(ends)]
        width, _, low = max(gaps)
        chosen.append(low + width // 2)
    return chosen[1:]
