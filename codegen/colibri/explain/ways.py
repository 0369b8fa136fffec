"""Changes of a recipe, each as small as it can be and yet make it fit; and their combinations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from colibri.explain.thumb import CODED, coding_loss, dropping_loss, states_loss
from colibri.fit.sizes import Sizes
from colibri.graph.graph import BufferKind, Graph, StateType, TensorClass
from colibri.graph.ops import Experts
from colibri.graph.scheme import Scheme
from colibri.optimise import Optimise
from colibri.options import Options
from colibri.passes.prune import most_drops
from colibri.passes.rules import Rule, Selector, ordered

FOR_SIZE = "code for size (the same bits, more instructions)"
Plan = Callable[[Options], Sizes | None]
"""Sizes of a recipe; None for one that cannot be."""


@dataclass(frozen=True)
class Change:
    """What is changed of a recipe.

    Attributes:
        text: in words.
        options: with it.
        lost: by the rule of thumb; None where it knows nothing.
        note: what the user gives up besides.
    """

    text: tuple[str, ...]
    options: Options
    lost: float | None
    note: str = ""


def ways(graph: Graph, options: Options, plan: Plan, order: Sequence[tuple[int, int]], most: int) -> list[Change]:
    """Ways to make it fit, the cheapest by the rule of thumb first, and at most so many; shorter contexts come last.

    Args:
        graph: of these options, which do not fit.
        order: (layer, id) of experts, those that go first in front.
    """
    flash, ram = list(_flash_ways(graph, options, plan, order)), list(_ram_ways(graph, options, plan))
    both = {one.text + other.text: _joined(one, other) for one in flash for other in ram}
    ordered_ = sorted(both.values(), key=_price)
    found: list[Change] = []
    for way in ordered_:
        sizes = plan(way.options)
        if sizes is not None and sizes.fits:
            found.append(way)
            if len(found) == most:
                break
    return found


def _price(way: Change) -> tuple[bool, bool, float, int, tuple[str, ...]]:
    """Less than the user asked for comes last, whatever it loses; and then what nobody knows of."""
    return bool(way.note), way.lost is None, way.lost or 0.0, len(way.text), way.text


def _joined(flash: Change, ram: Change) -> Change:
    own = ram.options
    options = replace(flash.options, kv=own.kv, context=own.context, prefill=own.prefill, batch=own.batch)
    lost = None if flash.lost is None or ram.lost is None else flash.lost + ram.lost
    return Change((*flash.text, *ram.text), options, lost, ram.note)


def _flash_ways(graph: Graph, options: Options, plan: Plan, order: Sequence[tuple[int, int]]) -> Iterator[Change]:
    """What makes the weights small enough; nothing where they are."""
    if _flash_fits(plan, options):
        yield Change((), options, 0.0)
        return
    if options.optimise is not Optimise.SIZE:
        small = Change((FOR_SIZE,), replace(options, optimise=Optimise.SIZE), 0.0)
        if _flash_fits(plan, small.options):
            yield small
    experts = any(isinstance(op, Experts) for op in graph.ops)
    for whole in (False, True) if experts else (True,):
        before = Change((), options, 0.0)
        larger = [before]
        for coding in _coarser(options):
            change = _coded(options, coding, whole)
            if _flash_fits(plan, change.options):
                yield change
                break
            larger.append(change)
        if experts:  # of those that are not enough alone, the next ones, with fewer experts
            for near in larger[1:][-2:] if whole else [before, *larger[1:][-1:]]:
                yield from _dropped(graph, near, plan, order)


def _coarser(options: Options) -> tuple[str, ...]:
    """Codings below the recipe's own."""
    form = str(options.scheme.coding.format)
    return CODED[CODED.index(form) + 1 :] if form in CODED else CODED


def _coded(options: Options, coding: str, whole: bool) -> Change:
    bits = "16" if options.scheme.activations is BufferKind.Q16 else "8"
    scheme = Scheme.parse(f"{coding}a{bits}")
    lost = _beyond(coding_loss(whole, coding), coding_loss(whole, str(options.scheme.coding.format)))
    if whole:
        return Change((f"all weights in {scheme}",), replace(options, scheme=scheme, rules=()), lost)
    rules = [rule for rule in options.rules if rule.selector.tensor_class is not TensorClass.EXPERTS]
    more = ordered([*rules, Rule(Selector(TensorClass.EXPERTS), scheme)])
    return Change((f"experts in {scheme}",), replace(options, rules=more), lost)


def _beyond(lost: float | None, before: float | None) -> float | None:
    """What is lost above what the recipe loses already; fp32 loses nothing."""
    return None if lost is None else max(0.0, lost - (before or 0.0))


def _dropped(graph: Graph, change: Change, plan: Plan, order: Sequence[tuple[int, int]]) -> Iterator[Change]:
    """The fewest experts that must go."""
    may = [key for key in order if key[1] not in change.options.drop.get(key[0], ())]
    low, high = 0, len(may) + 1  # so many are too few, so many are enough
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _flash_fits(plan, _without(change.options, may[:middle])) else (middle, high)
    if high > len(may):
        return
    total = sum(len(op.kept) for op in graph.ops if isinstance(op, Experts))
    lost = dropping_loss(high / total)
    both = None if lost is None or change.lost is None else lost + change.lost
    text = f"{high} of {total} experts dropped"
    yield replace(change, text=(*change.text, text), options=_without(change.options, may[:high]), lost=both)


def _without(options: Options, keys: Sequence[tuple[int, int]]) -> Options:
    drop = {layer: set(ids) for layer, ids in options.drop.items()}
    for layer, number in keys:
        drop.setdefault(layer, set()).add(number)
    return replace(options, drop=drop)


def _flash_fits(plan: Plan, options: Options) -> bool:
    sizes = plan(options)
    return sizes is not None and not sizes.flash_over


def _ram_ways(graph: Graph, options: Options, plan: Plan) -> Iterator[Change]:
    """What makes the memory small enough; nothing where it is."""
    start = Change((), options, 0.0)
    if _ram_fits(plan, options):
        yield start
        return
    wide = max(options.prefill or 1, options.batch or 1)
    if wide > 1:
        narrow = replace(options, prefill=options.prefill and 1, batch=options.batch and 1)
        start = Change((f"1 at once, not {wide}",), narrow, 0.0)
        if _ram_fits(plan, narrow):
            yield start
            return
    if not graph.states:
        return
    for kv in sorted(StateType, key=lambda one: -one.bytes):
        if kv.bytes > options.kv.bytes:
            continue
        lost = _beyond(states_loss(kv), states_loss(options.kv))
        text = start.text if kv is options.kv else (*start.text, f"keys and values in {kv}")
        made = Change(text, replace(start.options, kv=kv), lost)
        if _ram_fits(plan, made.options):
            yield made
            return
        if longest := _longest(graph, made.options, plan):
            note = f"texts end after {longest} tokens, not {graph.context}"
            short = replace(made.options, context=longest)
            yield Change((*text, f"a context of {longest}"), short, lost, note)


def _ram_fits(plan: Plan, options: Options) -> bool:
    sizes = plan(options)
    return sizes is not None and not sizes.ram_over


def _longest(graph: Graph, options: Options, plan: Plan) -> int:
    """The longest context that has room; 0 for none."""
    low, high = 0, graph.context
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _ram_fits(plan, replace(options, context=middle)) else (low, middle)
    return low


def any_order(graph: Graph) -> list[tuple[int, int]]:
    """Experts that can go, a round over the layers after the other: where nobody knows which are needed least."""
    drops = {layer: sorted(ids, reverse=True) for layer, ids in most_drops(graph).items()}
    most = max(map(len, drops.values()), default=0)
    return [(layer, ids[turn]) for turn in range(most) for layer, ids in sorted(drops.items()) if turn < len(ids)]
