"""What the user chooses, whichever way it was said: options of a command, a recipe in a word, a recipe's file."""

from __future__ import annotations

from dataclasses import dataclass, field

from colibri.calibrate.data import Calibration
from colibri.graph.graph import StateType
from colibri.graph.scheme import Scheme
from colibri.optimise import Optimise
from colibri.passes.fold import FoldText
from colibri.passes.merge import Merge
from colibri.passes.pins import Pins
from colibri.passes.rules import Rule


@dataclass(frozen=True)
class Options:
    """What the user chooses.

    Attributes:
        scheme: of the matrices that no rule takes.
        rules: in the order of `rules.ordered`.
        batch: samples in a call of forward (sample models).
        prefill: tokens taken in at once (token models).
        context: positions (token models); None means the checkpoint's maximum.
        source: tokens that an encoder takes; None means as many as the context.
        drop: layer to expert ids that go.
        keep: layer to the expert ids that stay; layers not named keep all.
        threads: that share a call's work (Linux); None for one on each processor where that gains something.
        prefix: of C names; None makes one from the checkpoint's folder.
        pins: the user's wishes where things go.
        folds: scales to move between weights; None finds them in the weights, where something is quantised.
        merges: experts that go into others of their layers, one merge after the other.
        calibration: data that weights are rounded for; None rounds each to the nearest value.
        optimise: what the code is made for; None where nobody said: for speed.
        word, file: of the recipe that says all this, for messages; empty for none.
        checkpoint: fingerprint of the only one that all this is meant for; empty for any.
    """

    scheme: Scheme = Scheme.W8A8
    kv: StateType = StateType.F32
    batch: int | None = None
    prefill: int | None = None
    context: int | None = None
    source: int | None = None
    drop: dict[int, set[int]] = field(default_factory=dict)
    keep: dict[int, set[int]] = field(default_factory=dict)
    threads: int | None = None
    prefix: str | None = None
    pins: Pins = field(default_factory=Pins)
    rules: tuple[Rule, ...] = ()
    folds: FoldText | None = None
    merges: tuple[Merge, ...] = ()
    calibration: Calibration | None = None
    optimise: Optimise | None = None
    word: str = field(default="", compare=False)
    file: str = field(default="", compare=False)
    checkpoint: str = field(default="", compare=False)

    @property
    def quantised(self) -> bool:
        """Whether any matrix is asked to be."""
        return any(not one.floats for one in (self.scheme, *(rule.scheme for rule in self.rules)))

    @property
    def schemes(self) -> str:
        """The scheme and the rules in a word: ``w4a8:experts=w3a8:head=w8a16``."""
        return ":".join(map(str, (self.scheme, *self.rules)))
