"""The rule of thumb where there is no data: how far changes move the example from itself in fp32.

No other model loses the same. The order of the ways is what it is good for.
"""

from __future__ import annotations

from colibri.explain.measured import CODINGS, DROPPED, STATES
from colibri.graph.graph import StateType

CODED = tuple(coding for where, coding in CODINGS if where == "all")  # the widest first


def coding_loss(whole: bool, coding: str) -> float | None:
    """Nats of a coding of all weights, or of those of the experts alone; None if not measured."""
    return CODINGS.get(("all" if whole else "experts", coding))


def dropping_loss(share: float) -> float | None:
    """Nats that so large a share of the experts costs when the least needed go; straight between measurements.

    None beyond the last one.
    """
    before = (0.0, 0.0)
    for point in DROPPED:
        if share <= point[0]:
            part = (share - before[0]) / (point[0] - before[0])
            return before[1] + part * (point[1] - before[1])
        before = point
    return None


def states_loss(kv: StateType) -> float | None:
    """Nats of key and value states."""
    return STATES.get(str(kv))
