"""In which order experts go, for `colibri fit` and `colibri explain`: as `colibri prune` lets them go."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from colibri.checkpoint.checkpoint import Checkpoint
from colibri.evaluate.data import SampleData, TokenData
from colibri.generate import build_graph
from colibri.options import Options
from colibri.passes.fold import fold_text
from colibri.progress import Progress, unseen
from colibri.prune.choose import Aim, Sizes, Until
from colibri.prune.sizing import Sizing
from colibri.prune.statistics import Key
from colibri.prune.whole import run_whole

_MOST_ROWS = 1280  # tokens or samples; each trial runs them


def worst_first(path: Path, data: TokenData | SampleData, options: Options, progress: Progress = unseen) -> list[Key]:
    """Experts in the order in which they go: what is as good as dead, then what the loss misses least for its bytes.

    Args:
        data: of which the first 1,280 rows are taken, in whole windows.
        options: what has gone before, and the scheme whose bytes count; calibration data mean nothing.

    Returns:
        (layer, id) of all that can go together; no layer keeps fewer than its router chooses.
    """
    options = replace(options, calibration=None)
    graph = build_graph(Checkpoint.open(path), options)
    options = replace(options, folds=fold_text(graph.folds))
    sizing = Sizing(Checkpoint.open(path), graph, options)
    sizes = Sizes(sizing.without, sizing.experts())
    whole = run_whole(path, options, _first(data), sizes, progress, statistics=False)
    return [(step.layer, step.id) for step in whole.choose(Aim(Until.KEEP, 1)).steps]


def _first(data: TokenData | SampleData) -> TokenData | SampleData:
    if isinstance(data, SampleData):
        return data.some(slice(0, _MOST_ROWS))
    windows, left = [], _MOST_ROWS
    for window in data.windows:
        if left <= 0:
            break
        windows.append(window)
        left -= window.inputs.size
    return replace(data, windows=tuple(windows))
