"""What a search found; ``colibri fit --json`` prints it."""

from __future__ import annotations

import msgspec

from colibri.evaluate.model import Estimate

SCHEMA = 1


class Choice(msgspec.Struct, frozen=True):
    """A point of the front.

    Attributes:
        recipe: in a word, as `colibri build --recipe` takes it.
        evaluated: the same without what no output depends on: the least context, no prefill.
        weights, code, flash: bytes of flash; the code is predicted.
        memory: bytes of the caller's memory, in all its blocks.
        context: positions, as many as fit; 0 for samples.
        prefill: tokens at once; 0 for samples.
        loss: on the rows of the search.
        lost: above the original, paired.
        final: the same on the rows that are kept for the final figures; only of those that may be built.
        distance: from the original: nats of divergence, or the mean squared difference of outputs.
        predicted: the distance that single moves promised, without calibration.
        agreement: share of the rows where the largest output is the original's.
        values: word on each axis.
        dropped: layer to the experts left out.
    """

    recipe: str
    evaluated: str
    weights: int
    code: int
    flash: int
    memory: int
    context: int
    prefill: int
    loss: Estimate
    lost: Estimate
    final: Estimate | None
    distance: float
    predicted: float
    agreement: float
    values: dict[str, str] = {}
    dropped: dict[str, list[int]] = {}


class Other(msgspec.Struct, frozen=True):
    """A point that was evaluated and is not on the front."""

    recipe: str
    flash: int
    memory: int
    loss: float
    lost: float


class Move(msgspec.Struct, frozen=True):
    """A single move away from the widest point.

    Attributes:
        harm: distance from the original that it adds.
        saved, memory: bytes of weights, and of the caller's memory, that it saves.
        measured: whether it was, or lies between two that were.
    """

    axis: str
    value: str
    harm: float
    saved: int
    memory: int
    measured: bool


class Region(msgspec.Struct, frozen=True):
    """A region of the board, in bytes.

    Attributes:
        limit: that may be used; 0 without a limit.
        reserve: of these for the application.
    """

    name: str
    kind: str
    limit: int
    reserve: int


class Rows(msgspec.Struct, frozen=True):
    """Which data was for what: tokens or samples.

    Attributes:
        look, search, final: for single moves, for candidates, for the figures at the end.
        calibration: where it comes from.
        fresh: whether the final figures come from rows that the search never saw.
        window: tokens behind an empty context; 0 for samples.
    """

    kind: str
    look: int
    search: int
    final: int
    calibration: str
    fresh: bool
    window: int


class Final(msgspec.Struct, frozen=True):
    """The chosen point on the final rows, as it was built.

    Attributes:
        loss, lost: and what the original has.
        regions: bytes in the linked image, by region, without the reserve.
        package: folder.
        instructions: counted by the emulator for a ``unit``; None where there is no limit of them.
    """

    loss: Estimate
    original: Estimate
    lost: Estimate
    agreement: float
    regions: dict[str, int] = {}
    package: str = ""
    instructions: int | None = None
    unit: str = ""


class Fit(msgspec.Struct, frozen=True):
    """The whole of a search.

    Attributes:
        schema: version of this form.
        measure: what loss is, in words.
        points: that there are in the space.
        evaluated: recipes, of which the journal knew ``known``.
        front: best in loss, flash and memory; the least loss first.
        chosen: index into ``front``.
        final: None where nothing was built.
    """

    schema: int
    checkpoint: str
    board: str
    title: str
    data: str
    measure: str
    unit: str
    regions: tuple[Region, ...]
    rows: Rows
    seed: int
    points: int
    evaluated: int
    known: int
    original: Estimate
    front: tuple[Choice, ...]
    others: tuple[Other, ...]
    moves: tuple[Move, ...]
    chosen: int
    final: Final | None = None
    max_instructions: int | None = None

    def to_json(self) -> bytes:
        """Sorted keys, ending in a newline."""
        return msgspec.json.format(msgspec.json.encode(self, order="sorted"), indent=1) + b"\n"
