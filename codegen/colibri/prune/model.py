"""What a pruning found and did; ``colibri prune --json`` prints it."""

from __future__ import annotations

import msgspec

from colibri.evaluate.model import Evaluation

DEAD = 1e-4  # of tokens or samples: what is chosen by no more of them is as good as dead


class ExpertFacts(msgspec.Struct, frozen=True):
    """One expert on the data.

    Attributes:
        hits: tokens or samples that chose it.
        hit_share: of all tokens or samples that its layer saw, from 0 to 1.
        mass: sum of the router's weights for it.
        mass_share: of its layer's, from 0 to 1.
        norm: mean Euclidean norm of its weighted output, where it was chosen; None where it never was.
        error: change of the layer's output when it alone goes and the router chooses among the others: root of the sum
            of squares, relative to the output. None when it cannot go.
        lost: change of the loss when it alone goes; None when that was not measured, or it cannot go.
        bytes: of weights that go with it, in the scheme that was asked for; its row of the router included.
    """

    layer: int
    id: int
    hits: int
    hit_share: float
    mass: float
    mass_share: float
    norm: float | None
    error: float | None
    lost: float | None
    bytes: int


class Step(msgspec.Struct, frozen=True):
    """One expert that goes.

    Attributes:
        into: the expert that it is merged with; None when it is dropped.
        share: of it in the average; 0 when it is dropped.
        lost: loss above that of the whole model, from here on; None where nobody measured it.
        weight_bytes: of model.bin, from here on.
    """

    layer: int
    id: int
    into: int | None
    share: float
    lost: float | None
    weight_bytes: int


class Proof(msgspec.Struct, frozen=True):
    """Outputs with and without the experts that are as good as dead, in the scheme that was asked for.

    Attributes:
        experts: (layer, id).
        rows: tokens or samples whose outputs do not depend on these experts: neither they nor those before chose one.
        equal: of these, how many have the same bits.
        others: tokens or samples at or behind one that chose them.
    """

    experts: tuple[tuple[int, int], ...]
    rows: int
    equal: int
    others: int


class Pruning(msgspec.Struct, frozen=True):
    """All of it.

    Attributes:
        unit: ``tokens`` or ``samples``.
        rows: of these, that the statistics are of.
        loss: of the whole model on them, in the arithmetic of the search; what it is in words: ``loss_is``.
        search: that arithmetic.
        experts: every one of every layer with a router.
        steps: what goes, in this order.
        kept: layer to the ids that stay.
        mass_removed: share of the router's weights that the experts which go had, over all layers.
        routing: share of (row, layer) that choose the same experts as before; None without steps.
        weight_bytes: of model.bin, before and after.
        macs: multiply-adds of a token or sample, attention to a full context included, before and after.
        evaluation: the original in fp32, and the scheme before and after; None when nobody asked.
        measured: trials, each of which ran the data through what it changes.
        least: bytes of model.bin when all goes that can.
    """

    unit: str
    rows: int
    loss: float
    loss_is: str
    search: str
    recipe: str
    experts: tuple[ExpertFacts, ...]
    steps: tuple[Step, ...]
    kept: dict[int, list[int]]
    mass_removed: float
    routing: float | None
    weight_bytes: tuple[int, int]
    macs: tuple[int, int]
    measured: int
    least: int
    proof: Proof | None = None
    evaluation: Evaluation | None = None

    @property
    def dead(self) -> tuple[ExpertFacts, ...]:
        """Experts that nothing in the data chose, or one in 10,000."""
        return tuple(one for one in self.experts if one.hit_share <= DEAD)
