"""Frequencies of the rotary position embedding, for each scaling rule that a config may ask for.

Source: transformers, `modeling_rope_utils.py`; the papers are named at each rule. All is computed for the one context
that the firmware is made for: a rule that changes with the length of the sequence is taken at that length only where
it would not change on the way there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colibri.checkpoint.config import Config, Rope
from colibri.errors import UsageError

Frequencies = NDArray[np.float64]


@dataclass(frozen=True)
class Rotary:
    """How positions turn the pairs of a head.

    Attributes:
        frequencies: radians a position ``[width / 2]``.
        factor: that cosines and sines are multiplied by.
    """

    frequencies: Frequencies
    factor: float = 1.0


@dataclass(frozen=True)
class _Asked:
    """What a rule sees: the config's table, the width that is turned, how many positions are asked for, ``mscales``."""

    config: Config
    rope: Rope
    width: int
    context: int
    longest: int
    mscales: bool

    @property
    def settings(self) -> Config:
        return self.rope.settings

    @property
    def plain(self) -> Frequencies:
        """``theta^(-2i / width)``, rounded to fp32 as the original model has it."""
        exponents = np.arange(0, self.width, 2) / self.width
        return (np.float32(1.0) / np.float32(self.rope.theta) ** exponents).astype(np.float32).astype(np.float64)

    @property
    def original(self) -> int:
        """Positions that the model was trained with before it was stretched."""
        name = "original_max_position_embeddings"  # outside the table it counts before what the table says
        own = self.config.optional_integer(name, minimum=1) or self.settings.optional_integer(name, minimum=1)
        return own or self.longest

    def stretch(self) -> float:
        return self.settings.number("factor", minimum=1e-3)


def rotary(config: Config, rope: Rope, width: int, context: int, longest: int, *, mscales: bool = False) -> Rotary:
    """Frequencies for the first ``width`` values of a head, an even number.

    Args:
        context: positions of the firmware.
        longest: ``max_position_embeddings``.
        mscales: whether the family's longrope has ``short_mscale`` and ``long_mscale`` as its factors, and no other
            scaling rule.

    Raises:
        BadInput: an unknown rule, or one whose parameters are missing or wrong.
        UsageError: the context is one at which the original changes its frequencies on the way.
    """
    if rope.theta < 1.0:
        raise config.error("rope_theta", f"is {rope.theta}; frequencies need a base of at least 1")
    rule = _RULES.get(rope.kind)
    if rule is None or (mscales and rope.kind not in _WITH_MSCALES):
        known = ", ".join(_WITH_MSCALES if mscales else _RULES)
        raise rope.settings.error("rope_type", f"{rope.kind!r} is not supported", f"one of {known}")
    return rule(_Asked(config, rope, width, context, longest, mscales))


def _default(asked: _Asked) -> Rotary:
    return Rotary(asked.plain)


def _linear(asked: _Asked) -> Rotary:
    """Positions divided by the factor (arXiv 2306.15595)."""
    return Rotary(asked.plain / asked.stretch())


def _dynamic(asked: _Asked) -> Rotary:
    """The base grows once the sequence is longer than the model was trained for; up to there it is the default."""
    asked.stretch()
    if asked.context > asked.original:
        what = f"{asked.context} positions: with dynamic rope the frequencies change behind {asked.original}"
        raise UsageError(what, where="--context", hint=f"ask for at most {asked.original}")
    return Rotary(asked.plain)


def _llama3(asked: _Asked) -> Rotary:
    """Long waves are stretched, short ones stay, those between are mixed (Llama 3.1)."""
    settings, factor = asked.settings, asked.stretch()
    low, high = settings.number("low_freq_factor", minimum=1e-3), settings.number("high_freq_factor", minimum=1e-3)
    if high <= low:
        raise settings.error("high_freq_factor", f"is {high}, not above low_freq_factor {low}")
    waves = 2 * math.pi / asked.plain
    kept = np.clip((asked.original / waves - low) / (high - low), 0.0, 1.0)
    return Rotary((1 - kept) * asked.plain / factor + kept * asked.plain)


def _yarn(asked: _Asked) -> Rotary:
    """NTK by parts, and a temperature on the attention (arXiv 2309.00071)."""
    settings, factor = asked.settings, asked.stretch()
    if asked.rope.theta == 1.0:
        raise settings.error("rope_theta", "is 1, with which yarn cannot tell long waves from short ones")
    fast = settings.number("beta_fast", minimum=1e-3, default=32.0)
    slow = settings.number("beta_slow", minimum=1e-3, default=1.0)

    def dimension(turns: float) -> float:
        """Index of the pair that makes so many turns over the original context."""
        return asked.width * math.log(asked.original / (turns * 2 * math.pi)) / (2 * math.log(asked.rope.theta))

    low, high = dimension(fast), dimension(slow)
    if settings.boolean("truncate", default=True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, asked.width - 1)
    ramp = np.clip((np.arange(asked.width // 2) - low) / (high - low if high != low else 0.001), 0.0, 1.0)
    frequencies = asked.plain / factor * ramp + asked.plain * (1 - ramp)
    return Rotary(frequencies, _yarn_factor(settings, factor))


def _yarn_factor(settings: Config, factor: float) -> float:
    own = settings.optional_number("attention_factor", minimum=0.0)
    if own is not None:
        return own
    scale = settings.optional_number("mscale", minimum=0.0)
    for_all = settings.optional_number("mscale_all_dim", minimum=0.0)
    if scale and for_all:
        return yarn_temperature(factor, scale) / yarn_temperature(factor, for_all)
    return yarn_temperature(factor, 1.0)


def yarn_temperature(factor: float, scale: float) -> float:
    """``0.1 scale ln(factor) + 1``; 1 where nothing is stretched."""
    return 1.0 if factor <= 1 else 0.1 * scale * math.log(factor) + 1.0


def _longrope(asked: _Asked) -> Rotary:
    """Each pair has a factor of its own, one list for short and one for long sequences (arXiv 2402.13753)."""
    settings = asked.settings
    half, original = asked.width // 2, asked.original
    lists = {name: settings.numbers(name) for name in ("short_factor", "long_factor")}
    for name, values in lists.items():
        if len(values) != half:
            raise settings.error(name, f"has {len(values)} numbers, expected {half}")
        if min(values) <= 0:
            raise settings.error(name, f"has {min(values)}, which is not above 0")
    names = ("short_mscale", "long_mscale") if asked.mscales else ()
    scales = [settings.optional_number(name, minimum=0.0) for name in names]
    same = lists["short_factor"] == lists["long_factor"] and len({*scales}) <= 1
    if asked.context > original and not same:
        what = f"{asked.context} positions: with longrope the frequencies change behind {original}"
        raise UsageError(what, where="--context", hint=f"ask for at most {original}")
    own = scales[0] if scales else None
    own = settings.optional_number("attention_factor", minimum=0.0) if own is None else own
    if own is None:
        stretch = settings.number("factor", minimum=1e-3, default=asked.longest / original)
        own = 1.0 if stretch <= 1 or original == 1 else math.sqrt(1 + math.log(stretch) / math.log(original))
    return Rotary(asked.plain / np.array(lists["short_factor"]), own)


_WITH_MSCALES = ("default", "longrope")
_RULES: dict[str, Callable[[_Asked], Rotary]] = {
    "default": _default,
    "linear": _linear,
    "dynamic": _dynamic,
    "llama3": _llama3,
    "yarn": _yarn,
    "longrope": _longrope,
}
