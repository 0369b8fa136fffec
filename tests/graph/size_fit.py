"""Fit the amounts of `colibri.footprint.code_size` to what was measured of products, and bound the errors."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass

import msgspec
import numpy as np
from size_samples import Sample

from colibri.footprint.code_size import (
    OTHERS,
    Fixed,
    Measured,
    Routine,
    Sizes,
    measured_like,
    predict,
    program_buffers,
    table_bytes,
    table_traits,
)
from colibri.footprint.code_traits import Traits, kernels, program
from colibri.graph.scheme import SCHEMES
from colibri.package import Within
from colibri.passes.kernels import KernelSet, call_graph, reached

ROUND = 10  # bounds are multiples of it
MARGIN = 1.5  # from the largest error that was seen to a bound: the user's model is none of these
_GROUPS = ("code", "tables", "data")  # of `Within`, in its order
WORTH = 1.0  # bytes of root mean square error that a trait must save


@dataclass(frozen=True)
class Helpers:
    """Functions of the runtime that the compiler did not put into those that call them, in bytes.

    Attributes:
        own: of one kind of kernel alone, together.
        common: others, by name.
    """

    own: dict[str, int]
    common: dict[str, int]


def helpers(samples: list[Sample], calls: dict[str, frozenset[str]]) -> dict[str, Helpers]:
    """Those of each product, apart from the functions that kernels are named after.

    What kernels of several kinds call in one product is common in all of them, though one kind alone may have it there.
    """
    leading: dict[str, dict[str, list[str]]] = {}
    for sample in samples:
        runtime = {kernel.kind: kernel.runtime for kernel in kernels(sample.module)}
        names = sorted((sample.bytes.functions.keys() & calls.keys()) - set(runtime.values()))
        leading[sample.name] = {
            name: [kind for kind, one in runtime.items() if name in reached(calls, [one])] for name in names
        }
    common = {name for found in leading.values() for name, kinds in found.items() if len(kinds) != 1}
    all_found = {}
    for sample in samples:
        found = all_found[sample.name] = Helpers({}, {})
        for name, kinds in leading[sample.name].items():
            size = sample.bytes.functions[name]
            if name in common:
                found.common[name] = size
            else:
                found.own[kinds[0]] = found.own.get(kinds[0], 0) + size
    return all_found


def fit(samples: list[Sample], board: Measured, paths: KernelSet) -> Measured:
    """A board's measurement with coefficients by least squares."""
    folders = paths.path("attention").parents[1]
    stems = {one.stem for folder in paths.folders for one in (folders / folder).glob("*.h")}
    calls = call_graph(map(paths.path, sorted(stems)))
    beside = helpers(samples, calls)
    used = [(kernel, sample) for sample in samples for kernel in kernels(sample.module)]
    inlined = {kernel.kind for kernel, sample in used if kernel.runtime not in sample.bytes.functions}
    differing = {
        (kernel.kind, bool(sample.bytes.functions.get(kernel.runtime))) for kernel, sample in used if kernel.varied
    }
    folds = not any(kernel.twin and sample.bytes.functions.get(kernel.name) for kernel, sample in used)
    whole, shared, wrapper = (defaultdict[str, list[tuple[Traits, int]]](list) for _ in range(3))
    for sample in samples:
        seen: set[str] = set()
        for kernel in (one for one in kernels(sample.module) if not (one.twin and folds)):
            shares = not kernel.alone or kernel.kind not in inlined
            apart = sample.bytes.functions.get(kernel.runtime, 0) + beside[sample.name].own.get(kernel.kind, 0)
            together = apart if shares else 0
            # What only one kernel calls is its own, whether or not the compiler put it there.
            row = kernel.traits, sample.bytes.functions.get(kernel.name, 0) + apart - together
            (wrapper if together else whole)[kernel.kind].append(row)
            if together and kernel.kind not in seen:
                shared[kernel.kind].append((kernel.traits, together))
            seen.add(kernel.kind)
    bodies = {kind: body(whole.get(kind, []), shared.get(kind, [])) for kind in sorted({*whole, *shared})}
    measured = msgspec.structs.replace(
        board,
        fixed={kind: Fixed(0, 0, 0) for kind in ("tokens", "samples")},
        program={},
        kernel={kind: alone for kind, (alone, _) in bodies.items() if kind in whole},
        table={},
        shared={kind: together for kind, (_, together) in bodies.items() if kind in shared},
        wrapper={kind: select(rows) for kind, rows in sorted(wrapper.items())},
        library=library(samples, beside),
        folds=int(folds),
        apart=tuple(sorted(kind for kind in shared if (kind, False) in differing and (kind, True) not in differing)),
    )
    # The rest, beside what is known of the kernels: one constant for each kind of model, and the amounts.
    rest = [sample.bytes.code - predict(sample.module, sample.package, measured).code for sample in samples]
    amounts = [program(sample.module) | {sample.kind: 1.0} for sample in samples]
    code = select(list(zip(amounts, rest, strict=True)), always=("samples", "tokens", "functions", "buffers"))
    rest = [sample.bytes.tables - table_bytes(sample.module, sample.package) for sample in samples]
    amounts = [table_traits(sample.module) | {sample.kind: 1.0} for sample in samples]
    tables = select(list(zip(amounts, rest, strict=True)), always=("samples", "tokens"))
    variables = [{sample.kind: 1.0, "buffers": float(program_buffers(sample.package))} for sample in samples]
    data = solve(variables, [sample.bytes.data for sample in samples])
    fixed = {kind: Fixed(code.pop(kind), tables.pop(kind), data[kind]) for kind in measured.fixed}
    buffers = round(data["buffers"])
    return msgspec.structs.replace(measured, fixed=fixed, program=code, table=tables, buffers=buffers)


def adapted(samples: list[Sample], board: Measured, other: Measured) -> Measured:
    """A board's measurement with the amounts of another, but for what every program has: there the errors cancel."""
    measured = measured_like(msgspec.structs.replace(board, fixed=other.fixed), other)
    found = errors(samples, measured)
    fixed = {}
    for kind, known in other.fixed.items():
        own = [sample.kind == kind for sample in samples]
        off = {group: float(np.mean(np.array(values)[own])) for group, values in found.items()}
        fixed[kind] = Fixed(**{group: round(getattr(known, group) - off[group], 1) for group in off})
    return msgspec.structs.replace(measured, fixed=fixed)


def body(whole: list[tuple[Traits, int]], shared: list[tuple[Traits, int]]) -> tuple[Traits, Traits]:
    """A kind's kernels that are one function each, and the function that several share: alike but for a constant."""
    rows = [({name: amount for name, amount in row.items() if name != "rows"} | {"apart": 1.0}, s) for row, s in shared]
    fitted = select([*whole, *rows], always=("each", "apart"))
    apart = fitted.pop("apart", 0.0)
    together = {name: value for name, value in fitted.items() if name != "rows"}
    return fitted, together | {"each": round(fitted["each"] + apart, 1)}


def library(samples: list[Sample], beside: dict[str, Helpers]) -> dict[str, Routine]:
    """Routines that some images lack, with the kinds of kernel that never go without; the others are in `fixed`."""
    found = {}
    routines = {sample.name: sample.bytes.library | beside[sample.name].common for sample in samples}
    for name in sorted({name for sample in samples for name in routines[sample.name]}):
        having = [sample for sample in samples if name in routines[sample.name]]
        lacking = [sample for sample in samples if name not in routines[sample.name]]
        kinds = _kinds(having) - _kinds(lacking)
        if lacking:
            found[name] = Routine(max(routines[sample.name][name] for sample in having), tuple(sorted(kinds)))
    return found


def _kinds(samples: list[Sample]) -> set[str]:
    return {kernel.kind for sample in samples for kernel in kernels(sample.module)}


def select(rows: list[tuple[Traits, int]], always: tuple[str, ...] = ("each",)) -> Traits:
    """Fit bytes to traits, adding the most useful trait as long as one is worth it."""
    chosen = list(always)
    names = sorted({name for traits, _ in rows for name in traits} - set(always))
    sizes = [size for _, size in rows]

    def trial(traits: list[str]) -> tuple[Traits, float]:
        amounts = [{name: row[name] for name in traits if name in row} for row, _ in rows]
        solved = solve(amounts, sizes)
        errors = [sum(solved[n] * a for n, a in row.items()) - size for row, size in zip(amounts, sizes, strict=True)]
        return solved, float(np.sqrt(np.mean(np.square(errors))))

    best, error = trial(chosen)
    while names:
        trials = {name: trial([*chosen, name]) for name in names}
        name = min(names, key=lambda one: (trials[one][1], one))
        if error - trials[name][1] < WORTH:
            break
        chosen.append(name)
        names.remove(name)
        best, error = trials[name]
    return best


def solve(rows: list[Traits], sizes: list[int]) -> Traits:
    """Least squares of the smallest norm, to a tenth of a byte."""
    names = sorted({name for row in rows for name in row})
    matrix = np.array([[row.get(name, 0.0) for name in names] for row in rows])
    solved, *_ = np.linalg.lstsq(matrix, np.array(sizes, np.float64), rcond=None)
    return {name: round(float(value), 1) + 0.0 for name, value in zip(names, solved, strict=True)}


def errors(samples: list[Sample], measured: Measured) -> dict[str, list[int]]:
    """Predicted less linked, by group; a model with a kernel of unknown kind is an error."""
    found: dict[str, list[int]] = {"code": [], "tables": [], "data": []}
    for sample in samples:
        sizes: Sizes = predict(sample.module, sample.package, measured)
        for group, values in found.items():
            values.append(getattr(sizes, group) - getattr(sample.bytes, group))
    return found


def no_tighter(measured: Measured, other: Measured) -> Measured:
    """With bounds that are at least those of the board that it is like, of which more models were measured."""
    within = {
        scheme: Within(*(max(getattr(one, group), getattr(other.within[scheme], group)) for group in _GROUPS))
        for scheme, one in measured.within.items()
    }
    return msgspec.structs.replace(measured, within=within)


def bounded(measured: Measured, samples: list[Sample]) -> Measured:
    """With bounds for each scheme: its largest error, or that of the middle scheme where it is larger, and a margin.

    All other schemes, and several at once, have the largest of all.
    """
    own = list(map(str, SCHEMES))
    within = {}
    largest = {
        scheme: {
            group: max(map(abs, values))
            for group, values in errors([one for one in samples if one.package.scheme in taken], measured).items()
        }
        for scheme, taken in [*((one, {one}) for one in own), (OTHERS, {one.package.scheme for one in samples})]
    }
    for scheme, found in largest.items():
        middle = {group: sorted(largest[one][group] for one in own)[len(own) // 2] for group in found}
        most = {group: MARGIN * max(error, middle[group]) for group, error in found.items()}
        within[scheme] = Within(**{group: math.ceil(error / ROUND) * ROUND for group, error in most.items()})
    return msgspec.structs.replace(measured, within=within)
