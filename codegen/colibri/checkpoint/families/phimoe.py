"""PhiMoE (`model_type` phimoe): two experts, each weighed by a softmax over those near it; layer norms with biases.

Source: transformers 5.24, `models/phimoe/modeling_phimoe.py`. ``router_jitter_noise`` decides which scores count as
near at inference, too; ``input_jitter_noise`` acts in training only. With longrope the original applies the short
factors and ``short_mscale`` up to ``original_max_position_embeddings``, and so does this.
"""

from __future__ import annotations

import numpy as np

from colibri.checkpoint.checkpoint import Checkpoint
from colibri.checkpoint.families import ImportOptions
from colibri.checkpoint.families.decoder import AttentionForm, Builder, read_numbers
from colibri.checkpoint.families.feed_forward import (
    add_mixed,
    feed_forward_norm,
    listed_experts,
    mixture,
    read_mixture,
    stored_experts,
)
from colibri.checkpoint.families.names import Names
from colibri.checkpoint.families.windows import one_window
from colibri.graph.graph import BufferKind, Graph
from colibri.graph.ops import SparseMixer

_NAMES = Names(
    r"block_sparse_moe\.(?:gate\.weight|experts\.(?P<expert>[0-9]+)\.w[123]\.weight)"
    r"|mlp\.(?:router\.weight|experts\.(?:gate_up_proj|down_proj))"
    r"|self_attn\.[qkvo]_proj\.bias|(?:input|post_attention)_layernorm\.bias",
    r"model\.norm\.bias|lm_head\.bias",
)
_ROUTING = (
    "the 2 largest, each weighed by the softmax over the scores within {width:g} of it, relative to the larger "
    "magnitude; the first is out when the second is chosen"
)


def load(checkpoint: Checkpoint, options: ImportOptions) -> Graph:
    """Make the graph of a PhiMoE checkpoint.

    Raises:
        BadInput: config or tensors are not of this family; the message names the key or the tensor.
        UsageError: a context that the model was not made for.
    """
    config = checkpoint.config
    form = read_mixture(
        config, experts="num_local_experts", width="intermediate_size", renormalise=False, top_k=2, most=16
    )
    if form.top_k != 2:
        raise config.error("num_experts_per_tok", f"is {form.top_k}; the routing of this family is for 2")
    width = float(np.float32(2 * config.number("router_jitter_noise", minimum=0.0, maximum=1e6, default=0.01)))
    numbers = read_numbers(config, options, eps=1e-5)
    biases = "qkvo" if config.boolean("attention_bias", default=False) else ""
    routing = _ROUTING.format(width=width)
    build = Builder(checkpoint, numbers, options, "phimoe", routing, layer_norms=True)
    build.rope(default_theta=1e6, mscales=True)
    _NAMES.check(checkpoint, numbers.layers, form.experts)
    head_bias = config.boolean("lm_head_bias", default=False)
    attention = AttentionForm(biases, window=one_window(config))
    build.embedding(head_bias=head_bias)
    for layer in range(numbers.layers):
        build.attention(layer, attention)
        normed, prefix = feed_forward_norm(build, layer), f"model.layers.{layer}"
        fused = checkpoint.has(f"{prefix}.mlp.router.weight")
        tensor = f"{prefix}.mlp.router" if fused else f"{prefix}.block_sparse_moe.gate"
        weight = build.matrix(f"layers.{layer}.router", tensor, form.experts, numbers.hidden, "number of experts")
        route = build.graph.buffer("route", BufferKind.ROUTE, 2)
        part = f"layer {layer} / router"
        build.op(SparseMixer(layer, part, normed, route, weight, form.experts, numbers.hidden, width))
        if fused:
            kept = stored_experts(build, layer, form, f"{prefix}.mlp.experts")
        else:
            kept = listed_experts(build, layer, form, f"{prefix}.block_sparse_moe.experts", ("w1", "w3", "w2"))
        add_mixed(build, layer, mixture(build, layer, normed, form, kept))
    build.head(bias=head_bias)
    return build.graph
