"""GPT-OSS (`model_type` gpt_oss): attention sinks, windows in every other layer, clipped experts with biases.

Source: transformers 5.24, `models/gpt_oss/modeling_gpt_oss.py`. The router's softmax runs over the chosen logits,
which is softmax over all, divided by the sum of the chosen. Experts are stored transposed, gate and up in alternating
columns, or, as released, in MXFP4 blocks that are not transposed.
"""

from __future__ import annotations

from colibri.checkpoint.checkpoint import Checkpoint
from colibri.checkpoint.families import ImportOptions
from colibri.checkpoint.families.decoder import AttentionForm, Builder, read_numbers
from colibri.checkpoint.families.feed_forward import (
    Mixture,
    add_mixed,
    feed_forward_norm,
    mixture,
    read_mixture,
    router,
)
from colibri.checkpoint.families.names import Names
from colibri.checkpoint.families.windows import layer_types
from colibri.checkpoint.source import MXFP4
from colibri.graph.graph import Graph
from colibri.graph.ops.experts import ExpertWeights

_NAMES = Names(
    r"mlp\.router\.(?:weight|bias)|mlp\.experts\.(?:gate_up_proj|down_proj)(?:_bias)?"
    r"|self_attn\.[qkvo]_proj\.bias|self_attn\.sinks"
)

_ROPE = {  # where the config says nothing
    "rope_type": "yarn",
    "factor": 32.0,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "truncate": False,
    "original_max_position_embeddings": 4096,
}


def load(checkpoint: Checkpoint, options: ImportOptions) -> Graph:
    """Make the graph of a GPT-OSS checkpoint.

    Raises:
        BadInput: config or tensors are not of this family; the message names the key or the tensor.
        UsageError: a context that the model was not made for.
    """
    config = checkpoint.config
    form = read_mixture(
        config, experts="num_local_experts", width="intermediate_size", renormalise=True, top_k=4, most=128
    )
    if "rope_scaling" in config.table and not config.has("rope_scaling|rope_parameters"):
        what = "is null, which transformers 4 reads as plain rope and transformers 5 as yarn with its usual values"
        raise config.error("rope_scaling", what, "say it in rope_parameters")
    numbers = read_numbers(config, options, eps=1e-5, head_dim=None if "head_dim" in config.table else 64)
    size = config.integer("sliding_window", minimum=1, default=128)
    kinds = layer_types(config) or ("sliding_attention", "full_attention") * numbers.layers
    attention = AttentionForm(
        "qkvo" if config.boolean("attention_bias", default=True) else "",
        window=lambda layer: size if kinds[layer] == "sliding_attention" else 0,
        sinks=True,
    )
    clipped = config.number("swiglu_alpha", default=1.702), config.number("swiglu_limit", minimum=1e-6, default=7.0)
    build = Builder(checkpoint, numbers, options, "gpt_oss", form.routing)
    build.rope(default_theta=150000.0, default=_ROPE)
    _NAMES.check(checkpoint, numbers.layers, form.experts)
    build.embedding()
    for layer in range(numbers.layers):
        build.attention(layer, attention)
        normed, prefix = feed_forward_norm(build, layer), f"model.layers.{layer}.mlp"
        router(build, layer, normed, form, f"{prefix}.router", bias=True)
        packed = checkpoint.has(f"{prefix}.experts.gate_up_proj") and (
            checkpoint.dtype(f"{prefix}.experts.gate_up_proj") == MXFP4
        )
        experts = _experts_in_blocks if packed else _experts
        kept = experts(build, layer, form, f"{prefix}.experts")
        add_mixed(build, layer, mixture(build, layer, normed, form, kept, bias=True, clipped=clipped))
    build.head()
    return build.graph


def _experts_in_blocks(build: Builder, layer: int, form: Mixture, prefix: str) -> list[ExpertWeights]:
    """As the models were released: the matrices are not transposed, gate and up in alternating rows."""
    count, hidden, inner = form.experts, build.numbers.hidden, form.intermediate
    claim, blocks = build.checkpoint.claim, build.checkpoint.claim_blocks
    both = blocks(f"{prefix}.gate_up_proj", (count, 2 * inner, hidden), form.why)
    both_bias = claim(f"{prefix}.gate_up_proj_bias", (count, 2 * inner), form.why)
    last = blocks(f"{prefix}.down_proj", (count, hidden, inner), form.why)
    last_bias = claim(f"{prefix}.down_proj_bias", (count, hidden), "hidden_size")
    kept = []
    for expert in range(count):
        rows = range(expert * 2 * inner, (expert + 1) * 2 * inner)
        parts = {
            "gate": both.matrix(rows[0::2], both_bias[expert, 0::2]),
            "up": both.matrix(rows[1::2], both_bias[expert, 1::2]),
            "down": last.matrix(range(expert * hidden, (expert + 1) * hidden), last_bias[expert]),
        }
        made = {slot: f"layers.{layer}.experts.{expert}.{slot}" for slot in parts}
        build.graph.weights.update({made[slot]: matrix for slot, matrix in parts.items()})
        kept.append(ExpertWeights(expert, **made))
    return kept


def _experts(build: Builder, layer: int, form: Mixture, prefix: str) -> list[ExpertWeights]:
    """``gate_up_proj [experts, hidden, 2 * intermediate]`` and ``down_proj [experts, intermediate, hidden]``."""
    count, hidden, inner = form.experts, build.numbers.hidden, form.intermediate
    claim = build.checkpoint.claim
    both = claim(f"{prefix}.gate_up_proj", (count, hidden, 2 * inner), form.why)
    both_bias = claim(f"{prefix}.gate_up_proj_bias", (count, 2 * inner), form.why)
    last = claim(f"{prefix}.down_proj", (count, inner, hidden), form.why)
    last_bias = claim(f"{prefix}.down_proj_bias", (count, hidden), "hidden_size")
    kept = []
    for expert in range(count):
        parts = {
            "gate": (both[expert, :, 0::2], both_bias[expert, 0::2]),
            "up": (both[expert, :, 1::2], both_bias[expert, 1::2]),
            "down": (last[expert], last_bias[expert]),
        }
        made = {
            slot: build.dense(f"layers.{layer}.experts.{expert}.{slot}", values.T, bias)
            for slot, (values, bias) in parts.items()
        }
        kept.append(ExpertWeights(expert, **made))
    return kept
