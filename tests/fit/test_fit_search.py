"""The search against every combination, with losses and sizes that cost nothing."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from small_models import SHAKESPEARE, load_graph
from synthetic import FLASH, AtOnce, planned, synthetic

from colibri.errors import UsageError
from colibri.fit.evaluator import Evaluator
from colibri.fit.journal import opened
from colibri.fit.predict import Groups
from colibri.fit.search import Search, front, timed
from colibri.fit.sizes import Sizes
from colibri.fit.space import Point, Space, make_space, narrowed
from colibri.fit.split import Part
from colibri.fit.task import Source, Task
from colibri.progress import unseen

ONLY = ("experts=w8,w4,w2", "attention=w4", "embedding=w4", "head=w4", "activations=a8", "kv=f16")


@contextmanager
def searching(
    folder: Path, space: Space, budget: int, executor: AtOnce | None = None, calibration: str = ""
) -> Iterator[Search]:
    source = Source("model", "data", 0, 0, False, 0)

    def recipe(point: Point) -> str:
        return space.recipe(point, context=64)

    def sizes(point: Point) -> Sizes | None:
        return planned(recipe(point))

    with opened(folder / "journal", "model") as journal:
        evaluator = Evaluator(
            source,
            executor or AtOnce(),
            journal,
            "",
            original="",
            budget=budget,
            ends=None,
            progress=unseen,
        )
        yield Search(space, evaluator, sizes, recipe, FLASH, calibration)


def test_the_search_finds_what_brute_force_finds(tmp_path: Path) -> None:
    """Of 3^4 codings, with an expert of two layers less or not, it evaluates but a few."""
    only = ("experts=w4,w3,w2", *ONLY[1:], "0.dropped=0", "1.dropped=0", "2.dropped=0,1", "3.dropped=0,1")
    space = narrowed(make_space(load_graph(SHAKESPEARE)), only)
    assert space.count == 324
    with searching(tmp_path, space, 48) as search:
        found = search.run()
        every = itertools.product(*(range(len(axis.values)) for axis in space.axes))
        fitting = [point for point in every if search.fits(point)]
        losses = {
            point: synthetic(Task(Source("", "", 0, 0, False, 0), search.recipe(point), "search")) for point in fitting
        }
        best = min(losses, key=lambda point: losses[point].loss.mean)
        assert found[0].point == best and found[0].outcome == losses[best]
        assert search.evaluator.asked <= 48 < len(fitting) // 2
        assert all(one.sizes.flash <= FLASH for one in found)


def test_equal_searches_take_equal_steps_and_an_interrupted_one_goes_on(tmp_path: Path) -> None:
    space = narrowed(make_space(load_graph(SHAKESPEARE)), (*ONLY, "dropped=0,2"))
    first, second = AtOnce(), AtOnce()
    with searching(tmp_path, space, 40, first) as search:
        found, asked = search.run(), search.evaluator.asked
    lines = (tmp_path / "journal").read_bytes().splitlines(keepends=True)
    (tmp_path / "journal").write_bytes(b"".join(lines[:15]) + lines[15][:20])
    with searching(tmp_path, space, 40, second) as search:
        again = search.run()
        assert search.evaluator.known == 14 and search.evaluator.asked == asked > 20
    assert again == found and len(second.tasks) == len(first.tasks) - 14


def test_what_comes_before_evaluations_ends_with_the_time_too() -> None:
    told: list[int] = []
    advance = timed(lambda what, total: told.append, time.monotonic() + 3600)("tokens", 9)
    advance(4)
    assert told == [0, 4]
    with pytest.raises(UsageError, match="--time: is over before"):
        timed(unseen, time.monotonic() - 1)("tokens", 9)


def test_the_front_holds_what_nothing_beats(tmp_path: Path) -> None:
    space = narrowed(make_space(load_graph(SHAKESPEARE)), (*ONLY, "dropped=0,4"))
    with searching(tmp_path, space, 48) as search:
        found = search.run()
    best = front(found)
    assert best[0] == found[0] and len(best) > 3
    flash = [one.sizes.flash for one in best]
    assert flash == sorted(flash, reverse=True)
    for one in (one for one in found if one not in best):
        assert any(
            other.outcome.loss.mean <= one.outcome.loss.mean
            and other.sizes.flash <= one.sizes.flash
            and other.sizes.memory <= one.sizes.memory
            for other in best
        )


def test_a_small_budget_is_kept(tmp_path: Path) -> None:
    space = narrowed(make_space(load_graph(SHAKESPEARE)), (*ONLY, "dropped=0,4"))
    with searching(tmp_path, space, 12) as search:
        found = search.run()
        assert found and search.evaluator.asked <= 12
        looked = [recipe for recipe, part in search.evaluator._found if part is Part.LOOK]
        assert len(looked) == 9


def test_mixtures_with_much_more_code_leave_candidates(tmp_path: Path) -> None:
    """As long as nobody has measured the code of a board's kernels: of what is planned first nothing has room."""
    space = narrowed(make_space(load_graph(SHAKESPEARE)), (*ONLY[:4], "dropped=0,2,4"))
    with searching(tmp_path, space, 40) as search:
        plain = search.sizes

        def sizes(point: Point) -> Sizes | None:
            found = plain(point)
            assert found is not None
            more = 5_000 * (len(set(point[2:6])) - 1) + 90 * sum(
                index * value for index, value in enumerate(point[-4:])
            )
            flash = found.flash + more
            return msgspec.structs.replace(found, code=found.code + more, flash=flash, flash_over=max(0, flash - FLASH))

        search.sizes = sizes
        search.single_moves()
        groups = Groups.make(space, search.weights(), search.harms)
        for less in range(0, 60_000, 5_000):
            found = search.promising(groups, 12, FLASH - less)
            assert len(found) == 12, less
            assert all((one := sizes(point)) and one.flash <= FLASH - less for point in found)


@pytest.mark.parametrize(("budget", "count"), [(12, 1), (32, 4), (48, 4)])
def test_neighbours_leave_something_for_calibrated_weights(tmp_path: Path, budget: int, count: int) -> None:
    space = narrowed(make_space(load_graph(SHAKESPEARE)), (*ONLY, "dropped=0,4"))
    with searching(tmp_path, space, budget, calibration=":calibrate=self") as search:
        found = search.run()
        assert sum(one.calibrated for one in found) == count and search.evaluator.asked <= budget
        assert all(one.recipe.endswith(":calibrate=self") == one.calibrated for one in found)


@pytest.mark.parametrize("budget", [1, 3])
def test_too_small_a_budget_finds_nothing_rather_than_a_lie(tmp_path: Path, budget: int) -> None:
    space = narrowed(make_space(load_graph(SHAKESPEARE)), (*ONLY, "dropped=0,4"))
    with searching(tmp_path, space, budget) as search, pytest.raises(UsageError) as caught:
        search.run()
    what = "evaluations are used up by single moves, before a recipe that fits is measured"
    assert str(caught.value) == f"--budget {budget}: {what}; give 10 at least, or search less with --only"
    assert search.evaluator.asked == 0  # it is said before anything is measured


def test_the_least_budget_that_is_named_will_do(tmp_path: Path) -> None:
    space = narrowed(make_space(load_graph(SHAKESPEARE)), ("experts=w2", *ONLY[1:], "dropped=0,4"))
    with searching(tmp_path, space, 5) as search, pytest.raises(UsageError, match="give 6 at least"):
        search.run()
    with searching(tmp_path, space, 6) as search:
        assert search.run() and search.evaluator.asked == 6
