"""Llama 4, its text part (`model_type` llama4_text): the router's score multiplies an expert's input.

Source: transformers 5.24, `models/llama4/modeling_llama4.py`. Some layers do not turn their heads by position; those
that do see a chunk of positions, and normalise queries and keys behind the turn. Dense layers may stand between.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from colibri.checkpoint.checkpoint import Checkpoint
from colibri.checkpoint.config import Config
from colibri.checkpoint.families import ImportOptions
from colibri.checkpoint.families.decoder import AttentionForm, Builder, Numbers, read_numbers
from colibri.checkpoint.families.feed_forward import (
    Grouping,
    Mixture,
    add_mixed,
    add_shared,
    dense_layer,
    feed_forward_norm,
    grouped_router,
    mixture,
    read_mixture,
)
from colibri.checkpoint.families.names import Names
from colibri.graph.graph import Graph
from colibri.graph.ops.experts import ExpertWeights

_NAMES = Names(
    r"feed_forward\.(?:shared_expert\.)?(?:gate|up|down)_proj\.weight|feed_forward\.router\.weight"
    r"|feed_forward\.experts\.(?:gate_up_proj|down_proj)|self_attn\.[qkvo]_proj\.bias"
)


def load(checkpoint: Checkpoint, options: ImportOptions) -> Graph:
    """Make the graph of a Llama 4 text checkpoint.

    Raises:
        BadInput: config or tensors are not of this family; the message names the key or the tensor.
        UsageError: a context that the model was not made for.
    """
    config = checkpoint.config
    form = read_mixture(
        config, experts="num_local_experts", width="intermediate_size", renormalise=False, top_k=1, most=16
    )
    numbers = read_numbers(config, options, eps=1e-5)
    sparse = _layers(config, numbers.layers)
    grouped = replace(form, grouping=Grouping("sigmoid", 1, 1, 1))
    routing = f"sigmoid of each expert, top {form.top_k}; the score multiplies the expert's input; a shared expert last"
    build = Builder(checkpoint, numbers, options, "llama4_text", routing)
    build.rope(default_theta=500000.0)
    _NAMES.check(checkpoint, numbers.layers, form.experts)
    attention = _attention(config, numbers)
    build.embedding()
    for layer in range(numbers.layers):
        build.attention(layer, attention)
        if layer not in sparse:
            dense_layer(build, layer, config.integer("intermediate_size_mlp", minimum=1), name="feed_forward")
            continue
        normed, prefix = feed_forward_norm(build, layer), f"model.layers.{layer}.feed_forward"
        grouped_router(build, layer, normed, grouped, f"{prefix}.router")
        kept = _experts(build, layer, form, f"{prefix}.experts")
        mixed = mixture(build, layer, normed, form, kept, weigh_input=True)
        add_shared(build, layer, normed, mixed, f"{prefix}.shared_expert", form.intermediate)
        add_mixed(build, layer, mixed)
    build.head()
    return build.graph


def _layers(config: Config, layers: int) -> set[int]:
    """Layers that have experts."""
    if "moe_layers" in config.table and config.table["moe_layers"] is not None:
        return set(config.integers("moe_layers", maximum=layers - 1))
    step = config.integer("interleave_moe_layer_step", minimum=1, default=1)
    return set(range(step - 1, layers, step))


def _attention(config: Config, numbers: Numbers) -> AttentionForm:
    turned = config.integers("no_rope_layers", maximum=1)  # 1 where a layer does turn
    if not turned:
        interval = config.integer("no_rope_layer_interval", minimum=1, default=4)
        turned = tuple(int((layer + 1) % interval != 0) for layer in range(numbers.layers))
    if len(turned) != numbers.layers:
        raise config.error("no_rope_layers", f"names {len(turned)} layers, but there are {numbers.layers}")
    # Where the key is absent the original has chunks of 8192; null means none.
    chunk = config.optional_integer("attention_chunk_size", minimum=1)
    if "attention_chunk_size" not in config.table:
        chunk = 8192
    kinds = config.texts("layer_types") or tuple(
        "chunked_attention" if turns and chunk else "full_attention" for turns in turned
    )
    if len(kinds) != numbers.layers or set(kinds) - {"chunked_attention", "full_attention"}:
        raise config.error("layer_types", "is not one of 'chunked_attention' and 'full_attention' for each layer")
    if "chunked_attention" in kinds and not chunk:
        raise config.error("layer_types", "has 'chunked_attention', but attention_chunk_size is null")
    temperature = None
    if config.boolean("attn_temperature_tuning", default=True):
        steps = np.floor((np.arange(numbers.context) + 1.0) / config.integer("floor_scale", minimum=1, default=8192))
        scale = config.number("attn_scale", default=0.1)
        temperature = (np.log1p(steps) * scale + 1.0).astype(np.float32) if steps.any() else None
    return AttentionForm(
        "qkvo" if config.boolean("attention_bias", default=False) else "",
        window=lambda layer: chunk or 0 if kinds[layer] == "chunked_attention" else 0,
        chunked=True,
        turned=lambda layer: turned[layer] == 1,
        pairs=True,
        unit=config.boolean("use_qk_norm", default=True),
        temperature=temperature,
    )


def _experts(build: Builder, layer: int, form: Mixture, prefix: str) -> list[ExpertWeights]:
    """``gate_up_proj [experts, hidden, 2 * inner]``, gate columns first, and ``down_proj [experts, inner, hidden]``."""
    count, hidden, inner = form.experts, build.numbers.hidden, form.intermediate
    both = build.checkpoint.claim(f"{prefix}.gate_up_proj", (count, hidden, 2 * inner), form.why)
    last = build.checkpoint.claim(f"{prefix}.down_proj", (count, inner, hidden), form.why)
    kept = []
    for expert in range(count):
        parts = {"gate": both[expert, :, :inner], "up": both[expert, :, inner:], "down": last[expert]}
        made = {
            slot: build.dense(f"layers.{layer}.experts.{expert}.{slot}", values.T) for slot, values in parts.items()
        }
        kept.append(ExpertWeights(expert, **made))
    return kept
