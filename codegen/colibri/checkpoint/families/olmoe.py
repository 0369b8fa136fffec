"""OLMoE (`model_type` olmoe): q and k are normalised over all heads together, then q, k and v may be clipped.

Source: transformers 5.24, `models/olmoe/modeling_olmoe.py`.
"""

from __future__ import annotations

from colibri.checkpoint.checkpoint import Checkpoint
from colibri.checkpoint.families import ImportOptions
from colibri.checkpoint.families.decoder import AttentionForm, Builder, read_numbers
from colibri.checkpoint.families.feed_forward import (
    add_mixed,
    feed_forward_norm,
    mixture,
    read_mixture,
    router,
    stored_experts,
)
from colibri.checkpoint.families.names import Names
from colibri.graph.graph import Graph

_NAMES = Names(
    r"mlp\.gate\.weight|mlp\.experts\.(?:(?P<expert>[0-9]+)\.(?:gate|up|down)_proj\.weight|gate_up_proj|down_proj)"
    r"|self_attn\.[qkvo]_proj\.bias|self_attn\.[qk]_norm\.weight"
)


def load(checkpoint: Checkpoint, options: ImportOptions) -> Graph:
    """Make the graph of an OLMoE checkpoint.

    Raises:
        BadInput: config or tensors are not of this family; the message names the key or the tensor.
        UsageError: a context that the model was not made for.
    """
    config = checkpoint.config
    form = read_mixture(
        config,
        experts="num_experts|num_local_experts",
        width="intermediate_size",
        renormalise=config.boolean("norm_topk_prob", default=False),
        top_k=8,
        most=64,
    )
    numbers = read_numbers(config, options, eps=1e-5)
    biases = "qkvo" if config.boolean("attention_bias", default=False) else ""
    clip = config.optional_number("clip_qkv", minimum=1e-6) or 0.0
    build = Builder(checkpoint, numbers, options, "olmoe", form.routing)
    build.rope(default_theta=1e4)
    _NAMES.check(checkpoint, numbers.layers, form.experts)
    build.embedding()
    for layer in range(numbers.layers):
        build.attention(layer, AttentionForm(biases, "width", clip))
        normed, prefix = feed_forward_norm(build, layer), f"model.layers.{layer}.mlp"
        router(build, layer, normed, form, f"{prefix}.gate")
        kept = stored_experts(build, layer, form, f"{prefix}.experts")
        add_mixed(build, layer, mixture(build, layer, normed, form, kept))
    build.head()
    return build.graph
