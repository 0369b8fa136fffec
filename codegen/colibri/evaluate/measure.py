"""Run the programs over the data, and count what is asked of their outputs."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from colibri.errors import CheckFailed
from colibri.evaluate.candidate import Candidate, sample_requests, token_requests
from colibri.evaluate.data import SampleData, TokenData, Window
from colibri.evaluate.model import Estimate, SampleScores, TokenScores
from colibri.evaluate.native import Answers
from colibri.evaluate.statistics import Wide, divergences, estimate, log_probabilities, losses, ratio
from colibri.progress import Advance

_PIECE_BYTES = 16 << 20  # of logits of one model that are looked at together
_BLOCKS = 100  # most blocks of samples that an interval is made of


@dataclass
class TokenSums:
    """Of each window, over its scored positions: ``[windows]``; what compares is 0 when there is no original."""

    nats: Wide
    divergence: Wide
    agreed: Wide


def measure_tokens(
    candidates: Sequence[Candidate], data: TokenData, *, compared: bool, jobs: int, advance: Advance
) -> tuple[list[TokenScores], float]:
    """Scores of each, and the seconds that it took; see `token_sums`."""
    began = time.monotonic()
    sums = token_sums(candidates, data, compared=compared, jobs=jobs, advance=advance)
    scored = np.array([window.scored for window in data.windows], np.float64)
    return [
        _token_scores(one, sums[0] if compared and index else None, scored) for index, one in enumerate(sums)
    ], time.monotonic() - began


def token_sums(
    candidates: Sequence[Candidate], data: TokenData, *, compared: bool, jobs: int, advance: Advance
) -> list[TokenSums]:
    """What a window of each tells.

    All run side by side, window by window, so that no more than a piece of the logits is held.

    Args:
        compared: the first is the original.
        jobs: programs of each model at a time; windows take turns.

    Raises:
        CheckFailed: outputs that are not finite.
        EmulatorFailed: a program failed.
    """
    windows = data.windows
    lanes = min(jobs, len(windows))
    sums = [TokenSums(*(np.zeros(len(windows)) for _ in range(3))) for _ in candidates]
    width = candidates[0].package.model.outputs
    rows = max(1, _PIECE_BYTES // (4 * width))
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(len(candidates) * lanes) as pool:
        running = [
            [
                stack.enter_context(one.answering(token_requests(windows[lane::lanes]), f"lane{lane}"))
                for one in candidates
            ]
            for lane in range(lanes)
        ]
        for first in range(0, len(windows), lanes):
            batch = windows[first : first + lanes]
            for start in range(0, max(window.inputs.size for window in batch), rows):
                counts = [max(0, min(rows, window.inputs.size - start)) for window in batch]
                asked = [(answers, count) for lane, count in zip(running, counts, strict=False) for answers in lane]
                pieces = list(pool.map(_read, asked))
                for number, window in enumerate(batch):
                    own = pieces[number * len(candidates) : (number + 1) * len(candidates)]
                    _count(sums, first + number, window, start, own, compared)
                    advance(len(own[0]) * len(candidates))
    return sums


def _read(asked: tuple[Answers, int]) -> NDArray[np.float32]:
    answers, count = asked
    return answers.rows(count)


def _count(
    sums: list[TokenSums], index: int, window: Window, start: int, pieces: list[NDArray[np.float32]], compared: bool
) -> None:
    """Add what a piece of a window tells."""
    skip = max(0, window.skipped - start)
    targets = window.targets[start : start + len(pieces[0])][skip:]
    if not targets.size:
        return
    original: Wide | None = None
    for one, piece in zip(sums, pieces, strict=True):
        if not np.isfinite(piece).all():
            raise CheckFailed("the model gives outputs that are not finite", where=f"window {index}")
        logs = log_probabilities(piece[skip:])
        one.nats[index] += losses(logs, targets).sum()
        if compared and original is None:
            original = logs
        elif original is not None:
            one.divergence[index] += divergences(original, logs).sum()
            one.agreed[index] += (original.argmax(-1) == logs.argmax(-1)).sum()


def _token_scores(one: TokenSums, original: TokenSums | None, scored: Wide) -> TokenScores:
    nats = estimate(one.nats, scored)
    perplexity = float(np.exp(min(nats.mean, 700.0)))
    if original is None:
        return TokenScores(nats, perplexity)
    return TokenScores(
        nats,
        perplexity,
        lost=estimate(one.nats - original.nats, scored),
        divergence=estimate(one.divergence, scored),
        agreement=estimate(one.agreed, scored),
    )


def blocks_of(count: int) -> int:
    """How many blocks of samples an interval is made of: neighbours in time are alike, so they go together."""
    return min(_BLOCKS, count)


def measure_samples(
    candidates: Sequence[Candidate], data: SampleData, *, compared: bool, advance: Advance
) -> tuple[list[SampleScores], float]:
    """As `measure_tokens`, of samples.

    Raises:
        CheckFailed: outputs that are not finite.
        EmulatorFailed: a program failed, or refused a sample.
    """
    began = time.monotonic()
    found = sample_outputs(candidates, data, advance)
    return [
        _sample_scores(outputs, found[0] if compared and index else None, data) for index, outputs in enumerate(found)
    ], time.monotonic() - began


def sample_outputs(candidates: Sequence[Candidate], data: SampleData, advance: Advance) -> list[Wide]:
    """Outputs ``[samples, outputs]`` of each.

    Raises:
        CheckFailed: outputs that are not finite.
        EmulatorFailed: a program failed, or refused a sample.
    """
    found = []
    for one in candidates:
        batch = one.package.batch
        calls = -(-len(data.x) // batch)
        with one.answering(sample_requests(one.package, data.x), "all") as answers:
            outputs = answers.rows(calls * batch)[: len(data.x)].astype(np.float64)
        if not np.isfinite(outputs).all():
            raise CheckFailed("the model gives outputs that are not finite", where=one.name)
        found.append(outputs)
        advance(len(outputs))
    return found


def _sample_scores(outputs: Wide, original: Wide | None, data: SampleData) -> SampleScores:
    places = np.linspace(0, len(outputs), blocks_of(len(outputs)) + 1).astype(int)
    counts = np.diff(places).astype(np.float64)

    def sums(values: Wide) -> Wide:
        return np.asarray(np.add.reduceat(values, places[:-1]))

    def mean(values: Wide) -> Estimate:
        return estimate(sums(values), counts)

    def relative(errors: Wide, before: Wide) -> Estimate | None:
        return ratio(sums(errors), sums(before))

    scores = SampleScores(difference=None if original is None else mean(np.abs(outputs - original).mean(axis=1)))
    if data.values is not None:
        errors = np.abs(outputs - data.values)
        scores = replace(scores, mae=mean(errors.mean(axis=1)), mae_of=tuple(mean(column) for column in errors.T))
        if original is not None:
            before = np.abs(original - data.values)
            each = zip(errors.T, before.T, strict=True)
            loss = relative(errors.sum(axis=1), before.sum(axis=1))
            scores = replace(scores, loss=loss, loss_of=tuple(relative(*pair) for pair in each))
    if data.classes is not None:
        chosen = outputs.argmax(axis=1)
        right = (chosen == data.classes).astype(np.float64)
        scores = replace(scores, accuracy=mean(right))
        if original is not None:
            theirs = original.argmax(axis=1)
            lost, same = right - (theirs == data.classes), (chosen == theirs).astype(np.float64)
            scores = replace(scores, accuracy_lost=mean(lost), agreement=mean(same))
    return scores
