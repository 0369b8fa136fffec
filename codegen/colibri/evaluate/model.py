"""What an evaluation found; ``colibri eval --json`` prints it."""

from __future__ import annotations

import msgspec


class Estimate(msgspec.Struct, frozen=True):
    """A mean over the data.

    Attributes:
        within: half the width of the 95 % interval around it; None where one block of data says nothing of the spread.
    """

    mean: float
    within: float | None


class TokenScores(msgspec.Struct, frozen=True):
    """Of a language model; what compares is None when there is no original.

    Attributes:
        nats: loss a token.
        perplexity: ``exp(nats)``; its interval is that of ``nats``.
        lost: nats a token above the original.
        divergence: Kullback-Leibler divergence of the original's distribution from this one, nats a token.
        agreement: share of the positions where the most likely token is the original's.
    """

    nats: Estimate
    perplexity: float
    lost: Estimate | None = None
    divergence: Estimate | None = None
    agreement: Estimate | None = None


class SampleScores(msgspec.Struct, frozen=True):
    """Of a sensor model; what the data or the lack of an original does not tell is None.

    Attributes:
        mae: mean absolute error over all outputs.
        loss: the same relative to the original's, less 1.
        mae_of, loss_of: the same of each output; empty where there is none.
        accuracy: share of the samples where the largest output is the class.
        accuracy_lost: share above the original's; below 0 when it is worse.
        agreement: share of the samples where the largest output is the original's; only for classes.
        difference: mean absolute difference of the outputs from the original's, over all of them.
    """

    mae: Estimate | None = None
    loss: Estimate | None = None
    mae_of: tuple[Estimate, ...] = ()
    loss_of: tuple[Estimate | None, ...] = ()
    accuracy: Estimate | None = None
    accuracy_lost: Estimate | None = None
    agreement: Estimate | None = None
    difference: Estimate | None = None


class Row(msgspec.Struct, frozen=True):
    """One model on the data.

    Attributes:
        name: the recipe, or the last part of the package's folder; ``f32`` for the original.
        weight_bytes: of its files of weights.
        checked: positions or samples whose bits were compared, all equal.
        against: with what they were compared.
        scores: of the kind of the model.
        routing: share of (place, layer) among these positions or samples where the original's experts ran; None where
            that cannot be told.
    """

    name: str
    weight_bytes: int
    checked: int
    against: str
    scores: TokenScores | SampleScores
    routing: float | None = None


class Evaluation(msgspec.Struct, frozen=True):
    """All models on the same data.

    Attributes:
        kind: ``tokens`` or ``samples``.
        count: tokens that are scored, or samples.
        left_out: tokens or samples of the file that are not.
        window, stride: tokens in a window, and from one to the next; 0 for samples, and where they differ.
        blocks: of data, whose means the intervals come from.
        original: the checkpoint in fp32; None without one.
        board: whose program ran on this machine.
        seconds: that the programs and the scoring of their outputs took, all together.
        per_second: tokens or samples in a second, summed over all models.
    """

    data: str
    kind: str
    count: int
    left_out: int
    blocks: int
    original: Row | None
    rows: tuple[Row, ...]
    seconds: float
    per_second: float
    window: int = 0
    stride: int = 0
    board: str = ""
