"""Which executions depend on data: verdicts on counts made by hand."""

from __future__ import annotations

import numpy as np

from colibri.emulate.plugin import AddressRange, Plugin, Traffic
from colibri.emulate.symbols import Symbols
from colibri.profile.control_flow import compare, spreads
from colibri.profile.measure import Inference, Measured
from colibri.profile.model import ControlFlow, Verdict
from colibri.profile.watch import Area, Watch

NOTHING = Traffic(0, 0, 0, 0)
SYMBOLS = Symbols(((0, 8, "kernel"), (8, 8, "__mulsf3")), {})
AREAS = tuple(Area("flash", "weights", AddressRange(64 * i, 64 * i + 64), (0, i)) for i in range(2))
WATCH = Watch(Plugin(), SYMBOLS, {}, 0, {}, frozenset(), AREAS)


def flow(*rows: tuple[int, int, list[int]]) -> ControlFlow:
    """From position, chosen expert, and executions at addresses 0, 4, 8 and 12."""
    inferences = []
    for position, expert, counts in rows:
        traffic = tuple(Traffic(8 * (i == expert), 32, 0, 0) for i in range(2))
        inferences.append(Inference("step", position, sum(counts), (), traffic, NOTHING, 0, 0))
    executions = np.array([counts for _, _, counts in rows], np.int64)
    measured = Measured(tuple(inferences), np.array([0, 4, 8, 12], np.uint64), executions)
    return compare(measured, WATCH, {"kernel"})


def test_equal_counts_are_constant() -> None:
    found = flow((0, 0, [1, 2, 3, 4]), (0, 1, [1, 2, 3, 4]))
    assert (found.verdict, found.varying, found.choices) == (Verdict.CONSTANT, (), 2)


def test_positions_may_differ() -> None:
    assert flow((0, 0, [1, 2, 3, 4]), (1, 0, [1, 9, 3, 4])).verdict is Verdict.CONSTANT


def test_what_follows_the_choice() -> None:
    found = flow((0, 0, [1, 2, 3, 4]), (0, 1, [1, 5, 3, 4]), (0, 1, [1, 5, 3, 4]))
    assert found.verdict is Verdict.CHOICE
    assert [(one.name, one.widest, one.of_choice, one.model) for one in found.varying] == [("kernel", 3, 0, True)]
    assert found.same_choice == 2


def test_what_follows_the_data() -> None:
    found = flow((0, 0, [1, 2, 3, 4]), (0, 0, [1, 2, 3, 9]))
    assert found.verdict is Verdict.DATA
    assert [(one.name, one.of_choice, one.model) for one in found.varying] == [("__mulsf3", 5, False)]


def test_equal_sums_of_other_instructions_are_no_excuse() -> None:
    found = flow((0, 0, [1, 2, 3, 4]), (0, 0, [2, 1, 3, 4]))
    assert found.verdict is Verdict.DATA
    assert found.varying[0].widest == 1


def test_without_an_equal_choice_nothing_is_decided() -> None:
    found = flow((0, 0, [1, 2, 3, 4]), (0, 1, [1, 5, 3, 4]))
    assert (found.verdict, found.same_choice) == (Verdict.OPEN, 0)


def test_minimum_median_maximum() -> None:
    costs = [Inference("step", i % 2, cost, (), (), NOTHING, 0, 0) for i, cost in enumerate([5, 1, 9, 1, 7, 4])]
    even, odd = spreads(costs, positions=True)
    assert (even.position, even.inferences, even.minimum, even.median, even.maximum) == (0, 3, 5, 7, 9)
    assert (odd.minimum, odd.median, odd.maximum) == (1, 1, 4)
    assert spreads(costs[:1], positions=False)[0].position is None


def test_of_two_in_the_middle_the_lower_is_the_median() -> None:
    costs = [Inference("forward", 0, cost, (), (), NOTHING, 0, 0) for cost in (8, 2, 4, 6)]
    (spread,) = spreads(costs, positions=False)
    assert (spread.inferences, spread.median) == (4, 4)
