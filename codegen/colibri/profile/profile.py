"""Profile a package: build its test image, run it under the plugin, and say where the instructions go."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from colibri.boards.profile import Board, BoardKind, Emulator
from colibri.emulate.protocol import Request
from colibri.emulate.symbols import Symbols
from colibri.errors import DoesNotFit, UsageError
from colibri.package import Package
from colibri.profile.control_flow import compare, spreads
from colibri.profile.estimate import Estimator, make_estimator
from colibri.profile.experts import expert_use
from colibri.profile.inputs import Inputs
from colibri.profile.measure import Inference, Measured, measure
from colibri.profile.model import SCHEMA, Estimate, FunctionCost, MemoryCost, PositionCost, Prefill, Profile
from colibri.profile.steps import divide, macs_at, why_no_steps
from colibri.profile.watch import ELSEWHERE, Watch, make_watch
from colibri.toolchain.build import build
from colibri.toolchain.buildfiles import image_name


def default_emulator(board: Board) -> Emulator:
    """The first emulator of a board that takes the plugin.

    Raises:
        UsageError: there is none.
    """
    for emulator in board.emulators:
        if emulator.kind.is_qemu:
            return emulator
    raise UsageError("no emulator of this board counts instructions", where=board.id, hint="only QEMU does")


def make_profile(
    folder: Path,
    package: Package,
    emulator: Emulator,
    inputs: Inputs,
    *,
    clock_mhz: float | None = None,
    timeout: float = 600.0,
) -> Profile:
    """Profile a package on inputs.

    Raises:
        UsageError: a run outside QEMU, which the plugin does not observe.
        BuildFailed: the test image does not build.
        DoesNotFit: it does not fit.
        ToolMissing: no C compiler for the plugin, or no emulator.
        EmulatorFailed: a hang, a fault, or a status that is not ok.
    """
    if not emulator.kind.is_qemu:
        others = [other.name for other in package.board.emulators if other.kind.is_qemu]
        hint = f"try --emulator {others[0]}" if others else "build for a board with QEMU"
        raise UsageError(
            f"instructions are counted in QEMU, not in a {emulator.kind} run", where=emulator.name, hint=hint
        )
    name = image_name(package.board, emulator, "test")
    if not build(folder, [name]):
        raise DoesNotFit("the test image does not fit", where=package.board.id, hint="see `colibri report`")
    image = folder / name
    tokens = package.model.kind == "tokens"
    watch = make_watch(folder, package, image, memory=True)
    model = _library(folder)
    estimator = make_estimator(package.board, image, clock_mhz)
    seen, sources = measure(image, package, emulator, watch, inputs.requests(tokens), timeout).split()
    prefill: Prefill | None = None
    encode = Prefill(package.model.source, sources.inferences[0].instructions) if sources.inferences else None
    if tokens:
        requests = inputs.whole_requests() + _prefill_requests(package, inputs)
        whole, _ = measure(image, package, emulator, watch, requests, timeout).split()
        rows = sorted({0, package.context // 2, package.context - 1})
        costs = tuple(_cost(package, whole, row, watch, model, estimator) for row in rows)
        if len(prompts := whole.of("prefill")):
            prefill = Prefill(package.prefill, whole.inferences[prompts[0]].instructions)
        first = whole.inferences[0]
    else:
        order = sorted(range(len(seen.inferences)), key=lambda row: seen.inferences[row].instructions)
        row = order[(len(order) - 1) // 2]
        costs = (_cost(package, seen, row, watch, model, estimator),)
        first = seen.inferences[row]
    plural = "s" if package.batch > 1 else ""
    return Profile(
        schema=SCHEMA,
        package=package.name,
        board=package.board.id,
        core=package.board.cpu.core,
        scheme=package.scheme,
        emulator=emulator.name,
        proves=str(emulator.proves),
        note=emulator.note,
        unit="token" if tokens else f"call of {package.batch} sample{plural}",
        inputs=inputs.what,
        positions=tuple(cost for cost, _ in costs),
        prefill=prefill,
        encode=encode,
        spread=spreads(seen.inferences, positions=tokens),
        control_flow=compare(seen, watch, model),
        no_steps=why_no_steps(package, first, watch),
        no_estimate=next((why for _, why in costs if why), ""),
        experts=expert_use(seen.inferences, watch),
        abi_hash=package.abi_hash,
        recipe_hash=package.recipe_hash,
    )


def _prefill_requests(package: Package, inputs: Inputs) -> list[Request]:
    if package.prefill < 2 or inputs.whole is None:
        return []
    return [Request("R"), Request("P", inputs.whole[: package.prefill].astype("<u4").tobytes())]


def _library(folder: Path) -> set[str]:
    """Functions of the package's library."""
    objects = (folder / "build" / "library").rglob("*.o")
    return {name for path in objects for _, _, name in Symbols.of(path).functions}


def _cost(
    package: Package, measured: Measured, row: int, watch: Watch, model: set[str], estimator: Estimator
) -> tuple[PositionCost, str]:
    """The cost of an inference, and why there is no estimate of its time."""
    one = measured.inferences[row]
    estimate = estimator.estimate(measured.addresses, measured.executions[row])
    problem = estimate if isinstance(estimate, str) else ""
    bare = package.board.kind is BoardKind.BARE
    steps = () if why_no_steps(package, one, watch) else divide(package, one, watch)
    return PositionCost(
        position=one.position,
        instructions=one.instructions,
        macs=sum(macs_at(op, one.position) for op in package.ops if not op.encoder),
        functions=_functions(measured, row, watch, model),
        steps=steps,
        memory=_memory(one, watch),
        unaligned=one.unaligned,
        outside=one.outside if bare else None,
        estimate=estimate if isinstance(estimate, Estimate) else None,
    ), problem


def _functions(measured: Measured, row: int, watch: Watch, model: set[str]) -> tuple[FunctionCost, ...]:
    found: dict[str, int] = {}
    counts = measured.executions[row]
    for column in np.flatnonzero(counts):
        name = watch.symbols.function_at(int(measured.addresses[column])) or "?"
        found[name] = found.get(name, 0) + int(counts[column])
    total = sum(found.values())
    ordered = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    return tuple(FunctionCost(name, count, count / total, name in model) for name, count in ordered)


def _memory(one: Inference, watch: Watch) -> tuple[MemoryCost, ...]:
    """Traffic by region and content; what is at several places (experts, gaps) in one row."""
    found: dict[tuple[str, str], list[int]] = {}
    pairs = [((area.region, area.name), traffic) for area, traffic in zip(watch.areas, one.traffic, strict=True)]
    for key, traffic in [*pairs, ((ELSEWHERE, ""), one.elsewhere)]:
        row = found.setdefault(key, [0, 0, 0, 0])
        for i, value in enumerate((traffic.loads, traffic.load_bytes, traffic.stores, traffic.store_bytes)):
            row[i] += value
    return tuple(MemoryCost(*key, *row) for key, row in found.items() if any(row))
