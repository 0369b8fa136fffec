"""DeepSeek-V2 and V3 (`model_type` deepseek_v2, deepseek_v3): latent attention, experts in groups, shared experts.

Source: transformers 5.24, `models/{deepseek_v2,deepseek_v3}/`; arXiv 2405.04434 and 2412.19437. Keys and values are
made from a latent; the matrices that make them are taken into the query and the output, so the latent itself is the
state. Layers beyond ``num_hidden_layers`` predict further tokens and are left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from colibri.checkpoint.checkpoint import Checkpoint
from colibri.checkpoint.config import Config, read_rope
from colibri.checkpoint.families import ImportOptions
from colibri.checkpoint.families.decoder import WIDEST_HEAD, Builder, read_numbers
from colibri.checkpoint.families.feed_forward import (
    GATE_UP_DOWN,
    Grouping,
    Mixture,
    add_mixed,
    add_shared,
    dense_layer,
    feed_forward_norm,
    grouped_router,
    mixture,
    multiply,
    read_mixture,
    router,
    stored_experts,
)
from colibri.checkpoint.families.names import Names
from colibri.checkpoint.families.rotary import yarn_temperature
from colibri.checkpoint.lazy import Lazy, dense_matrix
from colibri.graph.graph import Graph, State, TensorClass
from colibri.graph.ops import Add, HeadLinear, LatentAttention, Linear, RmsNorm, Rope
from colibri.graph.weights import Vector

_LATENT_EPS = 1e-6  # of the norms inside attention, whatever rms_norm_eps is
_NAMES = Names(
    r"self_attn\.(?:(?:q_a|q_b|kv_a|kv_b)_proj\.weight|(?:q_a_proj|kv_a_proj_with_mqa|o_proj)\.bias"
    r"|kv_a_proj_with_mqa\.weight|(?:q_a|kv_a)_layernorm\.weight)"
    r"|mlp\.gate\.(?:weight|e_score_correction_bias)"
    r"|mlp\.experts\.(?:(?P<expert>[0-9]+)\.(?:gate|up|down)_proj\.weight|gate_up_proj|down_proj)"
    r"|mlp\.(?:shared_experts\.)?(?:gate|up|down)_proj\.(?:weight|bias)"
)


@dataclass(frozen=True)
class _Latent:
    """Widths of the attention.

    Attributes:
        query_rank: of the latent query; 0 where the query has none.
        rank: of the latent that keys and values are made from.
        plain: width of a head's query that has no position, ``turned``: that has one; ``value``: of its value.
        pairs: whether the values that turn together are neighbours in the checkpoint.
    """

    query_rank: int
    rank: int
    plain: int
    turned: int
    value: int
    bias: bool
    pairs: bool
    scale: float


def load_v2(checkpoint: Checkpoint, options: ImportOptions) -> Graph:
    """Make the graph of a DeepSeek-V2 checkpoint.

    Raises:
        BadInput: config or tensors are not of this family; the message names the key or the tensor.
        UsageError: a context that the model was not made for.
    """
    config = checkpoint.config
    config.text("scoring_func", choices=("softmax",), default="softmax")
    if not config.boolean("rope_interleave", default=True):
        raise config.error("rope_interleave", "is false, which this model type does not have")
    method = config.text("topk_method", choices=("greedy", "group_limited_greedy"), default="greedy")
    scale = config.number("routed_scaling_factor", minimum=1e-6, default=1.0)
    form = replace(_mixture(config, renormalise=False), scale=scale)
    if method == "group_limited_greedy":
        groups, kept = _groups(config, form)
        form = replace(form, grouping=Grouping("softmax", groups, kept, best=1))
    graph = _load(checkpoint, options, form, pairs=True, mlp_bias=config.boolean("mlp_bias", default=False))
    if config.boolean("norm_topk_prob", default=False):
        graph.warnings.append(
            "norm_topk_prob is true, but as in transformers chosen weights are not divided by their sum"
        )
    return graph


def load_v3(checkpoint: Checkpoint, options: ImportOptions) -> Graph:
    """Make the graph of a DeepSeek-V3 checkpoint.

    Raises:
        BadInput, UsageError: as `load_v2`.
    """
    config = checkpoint.config
    config.text("scoring_func", choices=("sigmoid",), default="sigmoid")
    config.text("topk_method", choices=("noaux_tc",), default="noaux_tc")
    form = _mixture(config, renormalise=config.boolean("norm_topk_prob", default=True))
    groups, kept = _groups(config, form, usual=(8, 4))
    scale = config.number("routed_scaling_factor", minimum=1e-6, default=2.5)
    grouping = Grouping("sigmoid", groups, kept, best=2, correction="e_score_correction_bias")
    form = replace(form, scale=scale, grouping=grouping)
    return _load(checkpoint, options, form, pairs=config.boolean("rope_interleave", default=True))


def _mixture(config: Config, *, renormalise: bool) -> Mixture:
    return read_mixture(config, experts="n_routed_experts", width="moe_intermediate_size", renormalise=renormalise)


def _groups(config: Config, form: Mixture, usual: tuple[int, int] = (1, 1)) -> tuple[int, int]:
    """Number of groups, and of those that are kept; ``usual`` where a key is absent, 1 where it is null."""
    groups, kept = (
        config.integer(name, minimum=1, default=1 if name in config.table else absent)
        for name, absent in zip(("n_group", "topk_group"), usual, strict=True)
    )
    if form.experts % groups:
        raise config.error("n_group", f"{groups} does not divide the {form.experts} experts")
    if kept > groups:
        raise config.error("topk_group", f"is {kept}, but there are {groups} groups")
    if kept * (form.experts // groups) < form.top_k:
        what = f"is {kept}: {kept * (form.experts // groups)} experts are left, of which {form.top_k} are to be chosen"
        raise config.error("topk_group", what)
    return groups, kept


def _read_latent(config: Config, *, pairs: bool) -> _Latent:
    plain = config.integer("qk_nope_head_dim", minimum=1)
    turned = config.integer("qk_rope_head_dim", minimum=2, maximum=WIDEST_HEAD)
    if turned % 2:
        raise config.error("qk_rope_head_dim", f"{turned} is odd; rotary embedding needs pairs")
    scale = float((plain + turned) ** -0.5)
    rope = read_rope(config)
    for_all = rope.settings.optional_number("mscale_all_dim", minimum=0.0) if rope.kind != "default" else None
    if for_all:
        scale *= yarn_temperature(rope.settings.number("factor", minimum=1e-3), for_all) ** 2
        if scale > float(np.finfo(np.float32).max):
            raise rope.settings.error("mscale_all_dim", f"is {for_all:g}, with which scores are too large for fp32")
    return _Latent(
        query_rank=config.optional_integer("q_lora_rank", minimum=1) or 0,
        rank=config.integer("kv_lora_rank", minimum=1),
        plain=plain,
        turned=turned,
        value=config.integer("v_head_dim", minimum=1),
        bias=config.boolean("attention_bias", default=False),
        pairs=pairs,
        scale=scale,
    )


def _load(
    checkpoint: Checkpoint, options: ImportOptions, form: Mixture, *, pairs: bool, mlp_bias: bool = False
) -> Graph:
    config = checkpoint.config
    latent = _read_latent(config, pairs=pairs)
    numbers = read_numbers(config, options, eps=1e-6, head_dim=latent.turned)
    numbers = replace(numbers, head_dim=latent.turned)
    shared = config.integer("n_shared_experts", default=0) * form.intermediate
    first = config.integer("first_k_dense_replace", default=0)
    routing = form.routing + ("; shared experts are added last" if shared else "")
    build = Builder(checkpoint, numbers, options, config.text("model_type"), routing)
    build.rope(default_theta=1e4)
    _drop_further_layers(checkpoint, numbers.layers)
    _NAMES.check(checkpoint, numbers.layers, form.experts)
    build.embedding()
    for layer in range(numbers.layers):
        _attention(build, layer, latent)
        if layer < first:
            dense_layer(build, layer, config.integer("intermediate_size", minimum=1), bias=mlp_bias)
            continue
        normed, prefix = feed_forward_norm(build, layer), f"model.layers.{layer}.mlp"
        (grouped_router if form.grouping else router)(build, layer, normed, form, f"{prefix}.gate")
        kept = stored_experts(build, layer, form, f"{prefix}.experts")
        mixed = mixture(build, layer, normed, form, kept)
        for expert in kept:
            multiply(build, expert.down, form.scale)
        if shared:
            add_shared(build, layer, normed, mixed, f"{prefix}.shared_experts", shared, bias=mlp_bias)
        else:
            _drop_empty(checkpoint, f"{prefix}.shared_experts")
        add_mixed(build, layer, mixed)
    build.head()
    return build.graph


def _drop_further_layers(checkpoint: Checkpoint, layers: int) -> None:
    """Layers behind the last predict further tokens; their number is in the config."""
    for extra in range(checkpoint.config.integer("num_nextn_predict_layers", maximum=64, default=0)):
        checkpoint.drop(f"model.layers.{layers + extra}", "predicts further tokens, which is not part of the model")


def _drop_empty(checkpoint: Checkpoint, prefix: str) -> None:
    """Where there are no shared experts, their matrices are stored all the same, without a value."""
    for name in (f"{prefix}.{slot}.weight" for slot in GATE_UP_DOWN):
        if checkpoint.has(name) and 0 in checkpoint.shape(name):
            checkpoint.drop(name, "n_shared_experts is 0, and it has no values")


def _attention(build: Builder, layer: int, latent: _Latent) -> None:
    """Norm, query, latent, attention in the latent space, and the residual."""
    n, prefix, part = build.numbers, f"model.layers.{layer}.self_attn", f"layer {layer} / attention"
    normed = build.floats("normed", n.hidden)
    build.norm(layer, "attention_norm", f"model.layers.{layer}.input_layernorm", "x", normed, n.hidden)
    _query(build, layer, latent, normed)
    claim, rank, turned = build.checkpoint.claim, latent.rank, latent.turned

    both = claim(f"{prefix}.kv_a_proj_with_mqa.weight", (rank + turned, n.hidden), "kv_lora_rank and qk_rope_head_dim")
    bias = claim(f"{prefix}.kv_a_proj_with_mqa.bias", (rank + turned,), "kv_lora_rank") if latent.bias else None
    order = np.concatenate([np.arange(rank), rank + _turned_order(latent, 1)])
    both, bias = both[order], None if bias is None else bias[order]
    _linear(build, layer, "latent", normed, both[:rank], None if bias is None else bias[:rank])
    _linear(build, layer, "k_rope", normed, both[rank:], None if bias is None else bias[rank:])
    _inner_norm(build, layer, "latent_norm", f"{prefix}.kv_a_layernorm", "latent", rank)

    kv = claim(f"{prefix}.kv_b_proj.weight", (n.heads * (latent.plain + latent.value), rank), "heads and their widths")
    kv = kv.reshape(n.heads, latent.plain + latent.value, rank)
    keys = kv[:, : latent.plain].transpose(0, 2, 1).reshape(n.heads * rank, latent.plain)
    values = kv[:, latent.plain :].reshape(n.heads * latent.value, rank)
    _heads(build, layer, "keys", "q", "q_latent", keys, rank)
    fine = build.graph.weights["rope_fine"]
    assert isinstance(fine, Vector)
    for name, heads in (("q_rope", n.heads), ("k_rope", 1)):
        build.op(Rope(layer, "tables", name, "rope_coarse", "rope_fine", int(fine.values.shape[0]), heads, turned))
    states = [
        State(f"layers.{layer}.{name}", build.options.kv, n.context, width)
        for name, width in (("latent", rank), ("rope", turned))
    ]
    build.graph.states.update({state.name: state for state in states})
    out = build.floats("attended", n.heads * rank)
    build.op(
        LatentAttention(
            layer,
            part,
            "q_latent",
            "q_rope",
            "latent_normed",
            "k_rope",
            out,
            *(states[0].name, states[1].name),
            *(n.heads, rank, turned, n.context),
            float(np.float32(latent.scale)),
            build.options.kv,
        )
    )
    _heads(build, layer, "values", out, "valued", values, latent.value)
    width = n.heads * latent.value
    weight = claim(f"{prefix}.o_proj.weight", (n.hidden, width), "hidden_size")
    _linear(build, layer, "o", "valued", weight, claim(f"{prefix}.o_proj.bias", (n.hidden,)) if latent.bias else None)
    build.op(Add(layer, part, "x", "o", n.hidden))


def _query(build: Builder, layer: int, latent: _Latent, normed: str) -> None:
    """Buffers ``q`` (without position) and ``q_rope``, head by head."""
    n, prefix = build.numbers, f"model.layers.{layer}.self_attn"
    claim, source, width = build.checkpoint.claim, normed, n.hidden
    tensor = f"{prefix}.q_proj.weight"
    if latent.query_rank:
        low = claim(f"{prefix}.q_a_proj.weight", (latent.query_rank, n.hidden), "q_lora_rank")
        bias = claim(f"{prefix}.q_a_proj.bias", (latent.query_rank,), "q_lora_rank") if latent.bias else None
        _linear(build, layer, "q_low", normed, low, bias)
        source = _inner_norm(build, layer, "q_low_norm", f"{prefix}.q_a_layernorm", "q_low", latent.query_rank)
        width, tensor = latent.query_rank, f"{prefix}.q_b_proj.weight"
    head = latent.plain + latent.turned
    whole = claim(tensor, (n.heads * head, width), "heads and their widths").reshape(n.heads, head, width)
    plain = whole[:, : latent.plain].reshape(n.heads * latent.plain, width)
    turned = whole[:, latent.plain :].reshape(n.heads * latent.turned, width)[_turned_order(latent, n.heads)]
    _linear(build, layer, "q", source, plain, None)
    _linear(build, layer, "q_rope", source, turned, None)


def _turned_order(latent: _Latent, heads: int) -> np.ndarray:
    """Rows of the turned part, so that pair i stands at i and i + half: queries and keys alike, so no score changes."""
    one = np.arange(latent.turned)
    if latent.pairs:
        one = np.concatenate([one[0::2], one[1::2]])
    return (np.arange(heads)[:, None] * latent.turned + one).reshape(-1)


def _linear(build: Builder, layer: int, slot: str, x: str, values: Lazy, bias: Lazy | None) -> None:
    """A projection into the buffer of the slot's name."""
    n, k = values.shape
    weight = build.dense(f"layers.{layer}.{slot}", values, bias)
    part = f"layer {layer} / attention"
    shape = n, k, bias is not None
    build.op(Linear(layer, part, slot, x, build.floats(slot, n), weight, *shape, role=TensorClass.ATTENTION))


def _heads(build: Builder, layer: int, slot: str, x: str, out: str, values: Lazy, n: int) -> None:
    """A matrix for each head."""
    heads, k = build.numbers.heads, values.shape[1]
    name = f"layers.{layer}.{slot}"
    build.graph.weights[name] = dense_matrix(values, parts=heads)
    part = f"layer {layer} / attention"
    build.op(HeadLinear(layer, part, slot, x, build.floats(out, heads * n), name, heads, n, k))


def _inner_norm(build: Builder, layer: int, slot: str, tensor: str, x: str, width: int) -> str:
    name, out = f"layers.{layer}.{slot}", build.floats(f"{x}_normed", width)
    build.graph.weights[name] = Vector(build.checkpoint.take(f"{tensor}.weight", (width,), "width of the norm"))
    build.op(RmsNorm(layer, f"layer {layer} / norms", slot, x, out, name, width, _LATENT_EPS))
    return out
