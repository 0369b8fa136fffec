"""Qwen's mixtures of experts (`model_type` qwen2_moe, qwen3_moe): some layers may be dense.

Source: transformers 5.24, `models/{qwen2_moe,qwen3_moe}/`. Softmax over all experts, then top-k; the chosen weights are
divided by their sum only if ``norm_topk_prob`` says so. Qwen2 adds an expert that always runs, times a gate of its own.
"""

from __future__ import annotations

from collections.abc import Callable

from colibri.checkpoint.checkpoint import Checkpoint
from colibri.checkpoint.config import Config
from colibri.checkpoint.families import ImportOptions
from colibri.checkpoint.families.decoder import AttentionForm, Builder, read_numbers
from colibri.checkpoint.families.feed_forward import (
    Mixture,
    add_mixed,
    add_shared,
    dense_layer,
    feed_forward_norm,
    mixture,
    read_mixture,
    router,
    stored_experts,
)
from colibri.checkpoint.families.names import Names
from colibri.checkpoint.families.windows import windows
from colibri.graph.graph import Graph

_EXPERTS = (
    r"mlp\.gate\.weight|mlp\.experts\.(?:(?P<expert>[0-9]+)\.(?:gate|up|down)_proj\.weight|gate_up_proj|down_proj)"
    r"|mlp\.(?:gate|up|down)_proj\.weight|self_attn\.[qkvo]_proj\.bias"
)
_QWEN2 = Names(rf"{_EXPERTS}|mlp\.shared_expert\.(?:gate|up|down)_proj\.weight|mlp\.shared_expert_gate\.weight")
_QWEN3 = Names(rf"{_EXPERTS}|self_attn\.[qk]_norm\.weight")


def load_qwen2_moe(checkpoint: Checkpoint, options: ImportOptions) -> Graph:
    """Make the graph of a Qwen2-MoE checkpoint.

    Raises:
        BadInput: config or tensors are not of this family; the message names the key or the tensor.
        UsageError: a context that the model was not made for.
    """
    config = checkpoint.config
    biases = "qkv" if config.boolean("qkv_bias", default=True) else ""
    last = config.integer("max_window_layers", default=28)
    form = AttentionForm(biases, window=windows(config, lambda layer: layer % 2 == 0 and layer < last))
    shared = config.integer("shared_expert_intermediate_size", minimum=1, default=5632)
    return _load(checkpoint, options, form, _QWEN2, shared=shared)


def load_qwen3_moe(checkpoint: Checkpoint, options: ImportOptions) -> Graph:
    """Make the graph of a Qwen3-MoE checkpoint: q and k are normalised head by head.

    Raises:
        BadInput, UsageError: as `load_qwen2_moe`.
    """
    config = checkpoint.config
    biases = "qkvo" if config.boolean("attention_bias", default=False) else ""
    return _load(checkpoint, options, AttentionForm(biases, "head", window=windows(config, lambda layer: True)), _QWEN3)


def _load(
    checkpoint: Checkpoint, options: ImportOptions, attention: AttentionForm, names: Names, *, shared: int = 0
) -> Graph:
    config = checkpoint.config
    form = read_mixture(
        config,
        experts="num_experts|num_local_experts",
        width="moe_intermediate_size",
        renormalise=config.boolean("norm_topk_prob", default=False),
    )
    numbers = read_numbers(config, options, eps=1e-6)
    family = config.text("model_type")
    build = Builder(checkpoint, numbers, options, family, _routing(form, shared=bool(shared)))
    build.rope(default_theta=1e4)
    names.check(checkpoint, numbers.layers, form.experts)
    sparse = _sparse(config)
    build.embedding()
    for layer in range(numbers.layers):
        build.attention(layer, attention)
        if not sparse(layer):
            dense_layer(build, layer, config.integer("intermediate_size", minimum=1))
            continue
        normed, prefix = feed_forward_norm(build, layer), f"model.layers.{layer}.mlp"
        router(build, layer, normed, form, f"{prefix}.gate")
        mixed = mixture(build, layer, normed, form, stored_experts(build, layer, form, f"{prefix}.experts"))
        if shared:
            gate = f"{prefix}.shared_expert_gate"
            add_shared(build, layer, normed, mixed, f"{prefix}.shared_expert", shared, gate)
        add_mixed(build, layer, mixed)
    build.head()
    return build.graph


def _routing(form: Mixture, *, shared: bool) -> str:
    return form.routing + ("; a shared expert, times the sigmoid of its gate, is added last" if shared else "")


def _sparse(config: Config) -> Callable[[int], bool]:
    """Whether a layer has experts."""
    dense, step = set(config.integers("mlp_only_layers")), config.integer("decoder_sparse_step", minimum=1, default=1)
    return lambda layer: layer not in dense and (layer + 1) % step == 0
