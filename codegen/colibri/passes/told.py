"""The schemes of a graph in few words: what stands in its weights, whatever was asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from colibri.graph.graph import Graph, TensorClass
from colibri.graph.scheme import Scheme
from colibri.passes.rules import Selector, places


def schemes_told(graph: Graph) -> dict[str, str]:
    """Selector to scheme, as rules would say it: one for each class, then what differs in a slot or a layer.

    A matrix that nothing is multiplied with, such as a table of embeddings, has a coding alone.
    """
    kinds = {product.weight: product.kind for op in graph.ops for product in op.products()}
    found: dict[TensorClass, dict[Selector, str]] = {}
    for op in graph.ops:
        for name, place in places(graph, op):
            coding = graph.matrix(name).coding
            text = str(Scheme(coding, kinds[name]) if name in kinds else coding)
            found.setdefault(place.tensor_class, {})[place] = text
    told: dict[str, str] = {}
    for one in (one for one in TensorClass if one in found):
        told |= _told(one, found[one])
    return told


def _told(one: TensorClass, schemes: Mapping[Selector, str]) -> dict[str, str]:
    """Of one class."""
    general = _usual(schemes.values())
    told = {str(one): general}
    usual: dict[str, str] = {}  # of a slot
    for slot in dict.fromkeys(place.slot for place in schemes):
        usual[slot] = _usual([text for place, text in schemes.items() if place.slot == slot], general)
        if usual[slot] != general:
            told[str(Selector(one, None, slot))] = usual[slot]
    for layer in dict.fromkeys(place.layer for place in schemes):
        own = {place.slot: text for place, text in schemes.items() if place.layer == layer}
        differing = {slot: text for slot, text in own.items() if text != usual[slot]}
        if len(differing) == len(own):
            usual_here = _usual(own.values())
            told[str(Selector(one, layer))] = usual_here
            differing = {slot: text for slot, text in own.items() if text != usual_here}
        told |= {str(Selector(one, layer, slot)): text for slot, text in differing.items()}
    return told


def _usual(texts: Iterable[str], rather: str = "") -> str:
    """The most frequent; of several this one, or else the first."""
    counts = Counter(texts)
    best = max(counts.values())
    return rather if counts[rather] == best else next(text for text, count in counts.items() if count == best)
