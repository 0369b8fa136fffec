"""One evaluation as a piece of work that can be sent anywhere: it says what it needs, and answers with numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import msgspec
import numpy as np

from colibri.evaluate.candidate import Candidate, check_samples, check_tokens, of_checkpoint
from colibri.evaluate.data import SampleData, TokenData, read_rows
from colibri.evaluate.measure import sample_outputs, token_sums
from colibri.evaluate.model import Estimate
from colibri.evaluate.native import find_host
from colibri.evaluate.statistics import Wide, estimate
from colibri.fit.original import kept_original, make_original
from colibri.fit.split import Part, Split, split_rows
from colibri.package import ModelFacts
from colibri.progress import unseen
from colibri.recipe import parse_recipe
from colibri.scratch import scratch_folder

_MOST_BLOCKS = 100  # whose means intervals are made of
_CHECKED = 64  # positions or samples whose bits the reference gives too


class Source(msgspec.Struct, frozen=True):
    """Model and data, the same of every evaluation of a search.

    Attributes:
        checkpoint, data: paths; a worker elsewhere must see them too.
        window: tokens behind an empty context; 0 for samples, and where the data says it.
        limit: most tokens or samples of the file; 0 for all.
        apart: whether some rows are for the calibration.
        seed: of the split.
    """

    checkpoint: str
    data: str
    window: int
    limit: int
    apart: bool
    seed: int


class Task(msgspec.Struct, frozen=True):
    """A recipe on a part of the data.

    Attributes:
        recipe: in a word.
        part: of `Part`.
        original: folder of `make_original` and `keep_outputs`; where there is none the worker makes its own.
    """

    source: Source
    recipe: str
    part: str
    original: str = ""


class Outcome(msgspec.Struct, frozen=True):
    """Sums over blocks of neighbouring rows.

    Attributes:
        counts: tokens scored, or samples.
        losses: nats, absolute errors, or wrong classes; differences from the original where the data has no answers.
        originals: the same of the original in fp32; all 0 where the data has no answers.
        distances: Kullback-Leibler divergence from the original, or squared differences of the outputs: those of
            independent errors add up.
        agreed: how often the largest output is the original's.
    """

    counts: tuple[float, ...]
    losses: tuple[float, ...]
    originals: tuple[float, ...]
    distances: tuple[float, ...]
    agreed: tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse what no evaluation gives, as a journal may hold: ValueError."""
        sums = (self.counts, self.losses, self.originals, self.distances, self.agreed)
        if len(set(map(len, sums))) > 1 or not self.counts or min(self.counts) <= 0:
            raise ValueError("sums of blocks do not belong together")

    def of(self, sums: Sequence[float]) -> Estimate:
        """The mean of one of the sums."""
        return estimate(np.array(sums), np.array(self.counts))

    @property
    def loss(self) -> Estimate:
        """Per token or sample."""
        return self.of(self.losses)

    @property
    def original(self) -> Estimate:
        """Of the original."""
        return self.of(self.originals)

    @property
    def lost(self) -> Estimate:
        """Above the original, paired."""
        return self.of(np.array(self.losses) - np.array(self.originals))

    @property
    def distance(self) -> float:
        """From the original."""
        return self.of(self.distances).mean

    @property
    def agreement(self) -> float:
        """With the original."""
        return self.of(self.agreed).mean


def run_task(task: Task) -> Outcome:
    """Generate, compile and run the candidate beside the original, on this machine.

    Raises:
        ColibriError: as `evaluate_checkpoint`.
    """
    source, options, host = task.source, parse_recipe(task.recipe), find_host()
    with scratch_folder("fit") as scratch:
        checkpoint, part = Path(source.checkpoint), Part(task.part)
        candidate = of_checkpoint(checkpoint, options, host, scratch / "candidate")
        data = Data.read(source, candidate.package.model, candidate.package.context)
        rows = data.split.rows[part]
        original = kept_original(Path(task.original), data.whole, rows, scratch) if task.original else None
        original = original or make_original(checkpoint, options, scratch / "original", host)
        candidate.compile(host)
        return data.measured([original, candidate], part)


class Data:
    """The rows of a source, and how they are split."""

    def __init__(self, source: Source, rows: TokenData | SampleData) -> None:
        self._source, self.whole = source, rows

    @classmethod
    def read(cls, source: Source, facts: ModelFacts, context: int) -> Data:
        """Read the file.

        Raises:
            BadInput: unreadable, or not for this model.
            UsageError: the window or the limit cannot be meant.
        """
        window, limit = source.window or None, source.limit or None
        return cls(source, read_rows(Path(source.data), facts, context, window, None, limit))

    @cached_property
    def count(self) -> int:
        """Windows or samples."""
        return len(self.whole.windows) if isinstance(self.whole, TokenData) else len(self.whole.x)

    @cached_property
    def split(self) -> Split:
        """Which rows are for what."""
        return split_rows(self.count, calibrating=self._source.apart, seed=self._source.seed)

    def part(self, part: Part) -> TokenData | SampleData:
        """Some rows."""
        rows = self.split.rows[part]
        if isinstance(self.whole, TokenData):
            return replace(self.whole, windows=tuple(self.whole.windows[row] for row in rows))
        return self.whole.some(np.array(rows))

    def measured(self, pair: Sequence[Candidate], part: Part) -> Outcome:
        """The second beside the first, on a part."""
        data = self.part(part)
        if isinstance(data, TokenData):
            check_tokens(pair[1], data.windows, _CHECKED)
            original, found = token_sums(pair, data, compared=True, jobs=1, advance=unseen("", 0))
            scored = np.array([window.scored for window in data.windows], np.float64)
            return _outcome(scored, found.nats, original.nats, found.divergence, found.agreed)
        check_samples(pair[1], data.x, _CHECKED)
        original_outputs, outputs = sample_outputs(pair, data, unseen("", 0))
        distances = ((outputs - original_outputs) ** 2).mean(axis=1)
        agreed = (outputs.argmax(axis=1) == original_outputs.argmax(axis=1)).astype(np.float64)
        ones = np.ones(len(outputs))
        if data.classes is not None:
            wrong, before = (some.argmax(axis=1) != data.classes for some in (outputs, original_outputs))
            return _outcome(ones, wrong.astype(np.float64), before.astype(np.float64), distances, agreed)
        if data.values is not None:
            errors, before = (np.abs(some - data.values).mean(axis=1) for some in (outputs, original_outputs))
            return _outcome(ones, errors, before, distances, agreed)
        apart = np.abs(outputs - original_outputs).mean(axis=1)
        return _outcome(ones, apart, np.zeros(len(outputs)), distances, agreed)


def _outcome(*sums: Wide) -> Outcome:
    """Rows summed up to blocks."""
    starts = np.unique(np.linspace(0, len(sums[0]), min(_MOST_BLOCKS, len(sums[0])) + 1).astype(int)[:-1])
    blocks = (tuple(np.add.reduceat(one, starts).tolist()) for one in sums)
    return Outcome(*blocks)
