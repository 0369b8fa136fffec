"""Evaluations of a search: each once, side by side, kept in the journal, within the budget."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Executor, Future, as_completed
from pathlib import Path

from colibri.fit.journal import Journal, key_of
from colibri.fit.split import Part
from colibri.fit.task import Outcome, Source, Task, run_task
from colibri.fit.workers import in_words
from colibri.progress import Progress


class Evaluator:
    """Measures recipes.

    Attributes:
        asked: evaluations so far, those that the journal knew included: a resumed search takes the same steps.
        known: of these, how many the journal knew.
    """

    def __init__(
        self,
        source: Source,
        executor: Executor,
        journal: Journal,
        content: str,
        *,
        original: str,
        calibration: str = "",
        budget: int,
        ends: float | None,
        progress: Progress,
    ) -> None:
        """Begin to count.

        Args:
            content: hash of checkpoint, data and generator, of which paths say nothing.
            original: as `Task` has it.
            calibration: path of the calibration data that recipes name; ``content`` has its hash.
            budget: most evaluations.
            ends: monotonic time after which none begins; None for never.
        """
        self.asked = self.known = 0
        self.budget = budget
        self._source, self._executor, self._journal, self._content = source, executor, journal, content
        self._original, self._calibration = original, calibration
        self._ends = ends
        self._progress = progress
        self._found: dict[tuple[str, Part], Outcome] = {}

    @property
    def left(self) -> int:
        """Evaluations that may still be asked for; 0 when the time is over."""
        return 0 if self.late else max(0, self.budget - self.asked)

    @property
    def late(self) -> bool:
        """Whether the time is over."""
        return self._ends is not None and time.monotonic() > self._ends

    def found(self, recipe: str, part: Part) -> Outcome | None:
        """What has been measured."""
        return self._found.get((recipe, part))

    def measure(
        self, what: str, recipes: Sequence[str], part: Part, *, keep: int = 0, beyond: bool = False
    ) -> list[Outcome]:
        """The recipes on a part of the data, the first ones where the budget is not enough for all.

        Args:
            what: for the progress bar.
            keep: evaluations that are to be left for later.
            beyond: whether the budget does not count.

        Raises:
            ColibriError: as `run_task`.
            EmulatorFailed: as `in_words`.
        """
        fresh = [recipe for recipe in dict.fromkeys(recipes) if (recipe, part) not in self._found]
        chosen = fresh if beyond else fresh[: max(0, self.left - keep)]
        self.asked += 0 if beyond else len(chosen)
        keys = {recipe: self._key(recipe, part) for recipe in chosen}
        advance = self._progress(what, len(chosen))
        waiting: dict[Future[Outcome], str] = {}
        try:
            for recipe in chosen:
                known = self._journal.get(keys[recipe], Outcome)
                if known is None:
                    task = Task(self._source, self._sent(recipe), str(part), self._original)
                    waiting[self._executor.submit(run_task, task)] = recipe
                else:
                    self._found[recipe, part] = known
                    self.known += not beyond
                    advance(1)
            for future in as_completed(waiting):
                recipe, outcome = waiting[future], future.result()
                self._journal.put(keys[recipe], recipe, outcome)
                self._found[recipe, part] = outcome
                advance(1)
        except BaseException as error:
            for future in waiting:
                future.cancel()
            said = in_words(error, self._executor)
            if said is error:
                raise
            raise said from error
        measured = (self._found.get((recipe, part)) for recipe in recipes)
        return [outcome for outcome in measured if outcome is not None]

    def _sent(self, recipe: str) -> str:
        """With a path that holds in any folder."""
        path = self._calibration
        return recipe.replace(path, str(Path(path).absolute())) if path else recipe

    def _key(self, recipe: str, part: Part) -> str:
        source = self._source
        word = recipe.replace(self._calibration, "") if self._calibration else recipe
        return key_of(self._content, source.window, source.limit, source.apart, source.seed, word, str(part))
