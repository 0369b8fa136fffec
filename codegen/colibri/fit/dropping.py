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
    if not any(axis.kind is Kind.DROPPED and axis.values != ("0",) for axis in space.axes):
        return {layer: list(ids) for layer, ids in space.worst_first.items()}
    key = key_of(content, "dropping order")
    known = journal.get(key, _Order)
    if known is None:
        found = worst_first(checkpoint, data, Options(context=context), progress)
        known = _Order(
            {
                layer: [one for at, one in found if at == layer] + [one for one in ids if (layer, one) not in found]
                for layer, ids in space.worst_first.items()
            }
        )
        journal.put(key, "", known)
    return known.experts
