"""Compare how often each instruction ran, between inputs."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import numpy as np
from numpy.typing import NDArray

from colibri.profile.measure import Inference, Measured
from colibri.profile.model import ControlFlow, Spread, Varying, Verdict
from colibri.profile.watch import Watch


def spreads(inferences: Iterable[Inference], *, positions: bool) -> tuple[Spread, ...]:
    """Minimum, median (the lower one) and maximum; per position when there are positions."""
    costs: dict[int, list[int]] = {}
    for one in inferences:
        costs.setdefault(one.position, []).append(one.instructions)
    return tuple(
        Spread(
            position=position if positions else None,
            inferences=len(some),
            minimum=min(some),
            median=sorted(some)[(len(some) - 1) // 2],
            maximum=max(some),
        )
        for position, some in sorted(costs.items())
    )


def compare(measured: Measured, watch: Watch, model: set[str]) -> ControlFlow:
    """Compare inferences of the same position, and among them those for which the same experts ran.

    An expert ran when its weights were read; how often tells how many rows of a batch chose it.

    Args:
        model: functions of the package's library.
    """
    rows = range(len(measured.inferences))
    choices = [chosen_experts(one, watch) for one in measured.inferences]
    positions = _groups(measured.inferences[row].position for row in rows)
    same = _groups((measured.inferences[row].position, choices[row]) for row in rows)
    names, column = _functions(measured, watch)
    widest = _widest(measured, positions, column, len(names))
    of_choice = _widest(measured, same, column, len(names))
    varying = [
        Varying(name, int(widest[i]), int(of_choice[i]), name in model) for i, name in enumerate(names) if widest[i]
    ]
    compared = sum(len(group) for group in same)
    return ControlFlow(
        verdict=_verdict(varying, compared),
        inferences=len(measured.inferences),
        positions=len({one.position for one in measured.inferences}),
        choices=len(set(choices)),
        same_choice=compared,
        varying=tuple(sorted(varying, key=lambda one: (-one.of_choice, -one.widest, one.name))),
    )


def chosen_experts(inference: Inference, watch: Watch) -> tuple[tuple[tuple[int, int], int], ...]:
    """(layer, expert) and the number of loads from its weights, for each expert that ran."""
    return tuple(
        (area.expert, traffic.loads)
        for area, traffic in zip(watch.areas, inference.traffic, strict=True)
        if area.expert is not None and traffic.loads
    )


def _verdict(varying: list[Varying], compared: int) -> Verdict:
    if not varying:
        return Verdict.CONSTANT
    if any(one.of_choice for one in varying):
        return Verdict.DATA
    return Verdict.CHOICE if compared else Verdict.OPEN


def _groups(keys: Iterable[Hashable]) -> list[list[int]]:
    """Rows of equal key, where there are at least two."""
    found: dict[Hashable, list[int]] = {}
    for row, key in enumerate(keys):
        found.setdefault(key, []).append(row)
    return [group for group in found.values() if len(group) > 1]


def _functions(measured: Measured, watch: Watch) -> tuple[list[str], NDArray[np.intp]]:
    """Names of functions, and for each address the index of its function."""
    names: dict[str, int] = {}
    column = [
        names.setdefault(watch.symbols.function_at(int(address)) or "?", len(names)) for address in measured.addresses
    ]
    return list(names), np.array(column, np.intp)


def _widest(measured: Measured, groups: list[list[int]], column: NDArray[np.intp], functions: int) -> NDArray[np.int64]:
    """For each function the largest difference within a group: of its sum, or where that is equal, of an address."""
    widest = np.zeros(functions, np.int64)
    for group in groups:
        some = measured.executions[group]
        apart = some.max(axis=0) - some.min(axis=0)
        if not apart.any():
            continue
        each = np.zeros(functions, np.int64)
        np.maximum.at(each, column, apart)
        sums = np.zeros((len(group), functions), np.int64)
        np.add.at(sums.T, column, some.T)
        each = np.maximum(each, sums.max(axis=0) - sums.min(axis=0))
        widest = np.maximum(widest, each)
    return widest
