"""Choose what goes: one expert after the other, by what it costs now, measured anew after each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from colibri.graph.graph import Graph
from colibri.graph.ops import Experts
from colibri.passes.merge import Merge, match
from colibri.passes.prune import spare_experts, without
from colibri.prune.model import DEAD, Step
from colibri.prune.statistics import Found, Key, Statistics, Use, uses
from colibri.prune.trial import Ran, Trials


class Until(StrEnum):
    """When to stop."""

    NOTHING = "nothing"  # at once: statistics alone
    DEAD = "dead"  # all are gone that nothing chose, or one row in 10,000
    DROP = "drop"  # so many are gone
    KEEP = "keep"  # each layer has so many, or as few as it can
    BYTES = "bytes"  # model.bin has at most so many bytes
    MASS = "mass"  # each has a larger share of its layer's weights
    ERROR = "error"  # without each the layer's output would change by more
    LOSS = "loss"  # the next would bring the loss above so much


class Order(StrEnum):
    """What goes first: that with the least of this."""

    LOSS = "loss"  # change of the model's loss, for each byte that it saves
    ERROR = "error"  # change of its layer's output
    MASS = "mass"  # share of its layer's weights


@dataclass(frozen=True)
class Aim:
    """What the user wants.

    Attributes:
        amount: experts, bytes, a share from 0 to 1, or loss.
        merging: merge what would go with the most similar expert that stays, where that costs less.
    """

    until: Until = Until.NOTHING
    amount: float = 0
    order: Order = Order.LOSS
    merging: bool = False


@dataclass(frozen=True)
class Sizes:
    """Bytes in the scheme that was asked for.

    Attributes:
        of: experts that are gone to bytes of model.bin.
        expert: what goes with an expert.
    """

    of: Callable[[dict[int, set[int]]], int]
    expert: dict[Key, int]


@dataclass
class Chosen:
    """What goes, and what it came to.

    Attributes:
        graph: without it.
        ran: of that graph.
        first: loss of each expert alone above that of the whole model, where it was measured.
        measured: trials.
    """

    graph: Graph
    ran: Ran
    steps: list[Step] = field(default_factory=list)
    merges: list[Merge] = field(default_factory=list)
    first: dict[Key, float] = field(default_factory=dict)
    measured: int = 0

    @property
    def gone(self) -> dict[int, set[int]]:
        """Layer to ids."""
        gone: dict[int, set[int]] = {}
        for step in self.steps:
            gone.setdefault(step.layer, set()).add(step.id)
        return gone


class Search:
    """A greedy search.

    Args:
        trials: with the whole model as its base.
        ran: of that.
        found: of that.
        sizes: to be kept to.
        merged: makes the graph of some experts gone after some merges, from the checkpoint.
        wide: the graph in fp32, whose experts are compared.
    """

    def __init__(
        self,
        trials: Trials,
        ran: Ran,
        found: Found,
        sizes: Sizes,
        merged: Callable[[Sequence[Merge]], Graph],
        wide: Graph,
    ) -> None:
        self._trials, self._found, self._sizes = trials, found, sizes
        self._merged, self._wide = merged, wide
        self._whole = ran.loss
        self._state = Chosen(trials.graph, ran)
        self._lost: dict[Key, float] = {}  # above the loss at the time of the trial
        self._fresh: set[Key] = set()

    def choose(self, aim: Aim, begins: Callable[[int], None] = lambda trials: None) -> Chosen:
        """Let experts go until the aim is reached, or none can go any more.

        Args:
            begins: is told how many trials come first.
        """
        state = self._state
        if aim.until is Until.NOTHING:
            return state
        refused: set[Key] = set()
        self._drop_dead(aim)
        if aim.order is Order.LOSS and aim.until is not Until.DEAD and not self._reached(aim):
            open_ = self._open(aim, refused)
            begins(len(open_))
            for key in open_:
                self._measure(key)
            state.first = dict(self._lost)
        begins(0)
        while not self._reached(aim) and (open_ := self._open(aim, refused)):
            key = self._next(aim, open_)
            graph, merge = self._best_way(aim, key)
            if aim.until is Until.LOSS and self._loss_of(graph, key[0]) - self._whole > aim.amount:
                refused.add(key)
                continue
            self._accept(aim, key, graph, merge)
        return state

    def _drop_dead(self, aim: Aim) -> None:
        """What was never chosen costs nothing, and what hardly was next to nothing."""
        while not self._reached(aim):
            used = uses(self._state.graph, self._state.ran)
            dead = [key for key in self._open(aim, ()) if used[key].share <= DEAD]
            if not dead:
                return
            key = dead[0]
            self._accept(aim, key, without(self._state.graph, {key[0]: {key[1]}}), None)

    def _reached(self, aim: Aim) -> bool:
        if aim.until is Until.DROP:
            return len(self._state.steps) >= aim.amount
        return aim.until is Until.BYTES and self._sizes.of(self._state.gone) <= aim.amount

    def _open(self, aim: Aim, refused: Collection[Key]) -> list[Key]:
        """What may go next."""
        graph = self._state.graph
        spare = [(layer, number) for layer, ids in sorted(spare_experts(graph).items()) for number in ids]
        used = uses(graph, self._state.ran)
        counts = {op.layer: len(op.kept) for op in graph.ops if isinstance(op, Experts)}

        def may(key: Key) -> bool:
            if key in refused or (aim.until is Until.KEEP and counts[key[0]] <= aim.amount):
                return False
            if aim.until is Until.DEAD or used[key].share <= DEAD:
                return used[key].share <= DEAD
            if aim.until is Until.MASS:
                return share(used, key) <= aim.amount
            return aim.until is not Until.ERROR or self._found.error[key] <= aim.amount

        return [key for key in spare if may(key)]

    def _next(self, aim: Aim, open_: Sequence[Key]) -> Key:
        if aim.order is Order.MASS:
            used = uses(self._state.graph, self._state.ran)
            return min(open_, key=lambda key: (share(used, key), key))
        if aim.order is Order.ERROR:
            return min(open_, key=lambda key: (self._found.error[key], key))
        while True:  # what was measured before the last step is measured anew when it is the best
            best = min(open_, key=lambda key: (self._lost[key] / self._sizes.expert[key], key))
            if best in self._fresh:
                return best
            self._measure(best)

    def _measure(self, key: Key) -> None:
        graph = without(self._state.graph, {key[0]: {key[1]}})
        self._lost[key] = self._loss_of(graph, key[0]) - self._state.ran.loss
        self._fresh.add(key)

    def _loss_of(self, graph: Graph, layer: int) -> float:
        self._state.measured += 1
        return self._trials.without(graph, layer).loss

    def _best_way(self, aim: Aim, key: Key) -> tuple[Graph, Merge | None]:
        """The graph without it: dropped, or merged with the expert that is most like it."""
        layer, number = key
        dropped = without(self._state.graph, {layer: {number}})
        used = uses(self._state.graph, self._state.ran)
        if not aim.merging or not used[key].hits:
            return dropped, None
        merge = self._partner(key, used)
        merged = self._with(dropped, merge)
        ways = [(self._loss_of(dropped, layer), 0, dropped, None), (self._loss_of(merged, layer), 1, merged, merge)]
        _, _, graph, chosen = min(ways, key=lambda way: way[:2])
        return graph, chosen

    def _partner(self, key: Key, used: dict[Key, Use]) -> Merge:
        layer, number = key
        experts = {
            expert.id: expert
            for op in self._wide.ops
            if isinstance(op, Experts) and op.layer == layer
            for expert in op.kept
        }
        others = [other for at, other in used if at == layer and other != number]
        into = max(others, key=lambda one: (match(self._wide, experts[one], experts[number]).similarity, -one))
        mine, its = used[key].mass, used[layer, into].mass
        return Merge(layer, into, number, round(mine / (mine + its), 3))

    def _with(self, graph: Graph, merge: Merge) -> Graph:
        """The graph with the matrices of the expert that takes another in, as the recipe makes them."""
        made = self._merged([*self._state.merges, merge])
        experts = next(op for op in graph.ops if isinstance(op, Experts) and op.layer == merge.layer)
        taking = next(expert for expert in experts.kept if expert.id == merge.into)
        weights = {name: made.weights[name] for name in taking.slots().values()}
        return replace(graph, weights={**graph.weights, **weights})

    def _accept(self, aim: Aim, key: Key, graph: Graph, merge: Merge | None) -> None:
        state = self._state
        if aim.until is Until.ERROR or aim.order is Order.ERROR:
            statistics = Statistics(graph, len(self._trials.batches), key[0])
            ran = self._trials.base(graph, key[0], statistics.watch)
            self._found = self._found.since(key[0], statistics.found())
        else:
            ran = self._trials.base(graph, key[0])
        state.ran = replace(ran, routes={**state.ran.routes, **ran.routes})
        state.graph = graph
        self._fresh.clear()
        if merge is not None:
            state.merges.append(merge)
        gone = state.gone
        gone.setdefault(key[0], set()).add(key[1])
        into, part = (None, 0.0) if merge is None else (merge.into, merge.share)
        state.steps.append(Step(*key, into, part, ran.loss - self._whole, self._sizes.of(gone)))


def share(used: dict[Key, Use], key: Key) -> float:
    """Of its layer's weights, from 0 to 1."""
    whole = sum(use.mass for (layer, _), use in used.items() if layer == key[0])
    return used[key].mass / whole if whole else 0.0
