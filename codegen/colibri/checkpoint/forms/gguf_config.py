"""The keys of a GGUF file as the `config.json` that the importers read."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from colibri.checkpoint.forms.gguf_architectures import (
    ARCHITECTURES,
    COMMON_KEYS,
    NEUTRAL,
    READ_APART,
    WITHOUT_MEANING,
    Architecture,
)
from colibri.checkpoint.forms.gguf_header import Array, Header, Scalar
from colibri.checkpoint.forms.gguf_tensors import Blocks
from colibri.checkpoint.source import format_shape
from colibri.errors import BadInput, shown

_SOFTMAX, _SIGMOID = 1, 2  # expert_gating_func
_CORRECTION = "exp_probs_b.bias"
ROPE_TENSORS = ("rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight")
_MOST_LAYERS = 1 << 12
_MOST_FACTORS = 1 << 15


class Keys:
    """The keys of one file, each with its architecture's name in front or not."""

    def __init__(self, header: Header) -> None:
        """Look up the architecture. BadInput: there is none, or the file is a part of a model or an adapter."""
        self._header = header
        self.where = header.file.where
        self.architecture = self.text("general.architecture") or ""
        if not self.architecture:
            raise BadInput("has no general.architecture", where=self.where, hint="it is not a model")
        kind = self.text("general.type") or "model"
        if kind != "model":
            hint = "merge it into its model" if kind == "adapter" else "give the file of the language model"
            raise BadInput(f"is of the type '{shown(kind)}', not a model", where=self.where, hint=hint)

    def own(self) -> list[str]:
        """Return the keys behind the architecture's name."""
        front = f"{self.architecture}."
        return [key.removeprefix(front) for key in self._header.values if key.startswith(front)]

    def error(self, key: str, what: str, hint: str = "") -> BadInput:
        """Return (not raise) the error of a key of the architecture."""
        return BadInput(f"{shown(f'{self.architecture}.{key}')} {what}", where=self.where, hint=hint)

    def get(self, key: str) -> Scalar | None:
        """Return the value of a key of the architecture; an array whose items are all equal counts as one.

        Raises:
            BadInput: layers differ.
        """
        found = self._header.values.get(f"{self.architecture}.{key}")
        if not isinstance(found, Array):
            return found
        items = self._header.items(f"{self.architecture}.{key}")
        if not items or any(item != items[0] for item in items):
            raise self.error(key, "differs from layer to layer, which is not supported")
        return items[0]

    def integer(self, key: str) -> int | None:
        """Return an integer, or None where absent. BadInput: something else."""
        found = self.get(key)
        if found is not None and (isinstance(found, bool) or not isinstance(found, int)):
            raise self.error(key, f"is {shown(str(found))!r}, expected an integer")
        return found

    def number(self, key: str) -> float | None:
        """Return a number, or None where absent. BadInput: something else."""
        found = self.get(key)
        if found is not None and (isinstance(found, (bool, str))):
            raise self.error(key, f"is {shown(str(found))!r}, expected a number")
        return None if found is None else float(found)

    def text(self, key: str) -> str | None:
        """Return the string of a whole key, or None where there is none."""
        found = self._header.values.get(key)
        return found if isinstance(found, str) else None


def read_architecture(keys: Keys, tensors: Mapping[str, Blocks]) -> Architecture:
    """Find what the file is.

    Raises:
        BadInput: an architecture that is not supported.
    """
    found = ARCHITECTURES.get(keys.architecture)
    if found is None:
        known = ", ".join(ARCHITECTURES)
        what = f"the architecture '{shown(keys.architecture)}' is not supported"
        raise BadInput(what, where=keys.where, hint=f"supported: {known}")
    if len(found) == 1:
        return found[0]
    if keys.architecture == "deepseek2":
        return found[_scores(keys, tensors) - 1]
    return found[1 if keys.integer("expert_count") else 0]


def _scores(keys: Keys, tensors: Mapping[str, Blocks]) -> int:
    stated = keys.integer("expert_gating_func")
    if stated not in (None, 0, _SOFTMAX, _SIGMOID):
        raise keys.error("expert_gating_func", f"is {stated}, expected {_SOFTMAX} (softmax) or {_SIGMOID} (sigmoid)")
    # Files from before that key: only sigmoid scores have a correction.
    return stated or (_SIGMOID if any(name.endswith(_CORRECTION) for name in tensors) else _SOFTMAX)


def read_config(keys: Keys, architecture: Architecture, tensors: Mapping[str, Blocks]) -> dict[str, Any]:
    """Make the table of a `config.json`.

    Args:
        tensors: of all files; the small ones of the rotary embedding are read.

    Raises:
        BadInput: a key that is not understood, or that contradicts another.
    """
    named = COMMON_KEYS | dict(architecture.keys)
    _refuse_unknown(keys, {*named, *architecture.apart, *READ_APART, *WITHOUT_MEANING})
    config: dict[str, Any] = {"model_type": architecture.model_type, **architecture.fixed}
    config |= {name: value for key, name in named.items() if (value := keys.get(key)) is not None}
    for (key, wanted), more in architecture.special.items():
        if keys.get(key) == wanted:
            config |= more
    first = "blk.0."
    for tensor, name in architecture.biases.items():
        config[name] = tensor in tensors or first + tensor in tensors
    if architecture.sparse:
        routers = (re.fullmatch(r"blk\.([0-9]{1,4})\.ffn_gate_inp\.weight", name) for name in tensors)
        config[architecture.sparse] = sorted(int(match[1]) for match in routers if match)
    if config.get("sliding_window") == 0:
        del config["sliding_window"]
    config["num_hidden_layers"] = _layers(keys)
    config["tie_word_embeddings"] = "output.weight" not in tensors
    config["vocab_size"] = keys.integer("vocab_size") or _rows(keys, tensors, "token_embd.weight")
    _add_widths(keys, config, tensors)
    _add_heads(keys, config)
    config["rope_parameters"] = _rope(keys, architecture, tensors, config)
    return config


def _refuse_unknown(keys: Keys, known: Collection[str]) -> None:
    for key in keys.own():
        if key in known:
            continue
        if key in NEUTRAL and keys.get(key) in NEUTRAL[key]:
            continue
        has = f" with the value {shown(str(keys.get(key)))}" if key in NEUTRAL else ""
        what = f"is a key{has} that is not understood in this architecture"
        raise keys.error(key, what, "give the original checkpoint")


def _layers(keys: Keys) -> int:
    layers, further = keys.integer("block_count"), keys.integer("nextn_predict_layers") or 0
    if layers is None or not 0 <= further < layers <= _MOST_LAYERS:
        raise keys.error(
            "block_count", f"is {layers}" + (f", of which {further} predict further tokens" * bool(further))
        )
    return layers - further


def _rows(keys: Keys, tensors: Mapping[str, Blocks], name: str) -> int:
    if name not in tensors:
        raise BadInput(f"has no tensor {name}", where=keys.where)
    return tensors[name].shape[0]


def _add_widths(keys: Keys, config: dict[str, Any], tensors: Mapping[str, Blocks]) -> None:
    """Widths of experts that older converters left out are those of their tensors."""
    named = {
        "moe_intermediate_size": "ffn_gate_exps.weight",
        "shared_expert_intermediate_size": "ffn_gate_shexp.weight",
    }
    for name, tensor in named.items():
        found = next((blocks for stored, blocks in tensors.items() if stored.endswith(f".{tensor}")), None)
        if found is not None and name not in config:
            config[name] = found.shape[-2]


def _add_heads(keys: Keys, config: dict[str, Any]) -> None:
    heads, hidden = keys.integer("attention.head_count") or 0, keys.integer("embedding_length") or 0
    if heads < 1 or hidden < 1:
        raise keys.error("attention.head_count" if heads < 1 else "embedding_length", "is missing or 0")
    whole, value = keys.integer("attention.key_length"), keys.integer("attention.value_length")
    if "kv_lora_rank" in config:
        turned = config.get("qk_rope_head_dim", 0)
        whole = keys.integer("attention.key_length_mla") or whole or 0
        config["qk_nope_head_dim"] = whole - turned
        config["v_head_dim"] = keys.integer("attention.value_length_mla") or value
        config["num_key_value_heads"] = heads  # the file says 1, since all heads share the latent
        if config.get("n_group", 1) > 1 and config["model_type"] == "deepseek_v2":
            config["topk_method"] = "group_limited_greedy"
        return
    if whole is None and hidden % heads:
        raise keys.error("embedding_length", f"{hidden} is not a multiple of the {heads} heads")
    config["head_dim"] = whole or hidden // heads
    config.setdefault("num_key_value_heads", heads)
    if value not in (None, config["head_dim"]):
        raise keys.error("attention.value_length", f"is {value}, but keys have {config['head_dim']} values")
    turned = keys.integer("rope.dimension_count")
    if turned not in (None, config["head_dim"]):
        what = f"is {turned}, but heads have {config['head_dim']} values"
        raise keys.error("rope.dimension_count", what, "only whole heads are turned")


def _rope(
    keys: Keys, architecture: Architecture, tensors: Mapping[str, Blocks], config: Mapping[str, Any]
) -> dict[str, Any]:
    """The table ``rope_parameters``."""
    rope: dict[str, Any] = {"rope_theta": keys.number("rope.freq_base") or 10000.0, "rope_type": "default"}
    for name in ROPE_TENSORS:
        if name in tensors and (len(tensors[name].shape) != 1 or tensors[name].shape[0] > _MOST_FACTORS):
            shape = format_shape(tensors[name].shape)
            raise BadInput(f"{name} of shape {shape} is not one factor a pair", where=keys.where)
    factors = {name: tensors[name].rows(0, tensors[name].shape[0]).tolist() for name in ROPE_TENSORS if name in tensors}
    kind, factor = keys.get("rope.scaling.type") or "none", keys.number("rope.scaling.factor")
    if kind == "none" and keys.number("rope.scale_linear") not in (None, 1.0):
        kind, factor = "linear", keys.number("rope.scale_linear")
    original = keys.integer("rope.scaling.original_context_length")
    attention = keys.number("rope.scaling.attn_factor")
    if factors:
        if kind not in ("none", "longrope"):
            raise keys.error("rope.scaling.type", f"is '{shown(str(kind))}', but the file has factors for each pair")
        one = factors.get(ROPE_TENSORS[0])
        return rope | {
            "rope_type": "longrope",
            "short_factor": one or factors.get(ROPE_TENSORS[2]),
            "long_factor": one or factors.get(ROPE_TENSORS[1]),
            "attention_factor": 1.0 if attention is None else attention,
            "original_max_position_embeddings": original or config.get("max_position_embeddings"),
        }
    if attention not in (None, 1.0):
        raise keys.error("rope.scaling.attn_factor", f"is {attention:g}, but there are no rope_factors tensors")
    if kind == "linear":
        return rope | {"rope_type": "linear", "factor": factor or 1.0}
    if kind == "yarn":
        return rope | _yarn(keys, architecture) | {"factor": factor, "original_max_position_embeddings": original}
    if kind != "none":
        what = f"is '{shown(str(kind))}', " + (
            "but there are no rope_factors tensors" if kind == "longrope" else "not known"
        )
        raise keys.error("rope.scaling.type", what)
    return rope


def _yarn(keys: Keys, architecture: Architecture) -> dict[str, Any]:
    found: dict[str, Any] = {"rope_type": "yarn", "truncate": architecture.truncated}
    named = {"yarn_beta_fast": "beta_fast", "yarn_beta_slow": "beta_slow", "yarn_attn_factor": "attention_factor"}
    for key, name in named.items():
        value = keys.number(f"rope.scaling.{key}")
        if value is not None:
            found[name] = value
    for_all = keys.number("rope.scaling.yarn_log_multiplier")
    if for_all:  # the file has a tenth of it, and takes the other scale of the original to be equal
        found |= {"mscale": for_all * 10, "mscale_all_dim": for_all * 10}
    return found
