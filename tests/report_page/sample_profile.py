"""A profile made by hand, of the report in `sample_page`."""

from __future__ import annotations

from colibri.profile.model import (
    SCHEMA,
    ControlFlow,
    Estimate,
    ExpertUse,
    FunctionCost,
    MemoryCost,
    PositionCost,
    Prefill,
    Profile,
    StepCost,
    Verdict,
)

RUNS = 12


def sample_profile(name: str = "f", *, layers: int = 2, experts: int = 4, functions: int = 3) -> Profile:
    """Two positions; in each layer expert 0 never ran, the others 3 times their number. ``name`` is all texts."""
    return Profile(
        schema=SCHEMA,
        package="sample",
        board="nucleo-h743zi",
        core="Cortex-M7",
        scheme="w8a8",
        emulator="mps2-an500",
        proves="core",
        note=name,
        unit="token",
        inputs=name,
        positions=(_cost(0, 1000, name, layers, functions), _cost(63, 4000, name, layers, functions)),
        prefill=Prefill(4, 2000),
        spread=(),
        control_flow=ControlFlow(Verdict.CONSTANT, RUNS, 12, 3, 0, ()),
        no_steps="",
        no_estimate="",
        experts=tuple(ExpertUse(layer, number, 3 * number) for layer in range(layers) for number in range(experts)),
        abi_hash="ab" * 16,
        recipe_hash="cd" * 16,
    )


def _cost(position: int, instructions: int, name: str, layers: int, functions: int) -> PositionCost:
    """A tenth outside of layers; in each layer three quarters are of experts, with 2 instructions a multiply-add."""
    each = instructions * 9 // 10 // layers
    entry = StepCost("entry", "Entry", -1, instructions - layers * each, 0)
    steps = [entry]
    for layer in range(layers):
        steps.append(StepCost(name, name, layer, each // 4, 0))
        steps.append(StepCost("mixed", "Experts", layer, each - each // 4, (each - each // 4) // 2))
    rest = [FunctionCost(f"g{number}", 1, 1 / instructions, True) for number in range(functions - 1)]
    largest = instructions - len(rest)
    return PositionCost(
        position=position,
        instructions=instructions,
        macs=sum(step.macs for step in steps),
        functions=(FunctionCost(name, largest, largest / instructions, True), *rest),
        steps=tuple(steps),
        memory=(MemoryCost("flash", "weights", 70, 280, 0, 0), MemoryCost("sram", name, 7, 28, 5, 20)),
        unaligned=0,
        outside=0,
        estimate=Estimate((500, None), (1.25, None), 400.0, name, (name,)),
    )
