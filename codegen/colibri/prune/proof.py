"""That outputs keep their bits without the experts that they never used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from colibri.graph.float32 import Float
from colibri.graph.graph import Graph, Op
from colibri.graph.interpret import Run
from colibri.graph.ops import Experts
from colibri.progress import Advance
from colibri.prune.model import Proof
from colibri.prune.trial import Batch, outputs_of


def prove(
    whole: Graph, pruned: Graph, dead: Mapping[int, set[int]], batches: Sequence[Batch], advance: Advance
) -> Proof:
    """Run both, and compare the outputs of every row that no dead expert has a part in.

    Args:
        dead: layer to ids, that ``pruned`` has not.
        advance: is told of rows.
    """
    encoding = {id(op) for op in whole.ops[: whole.encoder]}
    rows, equal, others = 0, 0, 0
    for batch in batches:
        count = batch.counted.size
        touched = np.zeros(count, np.bool_)

        def seen(op: Op, run: Run, touched: NDArray[np.bool_] = touched) -> None:
            if isinstance(op, Experts) and op.layer is not None and op.layer in dead:
                places = [index for index, expert in enumerate(op.kept) if expert.id in dead[op.layer]]
                hit = np.isin(run.routes[op.route].index, places).any(axis=1)
                touched |= hit.any() if id(op) in encoding else hit  # all rows see what an encoder did

        before = outputs_of(whole, batch, 0, seen)
        advance(count)
        after = outputs_of(pruned, batch, 0, lambda op, run: None)
        advance(count)
        if batch.inputs.dtype.kind != "f":  # a token sees those before it
            touched = np.maximum.accumulate(touched.reshape(batch.inputs.shape), axis=1).reshape(-1)
        rows += int((~touched).sum())
        others += int(touched.sum())
        equal += int(_same_bits(before, after)[~touched].sum())
    experts = tuple((layer, number) for layer in sorted(dead) for number in sorted(dead[layer]))
    return Proof(experts, rows, equal, others)


def _same_bits(one: Float, other: Float) -> NDArray[np.bool_]:
    same: NDArray[np.bool_] = (one.view(np.uint32) == other.view(np.uint32)).all(axis=1)
    return same
