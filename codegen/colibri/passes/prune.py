"""Drop experts: their weights, and their rows of the router."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from colibri.errors import BadInput, UsageError
from colibri.graph.graph import Graph
from colibri.graph.ops import Experts, GroupedRouter, Router, SparseMixer
from colibri.graph.weights import Vector

_Chooser = Router | GroupedRouter | SparseMixer


def drop_experts(graph: Graph, drops: Mapping[int, set[int]]) -> None:
    """Remove experts from the graph, in place.

    Args:
        graph: with fp32 weights, not yet quantised.
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
        if isinstance(op, _Chooser):
            kept = _positions_kept(layers[op.layer], ids)
            old = graph.matrix(op.weight).load()
            assert old.dense is not None
            bias = None if old.bias is None else old.bias[kept]
            graph.weights[op.weight] = replace(old, shape=(kept.size, op.k), dense=old.dense[kept], bias=bias)
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
    layers = {op.layer: op for op in graph.ops if isinstance(op, Experts)}
    routers = {op.layer: op for op in graph.ops if isinstance(op, _Chooser)}
    assert routers.keys() == layers.keys(), "a router that this pass does not know"
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
        if len(have - ids) < layers[layer].top_k:
            raise BadInput(
                f"layer {layer} would keep {len(have - ids)} experts, but its router chooses {layers[layer].top_k}",
                where="dropped experts",
                hint="keep more",
            )
        router = routers[layer]
        if isinstance(router, GroupedRouter):
            _check_groups(router, _sizes(router, _positions_kept(layers[layer], ids)))
    return layers


def _check_groups(op: GroupedRouter, sizes: Sequence[int]) -> None:
    least = sum(sorted(sizes)[: op.groups_kept])
    if least < op.top_k:
        raise BadInput(
            f"layer {op.layer} would keep {least} experts in some {op.groups_kept} of its groups, but its router "
            f"chooses {op.top_k} there",
            where="dropped experts",
            hint="keep more, or drop evenly over the groups",
        )


def asked_to_drop(graph: Graph, drops: Mapping[int, set[int]]) -> Mapping[int, set[int]]:
    """The drops that a user typed, unchanged.

    Raises:
        UsageError: as `drop_experts`; then it is not a file that is wrong but the command line.
    """
    try:
        _check(graph, drops)
    except BadInput as error:
        raise UsageError(error.what, where="--drop-expert", hint=error.hint) from None
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
