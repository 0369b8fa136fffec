"""Drop experts: their weights, and their rows of the router."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from colibri.errors import BadInput, UsageError
from colibri.graph.graph import Graph
from colibri.graph.ops import Experts, GroupedRouter, Router, SparseMixer
from colibri.graph.weights import Vector

Chooser = Router | GroupedRouter | SparseMixer


def drop_experts(graph: Graph, drops: Mapping[int, set[int]]) -> None:
    """Remove experts from the graph, in place.

    Args:
        graph: quantised or not.
        drops: layer to the expert ids that go; an id is the expert's number in the checkpoint.

    Raises:
        BadInput: no such layer or expert, or fewer experts would stay than the router chooses.
    """
    layers = _check(graph, drops)
    for layer, ids in drops.items():
        graph.pruned[layer] = graph.pruned.get(layer, set()) | ids
    for position, op in enumerate(graph.ops):
        ids = drops.get(op.layer, set()) if op.layer is not None else set()
        if not ids:
            continue
        if isinstance(op, Chooser):
            kept = _positions_kept(layers[op.layer], ids)
            graph.weights[op.weight] = graph.matrix(op.weight).load().chosen(kept)
            graph.ops[position] = (
                _regrouped(graph, op, kept) if isinstance(op, GroupedRouter) else replace(op, num_experts=kept.size)
            )
        elif isinstance(op, Experts):
            for expert in op.kept:
                if expert.id in ids:
                    for name in expert.slots().values():
                        del graph.weights[name]
                    graph.dropped.append(f"layer {op.layer} expert {expert.id}: asked to drop it")
            graph.ops[position] = replace(op, kept=tuple(e for e in op.kept if e.id not in ids))


def _regrouped(graph: Graph, op: GroupedRouter, kept: NDArray[np.intp]) -> GroupedRouter:
    """The router of the experts that stay, each in its group; ``kept`` counts from 0 over those before."""
    if op.correction:
        old = graph.weights[op.correction]
        assert isinstance(old, Vector)
        graph.weights[op.correction] = replace(old, values=old.values[kept])
    return replace(op, sizes=_sizes(op, kept))


def _positions_kept(experts: Experts, ids: set[int]) -> NDArray[np.intp]:
    return np.array([i for i, expert in enumerate(experts.kept) if expert.id not in ids], np.intp)


def _sizes(op: GroupedRouter, kept: NDArray[np.intp]) -> tuple[int, ...]:
    bounds = np.cumsum([0, *op.sizes])
    return tuple(int(((kept >= low) & (kept < high)).sum()) for low, high in pairwise(bounds))


def _check(graph: Graph, drops: Mapping[int, set[int]]) -> dict[int | None, Experts]:
    """The layers with experts, of which those to drop can be spared."""
    layers, routers = _layers(graph)
    for layer, ids in sorted(drops.items()):
        if layer not in layers:
            known = ", ".join(str(known) for known in layers)
            raise BadInput(
                f"no experts in layer {layer}", where="dropped experts", hint=f"layers with experts: {known}"
            )
        have = {expert.id for expert in layers[layer].kept}
        if unknown := sorted(ids - have):
            raise BadInput(
                f"layer {layer} has no expert {unknown[0]}", where="dropped experts", hint=f"it has {sorted(have)}"
            )
        if fault := _fault(layers[layer], routers[layer], ids):
            raise fault
    return layers


def _layers(graph: Graph) -> tuple[dict[int | None, Experts], dict[int | None, Chooser]]:
    layers = {op.layer: op for op in graph.ops if isinstance(op, Experts)}
    routers = {op.layer: op for op in graph.ops if isinstance(op, Chooser)}
    assert routers.keys() == layers.keys(), "a router that this pass does not know"
    return layers, routers


def _fault(op: Experts, router: Chooser, ids: set[int]) -> BadInput | None:
    """Why a layer cannot do without these experts."""
    left = sum(expert.id not in ids for expert in op.kept)
    if left < op.top_k:
        kept = "1 expert" if left == 1 else f"{left} experts"
        what = f"layer {op.layer} would keep {kept}, but its router chooses {op.top_k}"
        return BadInput(what, where="dropped experts", hint="keep more")
    if not isinstance(router, GroupedRouter):
        return None
    least = sum(sorted(_sizes(router, _positions_kept(op, ids)))[: router.groups_kept])
    if least >= op.top_k:
        return None
    return BadInput(
        f"layer {op.layer} would keep too few experts ({least}) in some {router.groups_kept} of its groups, but its "
        f"router chooses {op.top_k} there",
        where="dropped experts",
        hint="keep more, or drop evenly over the groups",
    )


def most_drops(graph: Graph) -> dict[int, set[int]]:
    """Layer to as many experts as can go together, the later ones first."""
    layers, routers = _layers(graph)
    drops: dict[int, set[int]] = {}
    for layer, op in layers.items():
        for expert in reversed(op.kept):
            gone = drops.get(layer, set()) if layer is not None else set()
            if layer is not None and _fault(op, routers[layer], gone | {expert.id}) is None:
                drops[layer] = gone | {expert.id}
    return drops


def spare_experts(graph: Graph) -> dict[int, list[int]]:
    """Layer to the ids of the experts of which any one could still go; layers that can spare none are not there."""
    layers, routers = _layers(graph)
    spare: dict[int, list[int]] = {}
    for layer, op in layers.items():
        ids = [expert.id for expert in op.kept if _fault(op, routers[layer], {expert.id}) is None]
        if ids and layer is not None:
            spare[layer] = ids
    return spare


def without(graph: Graph, drops: Mapping[int, set[int]]) -> Graph:
    """A copy of the graph without some experts; it shares weights and what was made of them. BadInput: impossible."""
    made = replace(
        graph,
        ops=list(graph.ops),
        weights=dict(graph.weights),
        pruned={layer: set(ids) for layer, ids in graph.pruned.items()},
        dropped=list(graph.dropped),
        warnings=list(graph.warnings),
    )
    drop_experts(made, drops)
    return made


def asked_to_drop(graph: Graph, drops: Mapping[int, set[int]], where: str) -> Mapping[int, set[int]]:
    """The drops that a user asked for, unchanged.

    Args:
        where: the option or recipe that names them.

    Raises:
        UsageError: as `drop_experts`; then it is not the checkpoint that is wrong.
    """
    try:
        _check(graph, drops)
    except BadInput as error:
        raise UsageError(error.what, where=where, hint=error.hint) from None
    return drops


def keep_only(graph: Graph, keep: Mapping[int, set[int]]) -> dict[int, set[int]]:
    """The drops that leave ``keep`` (layers not named keep everything).

    Raises:
        BadInput: a layer or expert to keep does not exist.
    """
    drops: dict[int, set[int]] = {}
    layers = {op.layer: {e.id for e in op.kept} for op in graph.ops if isinstance(op, Experts)}
    for layer, ids in keep.items():
        if layer not in layers:
            raise BadInput(
                f"no experts in layer {layer}", where="kept experts", hint=f"layers: {sorted(map(str, layers))}"
            )
        if unknown := sorted(ids - layers[layer]):
            raise BadInput(
                f"layer {layer} has no expert {unknown[0]}",
                where="kept experts",
                hint=f"it has {sorted(layers[layer])}",
            )
        drops[layer] = layers[layer] - ids
    return drops
