"""How often each expert ran, seen from the weights that were read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from colibri.profile.control_flow import chosen_experts
from colibri.profile.measure import Inference
from colibri.profile.model import ExpertUse
from colibri.profile.watch import Watch


def expert_use(inferences: Iterable[Inference], watch: Watch) -> tuple[ExpertUse, ...]:
    """Each expert of the image with the number of inferences in which it ran; 0 for one that never did."""
    ran: Counter[tuple[int, int]] = Counter()
    for one in inferences:
        ran.update(expert for expert, _ in chosen_experts(one, watch))
    experts = sorted({area.expert for area in watch.areas if area.expert is not None})
    return tuple(ExpertUse(layer, number, ran[layer, number]) for layer, number in experts)
