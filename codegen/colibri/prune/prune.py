"""`colibri prune`: statistics on data, what goes by them, and what that costs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from colibri.checkpoint.checkpoint import Checkpoint
from colibri.errors import DoesNotFit, UsageError, shown
from colibri.evaluate.data import SampleData, TokenData, read_rows
from colibri.evaluate.evaluate import Cut, evaluate_checkpoint
from colibri.evaluate.native import find_host
from colibri.generate import build_graph
from colibri.graph.graph import Graph, ModelKind
from colibri.graph.ops import Experts
from colibri.graph.work import work
from colibri.model_facts import model_facts
from colibri.options import Options
from colibri.passes.fold import fold_text
from colibri.passes.merge import lasting
from colibri.passes.prune import most_drops, spare_experts
from colibri.progress import Progress, unseen
from colibri.prune.choose import Aim, Chosen, Sizes, Until, share
from colibri.prune.model import ExpertFacts, Pruning
from colibri.prune.proof import prove
from colibri.prune.sizing import Sizing
from colibri.prune.statistics import Found, Key, Use, uses
from colibri.prune.trial import Ran
from colibri.prune.whole import ARITHMETIC, run_whole
from colibri.recipe import recipe_text
from colibri.recipe_file import recipe_bytes


@dataclass(frozen=True)
class Pruned:
    """What was found, and the recipe that does it, with the calibration data that it is for; empty for none."""

    found: Pruning
    recipe: bytes
    calibration: bytes = b""


def prune_checkpoint(
    path: Path,
    data: Path,
    aim: Aim,
    options: Options,
    cut: Cut,
    *,
    test: Path | None = None,
    evaluated: bool = True,
    jobs: int = 0,
    progress: Progress = unseen,
) -> Pruned:
    """Choose experts that go, and say what it costs.

    Args:
        options: the scheme that is asked for, and what has gone before.
        cut: of the data; its limit is not that of ``test``.
        test: what the model is evaluated on, before and after; None for the data it was chosen on.
        evaluated: whether it is evaluated at all, by programs of this machine.
        progress: is told how far it is; ``tokens`` and ``samples`` are no bytes.

    Raises:
        BadInput: checkpoint or data.
        UsageError: an aim or options that cannot be meant.
        DoesNotFit: no choice of experts leaves so few bytes.
        ToolMissing: nothing to evaluate with.
    """
    if evaluated and aim.until is not Until.NOTHING:
        find_host()  # what is missing is said before the work
    checkpoint = Checkpoint.open(path)
    wanted = build_graph(Checkpoint.open(path), options)
    _refuse_without_experts(wanted, path)
    # What was found in the weights of all experts holds without some of them.
    options = replace(options, folds=fold_text(wanted.folds))
    sizing = Sizing(checkpoint, wanted, options)
    _refuse_impossible(aim, wanted, sizing)
    read = read_data(data, wanted, cut)
    of = cut if test is None else replace(cut, limit=None)
    if test is not None:
        read_data(test, wanted, of)  # what is wrong with it is said before the work
    sizes = Sizes(sizing.without, sizing.experts())
    whole = run_whole(path, options, read, sizes, progress)
    chosen = whole.choose(aim)
    _refuse_unmet(aim, chosen, sizing)

    ran, rows, unit = whole.ran, whole.rows, whole.unit
    used = uses(whole.graph, ran)
    final = _after(options, chosen)
    after = build_graph(Checkpoint.open(path), final)
    pruning = Pruning(
        unit=unit,
        rows=rows,
        loss=ran.loss,
        loss_is=_loss_in_words(wanted, read),
        search=str(ARITHMETIC),
        recipe=recipe_text(options),
        experts=tuple(_facts(key, used, whole.found, sizes, chosen) for key in sorted(used)),
        steps=tuple(chosen.steps),
        kept=_kept(after),
        mass_removed=_mass(used, chosen),
        routing=_agreement(ran, chosen.ran) if chosen.steps else None,
        weight_bytes=(sizing.bytes(wanted, options), sizing.bytes(after, final)),
        macs=(_macs(wanted), _macs(after)),
        measured=chosen.measured,
        least=sizing.least,
    )
    if dead := _dead(pruning):
        proof = prove(
            wanted,
            build_graph(Checkpoint.open(path), _dropped(options, dead)),
            dead,
            whole.batches,
            progress(unit, 2 * rows),
        )
        pruning = msgspec.structs.replace(pruning, proof=proof)
    if evaluated and chosen.steps:
        how = {"jobs": jobs, "progress": progress}
        evaluation = evaluate_checkpoint(path, test or data, [options, final], of, **how)  # type: ignore[arg-type]
        pruning = msgspec.structs.replace(pruning, evaluation=evaluation)
    return Pruned(pruning, recipe_bytes(after, final, checkpoint.fingerprint()), after.calibration)


def read_data(path: Path, graph: Graph, cut: Cut) -> TokenData | SampleData:
    """What a graph is to run.

    Raises:
        BadInput: unreadable, or not for this model.
        UsageError: a cut that cannot be meant.
    """
    return read_rows(path, model_facts(graph), graph.context, cut.window, cut.stride, cut.limit)


def _refuse_without_experts(graph: Graph, path: Path) -> None:
    if not any(isinstance(op, Experts) for op in graph.ops):
        raise UsageError("has no experts to choose among: each layer has one MLP", where=shown(str(path), 300))


def _refuse_impossible(aim: Aim, graph: Graph, sizing: Sizing) -> None:
    """What can be told before anything runs."""
    most = sum(map(len, most_drops(graph).values()))
    if aim.until is Until.DROP and aim.amount > most:
        what = f"at most {most} experts can go: routers choose as many as stay"
        raise UsageError(what, where=f"--drop {aim.amount:.0f}")
    if aim.until is Until.BYTES and aim.amount < sizing.least:
        what = f"the least is {sizing.least:,} bytes, with {most} experts gone and as many left as the routers choose"
        raise DoesNotFit(what, where=f"--bytes {aim.amount:.0f}", hint="choose a smaller --recipe, such as w4a8")
    least = max(op.top_k for op in graph.ops if isinstance(op, Experts))
    if aim.until is Until.KEEP and aim.amount < least:
        raise UsageError(f"routers choose {least} experts", where=f"--keep {aim.amount:.0f}", hint="keep more")
    if aim.until is not Until.NOTHING and not spare_experts(graph):
        raise UsageError("no expert can go: routers choose all that there are", where="prune")


def _refuse_unmet(aim: Aim, chosen: Chosen, sizing: Sizing) -> None:
    """Groups of experts may leave no way where counts alone did."""
    if aim.until is Until.DROP and len(chosen.steps) < aim.amount:
        what = f"after {len(chosen.steps)} experts no other can go: routers choose as many as stay in their groups"
        raise UsageError(what, where=f"--drop {aim.amount:.0f}")
    if aim.until is Until.BYTES and (size := sizing.without(chosen.gone)) > aim.amount:
        what = f"after {len(chosen.steps)} experts no other can go; that leaves {size:,} bytes"
        raise DoesNotFit(what, where=f"--bytes {aim.amount:.0f}", hint="choose a smaller --recipe, such as w4a8")


def _dropped(options: Options, drops: dict[int, set[int]]) -> Options:
    union = {layer: set(ids) for layer, ids in options.drop.items()}
    for layer, ids in drops.items():
        union[layer] = union.get(layer, set()) | ids
    return replace(options, drop=union)


def _after(options: Options, chosen: Chosen) -> Options:
    after = _dropped(options, chosen.gone)
    return replace(after, merges=lasting((*options.merges, *chosen.merges), after.drop))


def _facts(key: Key, used: dict[Key, Use], found: Found, sizes: Sizes, chosen: Chosen) -> ExpertFacts:
    use = used[key]
    return ExpertFacts(
        *key,
        hits=use.hits,
        hit_share=use.share,
        mass=use.mass,
        mass_share=share(used, key),
        norm=found.norm.get(key),
        error=found.error.get(key),
        lost=chosen.first.get(key),
        bytes=sizes.expert[key],
    )


def _mass(used: dict[Key, Use], chosen: Chosen) -> float:
    gone = {(step.layer, step.id) for step in chosen.steps}
    return sum(used[key].mass for key in gone) / sum(use.mass for use in used.values())


def _agreement(before: Ran, after: Ran) -> float:
    """Share of the places where the same experts are chosen; both are in ascending order."""
    pairs = [(before.routes[layer][0], after.routes[layer][0]) for layer in before.routes]
    same = sum(int((one == other).all(axis=1).sum()) for one, other in pairs)
    return same / sum(len(one) for one, _ in pairs)


def _dead(found: Pruning) -> dict[int, set[int]]:
    """Of what goes, what is as good as dead."""
    never = {(one.layer, one.id) for one in found.dead}
    dead: dict[int, set[int]] = {}
    for step in found.steps:
        if (step.layer, step.id) in never:
            dead.setdefault(step.layer, set()).add(step.id)
    return dead


def _kept(graph: Graph) -> dict[int, list[int]]:
    layers = {op.layer: op.kept for op in graph.ops if isinstance(op, Experts)}
    return {layer: [expert.id for expert in kept] for layer, kept in layers.items() if layer is not None}


def _macs(graph: Graph) -> int:
    done = [work(graph, op) for op in graph.ops[graph.encoder :]]
    return sum(one.macs + one.macs_per_position * one.reach for one in done)


def _loss_in_words(graph: Graph, data: TokenData | SampleData) -> str:
    if graph.kind is ModelKind.TOKENS:
        return "nats a token"
    assert isinstance(data, SampleData)
    if data.classes is not None:
        return "nats a sample"
    return "mean error" if data.values is not None else "mean difference from the whole model"
