"""Calibration data for those who have none: the model's own text.

It is sampled from `wide_copy`, many sequences side by side. Probabilities become integers and
random numbers are SplitMix64 of seed and place, so the text is the same on every machine.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from colibri.calibrate.collect import side_by_side
from colibri.calibrate.data import TOKENS, CalibrationData
from colibri.calibrate.wide import wide_copy
from colibri.errors import BadInput, UsageError
from colibri.graph.float32 import Float, softmax_terms
from colibri.graph.graph import Graph, ModelKind
from colibri.graph.interpret import Reference
from colibri.progress import Progress, unseen

SEED = 1
LONGEST = 128  # tokens of a sequence
_FINE = np.float32(1 << 24)  # steps of a probability


def own_text(graph: Graph, tokens: int | None = None, seed: int = SEED, progress: Progress = unseen) -> CalibrationData:
    """Let the model write: sequences that begin with a token by chance and go on by its own probabilities.

    Args:
        graph: in fp32, pruned and folded as it will be; it is not changed.
        tokens: about how many, at least one sequence; None for `TOKENS`.

    Raises:
        UsageError: a model that does not write on its own: a sensor model, or one with an encoder.
        BadInput: its scores are no numbers.
    """
    if graph.kind is not ModelKind.TOKENS or graph.source:
        what = "a sensor model" if graph.kind is ModelKind.SAMPLES else "a model with an encoder"
        raise UsageError(f"{what} writes no text of its own", where="--calibrate self", hint="name a file of data")
    length = min(graph.context, LONGEST)
    count = max(1, (TOKENS if tokens is None else tokens) // length)
    exact = wide_copy(graph)
    together = side_by_side(exact, count)
    advance = progress("calibration text", count * length)
    text = np.zeros((count, length), np.int64)
    for first in range(0, count, together):
        some = text[first : first + together]
        reference = Reference(exact, len(some))
        rows = np.arange(first, first + len(some), dtype=np.uint64)
        some[:, 0] = _random(seed, rows, 0) % np.uint64(graph.output_width)
        for position in range(1, length):
            logits = reference.extend(some[:, position - 1 : position])
            some[:, position] = _drawn(logits, _random(seed, rows, position))
            advance(len(some))
    return CalibrationData(windows=text)


def _drawn(logits: Float, random: NDArray[np.uint64]) -> NDArray[np.int64]:
    """A token for each row ``[rows, vocab]``, by its softmax."""
    terms, _ = softmax_terms(logits)
    steps = np.cumsum(np.rint(terms * _FINE).astype(np.int64), axis=1)
    if not steps[:, -1].all():
        raise BadInput("the model's own text cannot be drawn: its scores are no numbers", where="calibration")
    wanted = (random % steps[:, -1].astype(np.uint64)).astype(np.int64)
    return np.asarray(np.count_nonzero(steps <= wanted[:, None], axis=1))


def _random(seed: int, rows: NDArray[np.uint64], position: int) -> NDArray[np.uint64]:
    """SplitMix64's finaliser (Steele, Lea, Flood 2014) over a number for each place."""
    place = (rows << np.uint64(32)) + np.uint64(position) + np.uint64(seed << 52)
    mixed = (place + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
