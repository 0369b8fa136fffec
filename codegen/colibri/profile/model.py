"""What a profile says. All counts are instructions, accesses or bytes that an emulator saw; none is a time."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

SCHEMA = 1


class Verdict(StrEnum):
    """How control flow depends on data, as far as the inputs show it.

    Attributes:
        CONSTANT: every instruction ran equally often for all inputs at the same position.
        CHOICE: it varied, but not among inputs for which the same experts ran.
        DATA: it varied among inputs for which the same experts ran.
        OPEN: it varied, and no two inputs at the same position ran the same experts.
    """

    CONSTANT = "constant"
    CHOICE = "choice"
    DATA = "data"
    OPEN = "open"


@dataclass(frozen=True)
class FunctionCost:
    """A function of the image.

    Attributes:
        share: of all instructions, 0 to 1.
        model: of the package's library, else of the port, the compiler or the C library.
    """

    name: str
    instructions: int
    share: float
    model: bool


@dataclass(frozen=True)
class StepCost:
    """One step of the model, its helpers included: from the entry of its first kernel to that of the next step's.

    Attributes:
        name: as in `Package.ops`; ``entry`` is what runs before the first kernel.
        kind: as in `Package.ops`; ``Entry``.
        layer: -1 before the first layer and after the last.
        macs: multiply-adds.
    """

    name: str
    kind: str
    layer: int
    instructions: int
    macs: int


@dataclass(frozen=True)
class MemoryCost:
    """Traffic of one kind of content of a memory region."""

    region: str
    content: str
    loads: int
    load_bytes: int
    stores: int
    store_bytes: int


@dataclass(frozen=True)
class Estimate:
    """An estimate, from instructions and figures in documents. Nobody measured it.

    Attributes:
        cycles: least and most; None where no document gives a bound.
        milliseconds: least and most.
        clock_mhz: the core's clock.
        assumes: conditions under which the range holds.
        sources: documents of the figures.
    """

    cycles: tuple[int, int | None]
    milliseconds: tuple[float, float | None]
    clock_mhz: float
    assumes: str
    sources: tuple[str, ...]

    def words(self) -> str:
        """``between 41.2 and 58.9 ms at 168 MHz``; ``at least`` where nothing bounds it from above."""
        low, high = self.milliseconds
        unit, scale = ("ms", 1.0) if low >= 0.1 else ("µs", 1000.0)
        clock = f"{unit} at {self.clock_mhz:g} MHz"
        if high is None:
            return f"at least {_three(low * scale)} {clock}"
        return f"between {_three(low * scale)} and {_three(high * scale)} {clock}"


@dataclass(frozen=True)
class PositionCost:
    """One token at a position, or one call of forward.

    Attributes:
        position: 0 for samples.
        macs: multiply-adds; norms, softmax and activations count none.
        functions: the most expensive first.
        steps: in their order; empty when they cannot be told apart, see `Profile.no_steps`.
        unaligned: accesses that are not aligned.
        outside: accesses outside the board's memory; None where that is not known (Linux).
    """

    position: int
    instructions: int
    macs: int
    functions: tuple[FunctionCost, ...]
    steps: tuple[StepCost, ...]
    memory: tuple[MemoryCost, ...]
    unaligned: int
    outside: int | None
    estimate: Estimate | None

    def layers(self) -> dict[int, int]:
        """Instructions of each layer; -1 is what lies outside of them."""
        found: dict[int, int] = {}
        for step in self.steps:
            found[step.layer] = found.get(step.layer, 0) + step.instructions
        return found

    def kinds(self) -> dict[str, tuple[int, int]]:
        """Instructions and multiply-adds of each kind of step, the most expensive first."""
        found: dict[str, tuple[int, int]] = {}
        for step in self.steps:
            instructions, macs = found.get(step.kind, (0, 0))
            found[step.kind] = (instructions + step.instructions, macs + step.macs)
        return dict(sorted(found.items(), key=lambda item: -item[1][0]))


@dataclass(frozen=True)
class Prefill:
    """A prompt of as many tokens as are taken in at once, from position 0; or the longest source of an encoder."""

    tokens: int
    instructions: int


@dataclass(frozen=True)
class Spread:
    """Instructions of inferences at one position.

    Attributes:
        position: None for samples.
    """

    position: int | None
    inferences: int
    minimum: int
    median: int
    maximum: int


@dataclass(frozen=True)
class Varying:
    """A function whose instructions did not run equally often.

    Attributes:
        widest: largest difference between two inferences of the same position, in instructions.
        of_choice: the same, between two inferences for which the same experts ran.
        model: of the package's library, else of the port, the compiler or the C library.
    """

    name: str
    widest: int
    of_choice: int
    model: bool


@dataclass(frozen=True)
class ControlFlow:
    """Whether the executions of each instruction depend on the inputs.

    Attributes:
        inferences: compared in all.
        positions: groups of inferences at the same position.
        choices: different sets of experts seen.
        same_choice: inferences that have another one with the same position and the same experts.
        varying: worst first.
    """

    verdict: Verdict
    inferences: int
    positions: int
    choices: int
    same_choice: int
    varying: tuple[Varying, ...]


@dataclass(frozen=True)
class ExpertUse:
    """How often an expert ran.

    Attributes:
        expert: its number in the checkpoint.
        inferences: in which its weights were read, of `ControlFlow.inferences`.
    """

    layer: int
    expert: int
    inferences: int


@dataclass(frozen=True)
class Profile:
    """The whole profile of a package in one emulator.

    Attributes:
        emulator: its name.
        proves: what a run there says about the board.
        unit: ``token`` or ``call of N samples``.
        inputs: what the spread and the control flow were seen on.
        positions: first, middle and last of the context; one for samples (the call of median cost).
        no_steps: why steps and layers are missing; empty when they are not.
        no_estimate: why there is no estimate; empty when there is one.
        experts: all of them, by layer and number, those that never ran too; on the same inputs as the spread.
        abi_hash: of the package that was measured, like ``recipe_hash``.
    """

    schema: int
    package: str
    board: str
    core: str
    scheme: str
    emulator: str
    proves: str
    note: str
    unit: str
    inputs: str
    positions: tuple[PositionCost, ...]
    prefill: Prefill | None
    spread: tuple[Spread, ...]
    control_flow: ControlFlow
    no_steps: str
    no_estimate: str
    experts: tuple[ExpertUse, ...] = ()
    abi_hash: str = ""
    recipe_hash: str = ""
    encode: Prefill | None = None


def _three(value: float) -> str:
    """Three digits are already more than such a range is worth."""
    return f"{value:.3g}" if value < 100 else f"{value:,.0f}"
