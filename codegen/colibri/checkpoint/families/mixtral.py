"""Mixtral (`model_type` mixtral): decoder with grouped-query attention and gated experts in every layer.

Source: transformers 5.24, `models/mixtral/modeling_mixtral.py`. Softmax over all experts, then top-k, then the chosen
weights are divided by their sum; router jitter and the auxiliary loss act in training only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from colibri.checkpoint.checkpoint import Checkpoint
from colibri.checkpoint.config import read_rope
from colibri.checkpoint.families import ImportOptions
from colibri.errors import BadInput, UsageError, shown
from colibri.graph.float32 import Float
from colibri.graph.graph import BufferKind, Graph, ModelKind, Op, State
from colibri.graph.ops import Add, Attention, Embedding, Experts, LastRow, Linear, RmsNorm, Rope, Router
from colibri.graph.ops.experts import ExpertWeights
from colibri.graph.ops.rope import rope_tables
from colibri.graph.weights import Matrix, Vector, WeightFormat

_ACTIVATIONS = {"silu": "silu", "swish": "silu", "relu": "relu", "gelu_pytorch_tanh": "gelu_tanh"}


@dataclass(frozen=True)
class _Shape:
    """The numbers of config.json."""

    vocab: int
    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    experts: int
    top_k: int
    eps: float
    theta: float
    window: int
    context: int
    tied: bool
    activation: str


def _read_shape(checkpoint: Checkpoint, options: ImportOptions) -> _Shape:
    config = checkpoint.config
    hidden = config.integer("hidden_size", minimum=1)
    heads = config.integer("num_attention_heads", minimum=1)
    kv_heads = config.integer("num_key_value_heads", minimum=1, default=heads)
    head_dim = config.optional_integer("head_dim", minimum=2)
    if head_dim is None:
        if hidden % heads:
            raise config.error(
                "hidden_size", f"{hidden} is not a multiple of num_attention_heads {heads}", "set head_dim"
            )
        head_dim = hidden // heads
    if heads % kv_heads:
        raise config.error("num_key_value_heads", f"{kv_heads} does not divide num_attention_heads {heads}")
    if head_dim % 2:
        raise config.error("head_dim", f"{head_dim} is odd; rotary embedding needs pairs")
    experts = config.integer("num_local_experts|num_experts", minimum=1, maximum=4096, default=8)
    top_k = config.integer("num_experts_per_tok", minimum=1, default=2)
    if top_k > experts:
        raise config.error("num_experts_per_tok", f"is {top_k}, but there are {experts} experts")
    rope = read_rope(config, default_theta=1e6)
    if rope.theta < 1.0:
        raise config.error("rope_theta", f"is {rope.theta}; frequencies need a base of at least 1")
    if rope.kind != "default":
        raise config.error("rope_scaling", f"asks for {rope.kind!r} rope; only the default is supported for mixtral")
    longest = config.integer("max_position_embeddings", minimum=1)
    context = options.context or longest
    if context > longest:
        what = f"{context} is more than the {longest} positions of the checkpoint (max_position_embeddings)"
        raise UsageError(what, where="--context", hint="ask for less")
    activation = config.text("hidden_act", default="silu")
    if activation not in _ACTIVATIONS:
        raise config.error("hidden_act", f"{activation!r} is not supported", f"one of {', '.join(_ACTIVATIONS)}")
    return _Shape(
        vocab=config.integer("vocab_size", minimum=1),
        hidden=hidden,
        intermediate=config.integer("intermediate_size", minimum=1),
        layers=config.integer("num_hidden_layers", minimum=1),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        experts=experts,
        top_k=top_k,
        eps=config.number("rms_norm_eps", minimum=0.0, default=1e-5),
        theta=rope.theta,
        window=config.optional_integer("sliding_window", minimum=1) or 0,
        context=context,
        tied=config.boolean("tie_word_embeddings", default=False),
        activation=_ACTIVATIONS[activation],
    )


def _refuse_unknown(checkpoint: Checkpoint, shape: _Shape) -> None:
    """Name the first tensor that a Mixtral of this config does not have, before any missing one."""
    inner = (
        r"(?:input_layernorm|post_attention_layernorm|self_attn\.[qkvo]_proj)\.weight"
        r"|self_attn\.rotary_emb\.inv_freq"
        r"|block_sparse_moe\.(?:gate\.weight|experts\.(?P<expert>[0-9]+)\.w[123]\.weight)"
        r"|mlp\.(?:gate\.weight|experts\.(?:gate_up_proj|down_proj))"
    )
    known = re.compile(
        rf"model\.layers\.(?P<layer>[0-9]+)\.(?:{inner})|model\.(?:embed_tokens|norm)\.weight|lm_head\.weight"
    )
    for name in checkpoint.names():
        match = known.fullmatch(name)
        where, name = str(checkpoint.path), shown(name)
        if match is None:
            hint = "save it with transformers' save_pretrained, which writes model.layers.N.… names"
            raise BadInput(f"unknown tensor {name} for model type mixtral", where=where, hint=hint)
        expert, layer = match["expert"], match["layer"]
        if expert is not None and _beyond(expert, shape.experts):
            raise BadInput(
                f"tensor {name} is for expert {shown(expert)}, but config.json says {shape.experts} experts",
                where=where,
            )
        if layer is not None and _beyond(layer, shape.layers):
            raise BadInput(
                f"tensor {name} is for layer {shown(layer)}, but config.json says {shape.layers} layers", where=where
            )


def _beyond(number: str, count: int) -> bool:
    """Whether a number in a name, which may have any length, is not below a count."""
    return len(number) > len(str(count)) or int(number) >= count


class _Builder:
    """Adds ops and weights to the graph."""

    def __init__(self, checkpoint: Checkpoint, shape: _Shape, options: ImportOptions) -> None:
        self.checkpoint = checkpoint
        self.shape = shape
        self.options = options
        self.graph = Graph(
            family="mixtral",
            kind=ModelKind.TOKENS,
            input_width=0,
            output_width=shape.vocab,
            context=shape.context,
            routing=f"softmax over all experts, top {shape.top_k}, chosen weights divided by their sum",
        )

    def op(self, op: Op) -> None:
        self.graph.ops.append(op)

    def floats(self, name: str, width: int, rows: int = 0) -> str:
        return self.graph.buffer(name, BufferKind.FLOAT, width, rows)

    def dense(self, name: str, values: Float) -> str:
        self.graph.weights[name] = Matrix(WeightFormat.F32, (values.shape[0], values.shape[1]), dense=values)
        return name

    def matrix(self, name: str, tensor: str, n: int, k: int, why: str) -> str:
        return self.dense(name, self.checkpoint.take(tensor, (n, k), why))

    def norm(self, layer: int | None, part: str, slot: str, tensor: str, name: str, x: str = "x") -> str:
        width = self.shape.hidden
        self.graph.weights[name] = Vector(self.checkpoint.take(tensor, (width,), "hidden_size"))
        out = self.floats("normed", width) if x == "x" else self.floats("last_normed", width, 1)
        self.op(RmsNorm(layer, part, slot, x, out, name, width, self.shape.eps))
        return out

    def linear(self, layer: int, slot: str, x: str, out: str, n: int, k: int) -> str:
        prefix = f"layers.{layer}.{slot}"
        tensor = f"model.layers.{layer}.self_attn.{slot}_proj.weight"
        self.matrix(prefix, tensor, n, k, "heads and head_dim" if slot != "o" else "hidden_size")
        self.op(Linear(layer, f"layer {layer} / attention", slot, x, self.floats(out, n), prefix, n, k))
        return out

    def attention(self, layer: int) -> None:
        s, part = self.shape, f"layer {layer} / attention"
        q_width, kv_width = s.heads * s.head_dim, s.kv_heads * s.head_dim
        normed = self.norm(
            layer,
            f"layer {layer} / norms",
            "attention_norm",
            f"model.layers.{layer}.input_layernorm.weight",
            f"layers.{layer}.attention_norm",
        )
        for slot, width in (("q", q_width), ("k", kv_width), ("v", kv_width)):
            self.linear(layer, slot, normed, slot, width, s.hidden)
        step = int(self.graph.weights["rope_fine"].values.shape[0])  # type: ignore[union-attr]
        for x, heads in (("q", s.heads), ("k", s.kv_heads)):
            self.op(Rope(layer, "tables", x, "rope_coarse", "rope_fine", step, heads, s.head_dim))
        capacity = min(s.window, s.context) if s.window else s.context
        states = [State(f"layers.{layer}.{kind}", self.options.kv, capacity, kv_width) for kind in ("key", "value")]
        self.graph.states.update({state.name: state for state in states})
        out = self.floats("attended", q_width)
        keys, values = (state.name for state in states)
        dims = (s.heads, s.kv_heads, s.head_dim, capacity, s.window if s.window < s.context else 0)
        scale = float(np.float32(s.head_dim**-0.5))
        self.op(Attention(layer, part, "q", "k", "v", out, keys, values, *dims, scale, self.options.kv))
        self.linear(layer, "o", out, "projected", s.hidden, q_width)
        self.op(Add(layer, part, "x", "projected", s.hidden))

    def experts(self, layer: int) -> None:
        s, prefix = self.shape, f"model.layers.{layer}"
        normed = self.norm(
            layer, f"layer {layer} / norms", "expert_norm", f"{prefix}.post_attention_layernorm.weight",
            f"layers.{layer}.expert_norm",
        )  # fmt: skip
        block = "mlp" if self.checkpoint.has(f"{prefix}.mlp.gate.weight") else "block_sparse_moe"
        router = self.matrix(
            f"layers.{layer}.router", f"{prefix}.{block}.gate.weight", s.experts, s.hidden, "num_local_experts"
        )
        route = self.graph.buffer("route", BufferKind.ROUTE, s.top_k)
        self.op(
            Router(layer, f"layer {layer} / router", normed, route, router, s.experts, s.hidden, s.top_k, True, False)
        )
        kept = (
            self._fused_experts(layer, f"{prefix}.mlp.experts") if block == "mlp" else self._expert_list(layer, prefix)
        )
        out = self.floats("mixed", s.hidden)
        self.op(
            Experts(
                layer,
                f"layer {layer}",
                normed,
                route,
                out,
                kept,
                s.top_k,
                s.hidden,
                s.intermediate,
                s.activation,
                False,
            )
        )
        self.op(Add(layer, f"layer {layer}", "x", out, s.hidden))

    def _expert_list(self, layer: int, prefix: str) -> tuple[ExpertWeights, ...]:
        """One tensor a matrix: w1 is gate, w3 is up, w2 is down."""
        s = self.shape
        shapes = {"gate": ("w1", s.intermediate, s.hidden), "up": ("w3", s.intermediate, s.hidden)}
        shapes["down"] = ("w2", s.hidden, s.intermediate)
        kept = []
        for expert in range(s.experts):
            names = {
                part: self.matrix(
                    f"layers.{layer}.experts.{expert}.{part}",
                    f"{prefix}.block_sparse_moe.experts.{expert}.{tensor}.weight", n, k, "intermediate_size",
                )
                for part, (tensor, n, k) in shapes.items()
            }  # fmt: skip
            kept.append(ExpertWeights(expert, **names))
        return tuple(kept)

    def _fused_experts(self, layer: int, prefix: str) -> tuple[ExpertWeights, ...]:
        """All experts in one tensor: gate rows first, then up rows."""
        s = self.shape
        both = self.checkpoint.take(
            f"{prefix}.gate_up_proj", (s.experts, 2 * s.intermediate, s.hidden), "intermediate_size"
        )
        down = self.checkpoint.take(f"{prefix}.down_proj", (s.experts, s.hidden, s.intermediate), "intermediate_size")
        kept = []
        for expert in range(s.experts):
            parts = {"gate": both[expert, : s.intermediate], "up": both[expert, s.intermediate :], "down": down[expert]}
            names = {
                part: self.dense(f"layers.{layer}.experts.{expert}.{part}", np.ascontiguousarray(values))
                for part, values in parts.items()
            }
            kept.append(ExpertWeights(expert, **names))
        return tuple(kept)

    def head(self) -> str:
        """Weight of the output matrix; a tied one is the embedding itself."""
        s, checkpoint = self.shape, self.checkpoint
        if not s.tied:
            if not checkpoint.has("lm_head.weight"):
                raise BadInput(
                    "lm_head.weight is missing and tie_word_embeddings is false",
                    where=str(checkpoint.path),
                    hint="set tie_word_embeddings to true if the head really is the embedding",
                )
            return self.matrix("head", "lm_head.weight", s.vocab, s.hidden, "vocab_size")
        if checkpoint.has("lm_head.weight"):
            stored = checkpoint.take("lm_head.weight", (s.vocab, s.hidden), "vocab_size")
            embedding = self.graph.weights["embedding"]
            assert isinstance(embedding, Matrix) and embedding.dense is not None
            if not np.array_equal(stored, embedding.dense):
                raise BadInput(
                    "tie_word_embeddings is true, but a different lm_head.weight is stored",
                    where=str(checkpoint.path),
                    hint="set tie_word_embeddings to false to use it, or remove it",
                )
            self.graph.dropped.append("lm_head.weight: equal to the embedding it is tied to")
        return "embedding"


def load(checkpoint: Checkpoint, options: ImportOptions) -> Graph:
    """Make the graph of a Mixtral checkpoint.

    Raises:
        BadInput: config or tensors are not a Mixtral's; the message names the key or the tensor.
    """
    shape = _read_shape(checkpoint, options)
    _refuse_unknown(checkpoint, shape)
    build = _Builder(checkpoint, shape, options)
    graph = build.graph
    checkpoint.drop("model.layers.*.self_attn.rotary_emb", "the frequencies follow from rope_theta")
    frequencies = (
        np.float32(1.0) / np.float32(shape.theta) ** (np.arange(0, shape.head_dim, 2) / shape.head_dim)
    ).astype(np.float32)
    coarse, fine, _ = rope_tables(frequencies.astype(np.float64), shape.context)
    graph.weights.update({"rope_coarse": Vector(coarse, derived=True), "rope_fine": Vector(fine, derived=True)})

    tokens = graph.buffer(Graph.INPUT, BufferKind.TOKENS, 1)
    table = build.matrix("embedding", "model.embed_tokens.weight", shape.vocab, shape.hidden, "vocab_size")
    build.op(Embedding(None, "embedding", tokens, build.floats("x", shape.hidden), table, shape.vocab, shape.hidden))
    for layer in range(shape.layers):
        build.attention(layer)
        build.experts(layer)
    last = build.floats("last", shape.hidden, 1)
    build.op(LastRow(None, "head", "x", last, shape.hidden))
    normed = build.norm(None, "head", "final_norm", "model.norm.weight", "final_norm", last)
    head = build.head()
    logits = build.floats(Graph.OUTPUT, shape.vocab)
    build.op(Linear(None, "head", "head", normed, logits, head, shape.vocab, shape.hidden))
    return graph
