"""`colibri explain`: what a recipe lacks on a board, what would do, and what the experts cost there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from colibri.boards.profile import Board, Holds
from colibri.checkpoint.checkpoint import Checkpoint
from colibri.errors import DoesNotFit
from colibri.evaluate.evaluate import Cut, evaluate_checkpoint
from colibri.evaluate.model import Row, SampleScores, TokenScores
from colibri.explain.model import Dense, Explanation, Way
from colibri.explain.ways import Change, Plan, any_order, ways
from colibri.fit.sizes import Planner, Sizes, in_words
from colibri.generate import build_graph
from colibri.graph.graph import Graph
from colibri.graph.ops import Experts
from colibri.graph.work import work
from colibri.options import Options
from colibri.passes.fold import fold_text
from colibri.passes.prune import Chooser
from colibri.progress import Progress, unseen
from colibri.prune.order import worst_first
from colibri.prune.prune import read_data
from colibri.recipe import recipe_text

_SHOWN = 3
_MEASURED = 6  # ways that are measured, when there is data

THUMB = (
    "by a rule of thumb: what the same did to examples/shakespeare-moe, as colibri/explain/measured.py has it; "
    "your model loses something else, and --data measures that"
)


def explain(
    checkpoint: Path,
    board: Board,
    options: Options,
    data: Path | None = None,
    cut: Cut | None = None,
    *,
    jobs: int = 0,
    progress: Progress = unseen,
) -> Explanation:
    """Plan the recipe, and others next to it.

    Args:
        board: less the reserves.
        data: to measure the recipe and the ways on, as `colibri eval` takes it; None for the rule of thumb.

    Raises:
        BadInput: checkpoint or data.
        UsageError: options that cannot be meant.
        DoesNotFit: nothing fits.
    """
    graph = build_graph(Checkpoint.open(checkpoint), options)
    cut = cut or Cut()
    rows = None if data is None else read_data(data, graph, cut)  # wrong or right, measured or not
    # Windows of another context are other windows: the hash of a recipe holds no longer.
    calibration = options.calibration and replace(options.calibration, sha256="")
    options = replace(options, folds=fold_text(graph.folds), calibration=calibration, file="")
    planner = Planner(checkpoint, board, Path("explained"), options.folds)
    asked = planner.must(_planned(options))

    def plan(changed: Options) -> Sizes | None:
        return planner.sizes(_planned(changed))

    found: list[Change] = []
    if not asked.fits:
        order = any_order(graph)
        if rows is not None and order:
            order = worst_first(checkpoint, rows, options, progress)
        found = ways(graph, options, plan, order, _SHOWN if data is None else _MEASURED)
        if not found:
            lacking = in_words(asked.flash_over, asked.ram_over)
            what = f"{recipe_text(options)} lacks {lacking}, and no smaller recipe that was tried fits"
            raise DoesNotFit(what, where=board.id, hint="choose a larger board, or a smaller model")
    if data is None:
        made, loss, loss_is, basis = [_way(plan, change) for change in found], None, "nats of KL a token", THUMB
    else:
        made, loss, loss_is = _measured(checkpoint, data, options, found, plan, cut, jobs, progress)
        basis = f"measured on {data.name}"
    code = board.region_for(Holds.CODE)
    return Explanation(
        board=board.id,
        recipe=recipe_text(options),
        flash=asked.flash,
        memory=asked.memory,
        flash_over=asked.flash_over,
        ram_over=asked.ram_over,
        flash_kept=code.length - code.limit,
        ram_kept=board.reserve,
        ways=tuple(made[:_SHOWN]),
        loss=loss,
        loss_is=loss_is,
        basis=basis,
        flattered=data is not None and any(change.options.drop != options.drop for change in found),
        dense=_dense(graph, asked, board) if any(isinstance(op, Experts) for op in graph.ops) else None,
    )


def _planned(options: Options) -> str:
    """The recipe without calibration data, which are of no consequence for a size."""
    return recipe_text(replace(options, calibration=None))


def _way(plan: Plan, change: Change, lost: float | None = None, *, measured: bool = False) -> Way:
    sizes = plan(change.options)
    assert sizes is not None
    lost = lost if measured else change.lost
    return Way(
        change.text, recipe_text(change.options), sizes.flash, sizes.memory, lost, measured, change.note
    )  # fmt: skip


def _measured(
    checkpoint: Path,
    data: Path,
    options: Options,
    found: list[Change],
    plan: Plan,
    cut: Cut,
    jobs: int,
    progress: Progress,
) -> tuple[list[Way], float, str]:
    """The ways by what they lose on the data; the loss of the recipe itself, and its unit.

    Windows must fit the shortest context.
    """
    recipes = [options, *(change.options for change in found)]
    shortest = min((one.context for one in recipes if one.context is not None), default=None)
    recipes = [replace(one, context=one.context and shortest) for one in recipes]
    how = {"alone": True, "jobs": jobs, "progress": progress}
    rows = evaluate_checkpoint(checkpoint, data, recipes, cut, **how).rows  # type: ignore[arg-type]
    before, *after = (_loss(row) for row in rows)
    made = [
        _way(plan, change, lost[0] - before[0], measured=True) for change, lost in zip(found, after, strict=True)
    ]  # fmt: skip
    return sorted(made, key=lambda way: (bool(way.note), way.lost or 0.0, way.changes)), *before


def _loss(row: Row) -> tuple[float, str]:
    scores = row.scores
    if isinstance(scores, TokenScores):
        return scores.nats.mean, "nats a token"
    assert isinstance(scores, SampleScores)
    if scores.accuracy is not None:
        return 1 - scores.accuracy.mean, "share of wrong classes"
    assert scores.mae is not None  # what comes without is refused as data
    return scores.mae.mean, "mean error"


def _dense(graph: Graph, asked: Sizes, board: Board) -> Dense:
    """Of each layer's experts as many as run, and no router."""
    resting, routers = 0, 0
    macs = 0
    for op in graph.ops[graph.encoder :]:
        done = work(graph, op)
        macs += 0 if isinstance(op, Chooser) else done.macs + done.macs_per_position * done.reach
    whole = macs + sum(work(graph, op).macs for op in graph.ops[graph.encoder :] if isinstance(op, Chooser))
    for op in graph.ops:
        if isinstance(op, Experts):
            sizes = [sum(asked.sections[name] for name in slots.values()) for slots in op.experts()]
            resting += sum(sizes) * (len(sizes) - op.top_k) // len(sizes)
        elif isinstance(op, Chooser):
            routers += sum(asked.sections[name] for name in op.weights().values())
    saved = resting + routers
    return Dense(
        weights=asked.weights - saved,
        flash=asked.flash - saved,
        macs=macs,
        flash_fits=asked.flash_over <= saved,
        ram_fits=not asked.ram_over,
        experts_weights=asked.weights,
        experts_macs=whole,
    )
