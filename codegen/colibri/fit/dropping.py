"""Which experts of each layer go first, measured once: the journal keeps the answer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from colibri.evaluate.data import SampleData, TokenData
from colibri.fit.journal import Journal, key_of
from colibri.fit.space import Kind, Space
from colibri.options import Options
from colibri.progress import Progress
from colibri.prune.order import worst_first


class _Order(msgspec.Struct, frozen=True):
    """Layer to the ids of its experts."""

    experts: dict[int, list[int]]


def dropping_order(
    space: Space,
    checkpoint: Path,
    data: TokenData | SampleData,
    context: int | None,
    journal: Journal,
    content: str,
    progress: Progress,
) -> Mapping[int, list[int]]:
    """Layer to all of its experts, those that go first in front; those that cannot go come last, by number.

    Args:
        data: of the first look.
        context: positions of a token model.
        content: hash of what the answer depends on besides.

    Raises:
        ColibriError: as `worst_first`.
    """
    most = {
        layer: max(map(int, axis.values)) for axis in space.axes if axis.kind is Kind.DROPPED for layer in axis.layers
    }
    if not any(most.values()):
        return {layer: list(ids) for layer, ids in space.worst_first.items()}
    keep = min(len(space.worst_first[layer]) - count for layer, count in most.items())
    key = key_of(content, "dropping order", keep)
    known = journal.get(key, _Order)
    if known is None:
        found = worst_first(checkpoint, data, Options(context=context), progress, keep=keep)
        known = _Order(
            {
                layer: [one for at, one in found if at == layer] + [one for one in ids if (layer, one) not in found]
                for layer, ids in space.worst_first.items()
            }
        )
        journal.put(key, "", known)
    return known.experts
