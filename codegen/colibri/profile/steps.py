"""Divide an inference among the steps of the model, by the order in which its kernels were entered."""

from __future__ import annotations

from colibri.package import OpFact, Package
from colibri.profile.measure import Inference
from colibri.profile.model import StepCost
from colibri.profile.watch import Watch

_ENTRY = "Entry"


def macs_at(op: OpFact, position: int) -> int:
    """Multiply-adds of a step at a position of the context."""
    return op.macs + op.macs_per_position * min(position + 1, op.reach)


def why_no_steps(package: Package, inference: Inference, watch: Watch) -> str:
    """Why the kernels entered are not those that the package lists, encode's aside; empty when they are."""
    if not any(op.kernels for op in package.ops):
        return "the package does not list its kernels; generate it again"
    expected = _expected(package, watch)
    seen = [watch.kernels[call.address] for call in inference.calls]
    if len(seen) != len(expected):
        return f"{len(seen)} kernels were entered where the package lists {len(expected)}"
    for index, (names, (_, name)) in enumerate(zip(seen, expected, strict=True)):
        if name not in names:
            return f"kernel {index} was {'/'.join(sorted(names))} where the package lists {name}"
    return ""


def divide(package: Package, inference: Inference, watch: Watch) -> tuple[StepCost, ...]:
    """Cost of each step; they sum to the inference. The last one includes the way back to the caller."""
    expected = _expected(package, watch)
    ends = [*(call.at for call in inference.calls[1:]), inference.instructions]
    costs = [0] * len(package.ops)
    for (op, _), call, end in zip(expected, inference.calls, ends, strict=True):
        costs[op] += end - call.at
    before = inference.calls[0].at if inference.calls else inference.instructions
    entry = StepCost("entry", _ENTRY, -1, before, 0)
    return (
        entry,
        *(
            StepCost(op.name, op.kind, op.layer, cost, macs_at(op, inference.position))
            for op, cost in zip(package.ops, costs, strict=True)
            if not op.encoder
        ),
    )


def _expected(package: Package, watch: Watch) -> list[tuple[int, str]]:
    """Index of the step and name of the kernel, in order; without kernels that the compiler inlined."""
    there = {name for names in watch.kernels.values() for name in names}
    return [
        (index, name)
        for index, op in enumerate(package.ops)
        if not op.encoder
        for _ in range(op.repeats)
        for name in op.kernels
        if name in there
    ]
