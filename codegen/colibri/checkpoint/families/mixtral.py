"""Mixtral (`model_type` mixtral): decoder with grouped-query attention and gated experts in every layer.

Source: transformers 5.24, `models/mixtral/modeling_mixtral.py`. Softmax over all experts, then top-k, then the chosen
weights are divided by their sum; router jitter and the auxiliary loss act in training only.
"""

from __future__ import annotations

from colibri.checkpoint.checkpoint import Checkpoint
from colibri.checkpoint.families import ImportOptions
from colibri.checkpoint.families.decoder import AttentionForm, Builder, read_numbers
from colibri.checkpoint.families.feed_forward import (
    add_mixed,
    feed_forward_norm,
    listed_experts,
    mixture,
    read_mixture,
    router,
    stored_experts,
)
from colibri.checkpoint.families.names import Names
from colibri.checkpoint.families.windows import one_window
from colibri.graph.graph import Graph

_NAMES = Names(
    r"block_sparse_moe\.(?:gate\.weight|experts\.(?P<expert>[0-9]+)\.w[123]\.weight)"
    r"|mlp\.(?:gate\.weight|experts\.(?:gate_up_proj|down_proj))"
)


def load(checkpoint: Checkpoint, options: ImportOptions) -> Graph:
    """Make the graph of a Mixtral checkpoint.

    Raises:
        BadInput: config or tensors are not a Mixtral's; the message names the key or the tensor.
        UsageError: a context that the model was not made for.
    """
    config = checkpoint.config
    form = read_mixture(
        config, experts="num_local_experts|num_experts", width="intermediate_size", renormalise=True, top_k=2, most=8
    )
    numbers = read_numbers(config, options, eps=1e-5)
    attention = AttentionForm(window=one_window(config))
    build = Builder(checkpoint, numbers, options, "mixtral", form.routing)
    build.rope(default_theta=1e6)
    _NAMES.check(checkpoint, numbers.layers, form.experts)
    build.embedding()
    for layer in range(numbers.layers):
        build.attention(layer, attention)
        normed = feed_forward_norm(build, layer)
        prefix = f"model.layers.{layer}"
        if checkpoint.has(f"{prefix}.mlp.gate.weight"):
            router(build, layer, normed, form, f"{prefix}.mlp.gate")
            kept = stored_experts(build, layer, form, f"{prefix}.mlp.experts")
        else:  # w1 is gate, w3 is up, w2 is down
            router(build, layer, normed, form, f"{prefix}.block_sparse_moe.gate")
            kept = listed_experts(build, layer, form, f"{prefix}.block_sparse_moe.experts", ("w1", "w3", "w2"))
        add_mixed(build, layer, mixture(build, layer, normed, form, kept))
    build.head()
    return build.graph
