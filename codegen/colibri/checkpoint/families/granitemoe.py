"""GraniteMoE (`model_type` granitemoe): four multipliers around a mixture of experts.

Source: transformers 5.24, `models/granitemoe/modeling_granitemoe.py`. The router's softmax runs over the chosen logits,
which is softmax over all, divided by the sum of the chosen.

The multipliers cost nothing on the board, since weights take them in. With the embedding's multiplier m the residual
stream is kept divided by m: what is added to it is r / m times what the checkpoint says (r is the residual's
multiplier), and each norm has eps / m^2, so it gives what it gave. The last norm's weights are divided by
``logits_scaling``.
"""

from __future__ import annotations

from dataclasses import replace

from colibri.checkpoint.checkpoint import Checkpoint
from colibri.checkpoint.families import ImportOptions
from colibri.checkpoint.families.decoder import AttentionForm, Builder, read_numbers
from colibri.checkpoint.families.feed_forward import (
    add_mixed,
    feed_forward_norm,
    fused_experts,
    mixture,
    multiply,
    read_mixture,
    router,
)
from colibri.checkpoint.families.names import Names
from colibri.graph.graph import Graph

_NAMES = Names(
    r"block_sparse_moe\.(?:(?:input_linear|output_linear|router(?:\.layer)?)\.weight|experts\.(?:gate_up|down)_proj)"
    r"|self_attn\.[qkvo]_proj\.bias"
)


def load(checkpoint: Checkpoint, options: ImportOptions) -> Graph:
    """Make the graph of a GraniteMoE checkpoint.

    Raises:
        BadInput: config or tensors are not of this family; the message names the key or the tensor.
        UsageError: a context that the model was not made for.
    """
    config = checkpoint.config
    form = read_mixture(
        config, experts="num_local_experts", width="intermediate_size", renormalise=True, top_k=2, most=8
    )
    numbers = read_numbers(config, options, eps=1e-6)
    times = {
        name: config.number(name, minimum=1e-6, default=1.0)
        for name in ("embedding_multiplier", "residual_multiplier", "attention_multiplier", "logits_scaling")
    }
    embedding = times["embedding_multiplier"]
    numbers = replace(numbers, eps=numbers.eps / embedding**2)
    biases = "qkvo" if config.boolean("attention_bias", default=False) else ""
    build = Builder(checkpoint, numbers, options, "granitemoe", form.routing)
    build.rope(default_theta=1e4)
    _NAMES.check(checkpoint, numbers.layers, form.experts)
    build.embedding()
    for layer in range(numbers.layers):
        build.attention(layer, AttentionForm(biases, scale=times["attention_multiplier"]))
        normed, prefix = feed_forward_norm(build, layer), f"model.layers.{layer}.block_sparse_moe"
        tensors = f"{prefix}.input_linear.weight", f"{prefix}.output_linear.weight"
        scores = f"{prefix}.router.layer"
        if checkpoint.has(f"{prefix}.experts.gate_up_proj"):  # the same under the names that modules have
            tensors, scores = (f"{prefix}.experts.gate_up_proj", f"{prefix}.experts.down_proj"), f"{prefix}.router"
        router(build, layer, normed, form, scores)
        kept = fused_experts(build, layer, form, *tensors)
        add_mixed(build, layer, mixture(build, layer, normed, form, kept))
        for name in (f"layers.{layer}.o", *(expert.down for expert in kept)):
            multiply(build, name, times["residual_multiplier"] / embedding)
    build.head()
    multiply(build, "final_norm", 1.0 / times["logits_scaling"])
    return build.graph
