"""Tensors of GGUF files under the names that `families/` knows, by the rules of their architecture."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from colibri.checkpoint.forms.gguf_architectures import Architecture, Made, Rule
from colibri.checkpoint.forms.gguf_config import Keys
from colibri.checkpoint.forms.gguf_tensors import (
    Blocks,
    Join,
    Joined,
    Packed,
    keys_and_values,
    stacked,
    turned,
    woven,
    woven_turned,
)
from colibri.checkpoint.forms.reordered import Reordered, pairs_to_halves
from colibri.checkpoint.source import MXFP4, Stored, format_shape
from colibri.errors import BadInput, shown

_LAYER = re.compile(r"blk\.(0|[1-9][0-9]{0,3})\.")
_OF_ONE_EXPERT = re.compile(r"(blk\.[0-9]{1,4}\.ffn_(?:gate|up|down))\.(0|[1-9][0-9]{0,3})\.weight")
_MOST_EXPERTS = 1 << 12
_PACKED = {"_blocks": "q", "_scales": "e"}
_JOINS: dict[Made, tuple[int, Join]] = {
    Made.STACKED: (3, stacked),
    Made.TURNED: (3, turned),
    Made.WOVEN: (2, woven),
    Made.WOVEN_TURNED: (3, woven_turned),
    Made.KEYS_AND_VALUES: (3, keys_and_values),
}


def name_tensors(
    keys: Keys, architecture: Architecture, stored: Mapping[str, Blocks], config: Mapping[str, Any]
) -> dict[str, Stored]:
    """Apply the rules of an architecture to every tensor.

    Raises:
        BadInput: a tensor has no rule, two make the same, one lacks a part, or shapes do not fit each other.
    """
    names = _Names(keys, architecture, stored, config)
    for rule in architecture.around:
        names.apply(rule, "", "")
    for layer in sorted({match[1] for name in stored if (match := _LAYER.match(name))}, key=int):
        for rule in architecture.layer:
            names.apply(rule, f"blk.{layer}.", f"model.layers.{layer}.")
    return names.finish()


class _Names:
    """What was named, and what is left."""

    def __init__(
        self, keys: Keys, architecture: Architecture, stored: Mapping[str, Blocks], config: Mapping[str, Any]
    ) -> None:
        self._keys = keys
        self._heads = {Made.QUERIES: config["num_attention_heads"], Made.KEYS: config.get("num_key_value_heads")}
        self._stored = _split_fused(stored, config)
        self._left = dict.fromkeys(self._stored)
        self._made: dict[str, Stored] = {}
        self._of_experts: dict[str, list[tuple[int, str]]] = {}
        for name in self._stored:
            match = _OF_ONE_EXPERT.fullmatch(name)
            if match is not None:
                self._of_experts.setdefault(f"{match[1]}_exps.weight", []).append((int(match[2]), name))

    def apply(self, rule: Rule, front: str, target_front: str) -> None:
        """Name the tensors of one rule, where the file has them."""
        target, sources = target_front + rule.target, [front + source for source in rule.sources]
        if rule.made is Made.EACH:
            for expert, part in self._experts(sources[0]):
                self._add(target.replace("{expert}", str(expert)), part)
            return
        missing = [source for source in sources if source not in self._stored]
        if len(missing) == len(sources):
            return
        if missing:
            raise self._error(f"has no tensor '{missing[0]}', which belongs to others that it has")
        parts = [self._take(source) for source in sources]
        if rule.blocks and self._all_packed(front):
            for end, field in _PACKED.items():
                packed = tuple(Packed(part.raised(3), field) for part in parts)
                self._add(f"{target}{end}", packed[0] if len(packed) == 1 else Joined(packed, woven))
            return
        self._add(target, self._make(rule.made, parts))

    def _all_packed(self, front: str) -> bool:
        """Whether all experts of a layer are in MXFP4, and gate and up of one shape."""
        found = [self._stored.get(f"{front}ffn_{slot}_exps.weight") for slot in ("gate", "up", "down")]
        same = len({part.raised(3).shape for part in found[:2] if part is not None}) == 1
        return same and all(part is not None and part.form.name == MXFP4 for part in found)

    def finish(self) -> dict[str, Stored]:
        """Return all, once none is left."""
        if self._left:
            first, more = next(iter(self._left)), len(self._left) - 1
            what = f"tensor '{shown(first)}'" + (f" and {more} more" if more else "")
            raise self._error(f"{what}: not of the architecture '{shown(self._keys.architecture)}'")
        return self._made

    def _error(self, what: str) -> BadInput:
        return BadInput(what, where=self._keys.where, hint="give the original checkpoint")

    def _add(self, target: str, tensor: Stored) -> None:
        if target in self._made:
            raise self._error(f"has {shown(target)} in two forms")
        self._made[target] = tensor

    def _take(self, source: str) -> Blocks:
        self._left.pop(source, None)
        return self._stored[source]

    def _make(self, made: Made, parts: list[Blocks]) -> Stored:
        first = parts[0]
        if made is Made.SAME:
            return first
        if made is Made.ROW:
            return first.raised(2)
        if made in self._heads:
            rows, heads = first.shape[0], self._heads[made]
            if not isinstance(heads, int) or heads < 1 or rows % (2 * heads):
                raise self._error(f"has {rows} rows for {heads} heads, of which each needs an even number")
            return Reordered(first, pairs_to_halves(heads, rows // heads))
        rank, join = _JOINS[made]
        joined = Joined(tuple(part.raised(rank) for part in parts), join, flat=made is Made.KEYS_AND_VALUES)
        try:
            fits = len(joined.shape) > 0 and len({part.shape[0] for part in joined.parts}) == 1
        except (ValueError, IndexError):
            fits = False
        if not fits:
            shapes = " and ".join(format_shape(part.shape) for part in parts)
            raise self._error(f"has tensors of the shapes {shapes} where they belong together")
        return joined

    def _experts(self, source: str) -> Iterator[tuple[int, Blocks]]:
        """One matrix for each expert: parts of one tensor, or tensors of their own, as older files have them."""
        if source in self._stored:
            whole = self._take(source).raised(3)
            if len(whole.shape) != 3 or whole.shape[0] > _MOST_EXPERTS:
                raise self._error(f"tensor '{source}' of shape {format_shape(whole.shape)} is not one matrix an expert")
            yield from ((expert, whole.entry(expert)) for expert in range(whole.shape[0]))
        for expert, name in self._of_experts.get(source, ()):
            yield expert, self._take(name)


def _split_fused(stored: Mapping[str, Blocks], config: Mapping[str, Any]) -> dict[str, Blocks]:
    """Tensors that a converter was told to join, as those that they were joined of."""
    found: dict[str, Blocks] = {}
    for name, blocks in stored.items():
        layer, _, stem = name.rpartition(".attn_qkv.")
        if layer and "head_dim" in config:
            values = config["num_key_value_heads"] * config["head_dim"]
            queries = blocks.shape[0] - 2 * values
            if queries > 0:
                bounds = {"q": (0, queries), "k": (queries, queries + values), "v": (queries + values, blocks.shape[0])}
                found |= {f"{layer}.attn_{slot}.{stem}": blocks.span(*bound) for slot, bound in bounds.items()}
                continue
        fused, gate_up = name.removesuffix(".ffn_gate_up_exps.weight"), blocks.raised(3)
        if fused != name and gate_up.shape[1] % 2 == 0:
            half = gate_up.shape[1] // 2
            found[f"{fused}.ffn_gate_exps.weight"] = gate_up.inner(0, half)
            found[f"{fused}.ffn_up_exps.weight"] = gate_up.inner(half, 2 * half)
            continue
        found[name] = blocks
    return found
