"""The whole model on the data, as all choices of experts begin with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from colibri.checkpoint.checkpoint import Checkpoint
from colibri.evaluate.data import SampleData, TokenData
from colibri.generate import build_graph
from colibri.graph.graph import Graph, ModelKind
from colibri.graph.scheme import Scheme
from colibri.graph.weights import Kept
from colibri.options import Options
from colibri.passes.merge import Merge
from colibri.progress import Progress
from colibri.prune.choose import Aim, Chosen, Search, Sizes
from colibri.prune.statistics import Found, Statistics
from colibri.prune.trial import Batch, Ran, Trials, batches_of

ARITHMETIC = Scheme.W8A16  # fast in numpy, exact, and next to the original
_HELD = Kept(left=1 << 26, largest=1 << 24)  # weights that stay in memory, some 12 bytes each


@dataclass(frozen=True)
class Whole:
    """What came of it.

    Attributes:
        graph: in `ARITHMETIC`.
        unit: ``tokens`` or ``samples``; ``rows`` of them ran.
        found: empty where nobody asked for statistics.
    """

    graph: Graph
    unit: str
    rows: int
    ran: Ran
    found: Found
    batches: list[Batch]
    _search: Search
    _trials: Trials
    _progress: Progress

    def choose(self, aim: Aim) -> Chosen:
        """Let experts go, once."""
        told = self._progress
        return self._search.choose(aim, lambda count: self._trials.tell(told(self.unit, self.rows * count)))


def run_whole(
    path: Path,
    options: Options,
    data: TokenData | SampleData,
    sizes: Sizes,
    progress: Progress,
    *,
    statistics: bool = True,
) -> Whole:
    """Run it.

    Args:
        options: with their folds; their schemes and calibration mean nothing here.
        sizes: for the search.
        progress: is told of tokens or samples.
        statistics: whether norms and changes of the layers' outputs are wanted.
    """
    options = replace(options, scheme=ARITHMETIC, rules=(), calibration=None)

    def made(**changed: object) -> Graph:
        return build_graph(Checkpoint.open(path), replace(options, **changed))  # type: ignore[arg-type]

    def merged(merges: Sequence[Merge]) -> Graph:
        return made(merges=(*options.merges, *merges))

    graph = made()
    graph.kept = replace(_HELD, made={})
    batches = batches_of(data, graph.output_width)
    rows = sum(batch.counted.size for batch in batches)
    unit = "tokens" if graph.kind is ModelKind.TOKENS else "samples"
    trials = Trials(graph, batches, progress(unit, rows))
    watching = Statistics(graph, len(batches)) if statistics else None
    ran = trials.base(graph, None, None if watching is None else watching.watch)
    found = watching.found() if watching else Found({}, {})
    search = Search(trials, ran, found, sizes, merged, made(scheme=Scheme.F32, folds={}))
    return Whole(graph, unit, rows, ran, found, batches, search, trials, progress)
