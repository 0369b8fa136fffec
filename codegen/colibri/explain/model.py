"""What an explanation says; ``colibri explain --json`` prints it."""

from __future__ import annotations

import msgspec


class Way(msgspec.Struct, frozen=True):
    """One way to make a recipe fit.

    Attributes:
        changes: in words, one for each thing that is changed.
        recipe: that does all of it, as one word.
        flash: bytes of weights and predicted code.
        memory: bytes of the caller's memory.
        lost: predicted loss above that of the recipe that was asked for: measured on data, or by the rule of thumb.
            None where that knows nothing.
        measured: whether ``lost`` is the difference of two measurements on the user's data.
        note: what else the user gives up; empty for nothing.
    """

    changes: tuple[str, ...]
    recipe: str
    flash: int
    memory: int
    lost: float | None
    measured: bool
    note: str = ""


class Dense(msgspec.Struct, frozen=True):
    """A dense model of the same active size: each layer has one MLP as wide as the experts that run together.

    Nothing is said of what it would know.

    Attributes:
        weights: bytes of its weights in the recipe that was asked for.
        flash: with predicted code of the model that was asked for.
        macs: multiply-adds a token or sample, attention to a full context included.
        flash_fits, ram_fits: whether it would have room.
        experts_weights, experts_macs: the same of the model that was asked for.
    """

    weights: int
    flash: int
    macs: int
    flash_fits: bool
    ram_fits: bool
    experts_weights: int
    experts_macs: int


class Explanation(msgspec.Struct, frozen=True):
    """All of it.

    Attributes:
        flash, memory: as `Way` has them, of the recipe that was asked for.
        flash_over, ram_over: bytes that have no room.
        flash_kept, ram_kept: bytes that the application keeps.
        ways: the cheapest first; at most three, none where it fits.
        loss: of the recipe that was asked for, on the user's data; None without data.
        loss_is: unit of losses.
        basis: where they come from, in words.
        flattered: whether experts that go were chosen on the data that the losses are measured on.
        dense: None where the model has no experts.
    """

    board: str
    recipe: str
    flash: int
    memory: int
    flash_over: int
    ram_over: int
    flash_kept: int
    ram_kept: int
    ways: tuple[Way, ...]
    loss: float | None
    loss_is: str
    basis: str
    flattered: bool
    dense: Dense | None

    @property
    def fits(self) -> bool:
        """Whether the recipe has room."""
        return not (self.flash_over or self.ram_over)
