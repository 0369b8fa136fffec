"""Switch Transformer (`model_type` switch_transformers): encoder and decoder, one expert a token in some layers.

Source: transformers 5.24, `models/switch_transformers/modeling_switch_transformers.py`, after arXiv 2101.03961. The
expert with the largest probability runs and its output is multiplied by that probability. An expert's capacity bounds
what is trained or computed in a batch, not what the model means, and is ignored. Scores are not scaled, but have a bias
by distance, which the first layer of each stack holds for all. The encoder's layers come first: layer 0 of the decoder
is layer ``num_layers`` here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from colibri.checkpoint.checkpoint import Checkpoint
from colibri.checkpoint.config import Config
from colibri.checkpoint.families import ImportOptions
from colibri.checkpoint.families.decoder import ACTIVATIONS, WIDEST_HEAD, Builder, Numbers, bounded_context
from colibri.checkpoint.families.feed_forward import Mixture, add_mixed, mixture, multiply, router
from colibri.checkpoint.lazy import Lazy
from colibri.errors import BadInput
from colibri.graph.float32 import Float, Int
from colibri.graph.graph import BufferKind, Graph, State, StateType, TensorClass
from colibri.graph.ops import Activation, Add, Embedding, Keep, LastRow, Linear, Recall, RmsNorm, StateAttention
from colibri.graph.ops.experts import ExpertWeights
from colibri.graph.ops.state_attention import Reach
from colibri.graph.weights import Vector

_USUAL_CONTEXT = 512  # the checkpoint sets no bound; it was trained on so many
_MOST_LAYERS = 1 << 12
_FAR = 1 << 20
_ROWS = 1024  # that are compared at once


@dataclass(frozen=True)
class _Stack:
    """Encoder or decoder.

    Attributes:
        name: prefix of its tensors.
        first: its first layer's number in the graph.
        layers: how many it has.
        step: one layer in so many has experts, the second of each; 0 for none.
        reach: what its self-attention sees.
        longest: most rows that it sees.
    """

    name: str
    first: int
    layers: int
    step: int
    reach: Reach
    longest: int

    def sparse(self, layer: int) -> bool:
        """Whether one of its layers has experts."""
        return self.step == 1 or (self.step > 1 and layer % self.step == 1)


def load(checkpoint: Checkpoint, options: ImportOptions) -> Graph:
    """Make the graph of a Switch Transformer checkpoint.

    Raises:
        BadInput: config or tensors are not a Switch Transformer's; the message names the key or the tensor.
    """
    config = checkpoint.config
    numbers = _numbers(config, options)
    source = bounded_context(options.source or numbers.context, "--source")
    precision = config.text("router_dtype", default="float32")
    if precision != "float32":
        raise config.error("router_dtype", f"is {precision!r}; routers run in float32", "set it to float32 to do so")
    decoding = config.integer("num_decoder_layers", minimum=1, maximum=_MOST_LAYERS, default=numbers.layers)
    encoder = _Stack("encoder", 0, numbers.layers, _step(config, "encoder", numbers.layers), Reach.SOURCE, source)
    decoder = _Stack(
        "decoder", numbers.layers, decoding, _step(config, "decoder", decoding), Reach.PAST, numbers.context
    )
    form = Mixture(config.integer("num_experts", minimum=1, maximum=4096), 1, _inner(config), False, "d_ff")
    build = Builder(checkpoint, numbers, options, "switch_transformers", form.routing)
    build.graph.source = source
    pad = config.integer("pad_token_id", maximum=numbers.vocab - 1, default=0)
    build.graph.start = config.integer("decoder_start_token_id", maximum=numbers.vocab - 1, default=pad)
    tables = _embeddings(build)
    _encode(build, encoder, decoder, tables["encoder"], form)
    build.graph.encoder = len(build.graph.ops)
    _decode(build, decoder, source, tables["decoder"], form)
    return build.graph


def _numbers(config: Config, options: ImportOptions) -> Numbers:
    hidden, heads = config.integer("d_model", minimum=1), config.integer("num_heads", minimum=1)
    activation = config.text("dense_act_fn", default="relu")
    if activation not in ACTIVATIONS:
        raise config.error("dense_act_fn", f"{activation!r} is not supported", f"one of {', '.join(ACTIVATIONS)}")
    context = bounded_context(options.context or _USUAL_CONTEXT, "--context")
    return Numbers(
        vocab=config.integer("vocab_size", minimum=1),
        hidden=hidden,
        layers=config.integer("num_layers", minimum=1, maximum=_MOST_LAYERS),
        heads=heads,
        kv_heads=heads,
        head_dim=config.integer("d_kv", minimum=1, maximum=WIDEST_HEAD),
        eps=config.number("layer_norm_epsilon", minimum=0.0, maximum=1.0, default=1e-6),
        longest=context,
        context=context,
        tied=config.boolean("tie_word_embeddings", default=True),
        activation=ACTIVATIONS[activation],
    )


def _inner(config: Config) -> int:
    return config.integer("d_ff", minimum=1)


def _embeddings(build: Builder) -> dict[str, str]:
    """The table of each stack: ``shared.weight``, but one of its own where it is stored, differs, and nothing is tied.

    Raises:
        BadInput: a table of a stack differs from the one that it is tied to.
    """
    n, checkpoint = build.numbers, build.checkpoint
    shape, why = (n.vocab, n.hidden), "vocab_size × d_model"
    shared = checkpoint.claim("shared.weight", shape, why)
    tables: dict[str, str] = {}
    for stack in ("encoder", "decoder"):
        name = f"{stack}.embed_tokens.weight"
        own = checkpoint.claim(name, shape, why) if checkpoint.has(name) else None
        tables[stack] = "embedding"
        if own is None:
            continue
        if _equal(own, shared):
            build.graph.dropped.append(f"{name}: equal to shared.weight")
        elif n.tied:
            what = f"tie_word_embeddings is true, but {name} differs from shared.weight"
            raise BadInput(what, where=checkpoint.where, hint="set tie_word_embeddings to false to use it")
        else:
            tables[stack] = build.dense(f"{stack}_embedding", own)
    if n.tied or "embedding" in tables.values():
        build.dense("embedding", build.equal_to_head(shared) if n.tied else shared)
    else:
        build.graph.dropped.append("shared.weight: encoder and decoder have tables of their own")
    return tables


def _equal(first: Lazy, second: Lazy) -> bool:
    return all(map(np.array_equal, first.blocks(_ROWS), second.blocks(_ROWS)))


def _step(config: Config, stack: str, layers: int) -> int:
    """One layer in so many is sparse; as the configuration class makes it where the file has only the count."""
    sparse = config.integer(f"num_sparse_{stack}_layers", maximum=layers, default=3 if layers >= 3 else 0)
    return config.integer(f"{stack}_sparse_step", default=layers // sparse if sparse else layers)


# ---- the encoder: a pass for keys and values of a layer, and a pass for the rest of it ----


def _encode(build: Builder, encoder: _Stack, decoder: _Stack, table: str, form: Mixture) -> None:
    n, kv = build.numbers, build.options.kv
    _state(build, "encoder.x", StateType.F32, encoder.longest, n.hidden)
    for slot in ("key", "value"):
        _state(build, f"encoder.{slot}", kv, encoder.longest, n.q_width, n.heads)
    tokens = build.graph.buffer(Graph.INPUT, BufferKind.TOKENS, 1)
    x = build.floats("x", n.hidden)
    build.op(Embedding(None, "embedding", tokens, x, table, n.vocab, n.hidden))
    _keep_x(build, None)
    bias = _bias(build, encoder)
    for layer in range(encoder.layers):
        tensor = f"encoder.block.{layer}.layer.0"
        _recall_x(build, layer)
        build.norm(layer, "attention_norm", f"{tensor}.layer_norm", "x", build.floats("normed", n.hidden), n.hidden)
        _keys_and_values(build, layer, "", "normed", f"{tensor}.SelfAttention", "encoder")
        _recall_x(build, layer)
        again = f"layer {layer} / norms", "attention_norm", "x", "normed", f"layers.{layer}.attention_norm"
        build.op(RmsNorm(layer, *again, n.hidden, n.eps))  # once more: cheaper than to keep every row's
        _attend(build, layer, "", f"{tensor}.SelfAttention", "encoder", encoder.longest, encoder.reach, bias)
        _feed_forward(build, encoder, layer, 1, form)
        _keep_x(build, layer)
    _recall_x(build, None)
    normed = build.floats("normed", n.hidden)
    build.norm(None, "encoder_norm", "encoder.final_layer_norm", "x", normed, n.hidden)
    _keep_x(build, None, normed)
    for layer in range(decoder.layers):
        number = decoder.first + layer
        _recall_x(build, number)
        for slot in ("key", "value"):
            _state(build, f"layers.{number}.source_{slot}", kv, encoder.longest, n.q_width, n.heads)
        tensor = f"decoder.block.{layer}.layer.1.EncDecAttention"
        _keys_and_values(build, number, "source_", "x", tensor, f"layers.{number}")


def _state(build: Builder, name: str, kind: StateType, rows: int, width: int, pieces: int = 1) -> None:
    build.graph.states[name] = State(name, kind, rows, width, pieces)


def _keep_x(build: Builder, layer: int | None, x: str = "x") -> None:
    build.op(Keep(layer, "encoder", "x_state", x, "encoder.x", build.numbers.hidden, StateType.F32))


def _recall_x(build: Builder, layer: int | None) -> None:
    build.op(Recall(layer, "encoder", "x_state", "x", "encoder.x", build.numbers.hidden))


# ---- the decoder ----


def _decode(build: Builder, decoder: _Stack, source: int, table: str, form: Mixture) -> None:
    n, kv = build.numbers, build.options.kv
    build.op(Embedding(None, "embedding", Graph.INPUT, "x", table, n.vocab, n.hidden))
    bias = _bias(build, decoder)
    for layer in range(decoder.layers):
        number, tensor = decoder.first + layer, f"decoder.block.{layer}.layer"
        for slot in ("key", "value"):
            _state(build, f"layers.{number}.{slot}", kv, decoder.longest, n.q_width, n.heads)
        build.norm(number, "attention_norm", f"{tensor}.0.layer_norm", "x", "normed", n.hidden)
        own = f"layers.{number}"
        _keys_and_values(build, number, "", "normed", f"{tensor}.0.SelfAttention", own)
        _attend(build, number, "", f"{tensor}.0.SelfAttention", own, decoder.longest, decoder.reach, bias)
        build.norm(number, "source_norm", f"{tensor}.1.layer_norm", "x", "normed", n.hidden)
        _attend(build, number, "source_", f"{tensor}.1.EncDecAttention", f"{own}.source", source, Reach.SOURCE, "")
        _feed_forward(build, decoder, layer, 2, form)
    _head(build)


def _head(build: Builder) -> None:
    n = build.numbers
    last, normed = build.floats("last", n.hidden, 1), build.floats("last_normed", n.hidden, 1)
    build.op(LastRow(None, "head", "x", last, n.hidden))
    build.norm(None, "final_norm", "decoder.final_layer_norm", last, normed, n.hidden)
    logits = build.floats(Graph.OUTPUT, n.vocab)
    if n.tied:
        multiply(build, "final_norm", float(n.hidden**-0.5))
    weight = build.head_weight()
    build.op(Linear(None, "head", "head", normed, logits, weight, n.vocab, n.hidden, role=TensorClass.HEAD))


# ---- what both have ----


def _keys_and_values(build: Builder, layer: int, kind: str, x: str, tensor: str, states: str) -> None:
    """Project x and keep the results in the states ``STATES.[KIND]key`` and ``value``."""
    n, kv = build.numbers, build.options.kv
    for slot, state in (("k", "key"), ("v", "value")):
        out = _linear(build, layer, f"{kind}{slot}", x, slot, n.q_width, n.hidden, f"{tensor}.{slot}")
        name = f"{states}.{kind}{state}"
        part = f"layer {layer} / attention"
        build.op(Keep(layer, part, f"{kind}{state}_state", out, name, n.q_width, kv, n.heads))


def _attend(
    build: Builder, layer: int, kind: str, tensor: str, states: str, capacity: int, reach: Reach, bias: str
) -> None:
    """Queries of ``normed``, attention, and the residual."""
    n = build.numbers
    join = "_" if kind else "."
    q = _linear(build, layer, f"{kind}q", "normed", "q", n.q_width, n.hidden, f"{tensor}.q")
    out = build.floats("attended", n.q_width)
    where = f"{states}{join}key", f"{states}{join}value", n.heads, n.head_dim, capacity
    build.op(StateAttention(layer, "tables", q, out, *where, 1.0, build.options.kv, reach, bias))
    _linear(build, layer, f"{kind}o", out, "projected", n.hidden, n.q_width, f"{tensor}.o")
    build.op(Add(layer, f"layer {layer} / attention", "x", "projected", n.hidden))


def _linear(build: Builder, layer: int, slot: str, x: str, out: str, n: int, k: int, tensor: str) -> str:
    weight = build.matrix(f"layers.{layer}.{slot}", tensor, n, k, "d_model, num_heads × d_kv")
    part, role = f"layer {layer} / attention", TensorClass.ATTENTION
    build.op(Linear(layer, part, slot, x, build.floats(out, n), weight, n, k, role=role))
    return out


def _feed_forward(build: Builder, stack: _Stack, layer: int, place: int, form: Mixture) -> None:
    """Norm, experts or a dense MLP, and the residual."""
    n, number, tensor = build.numbers, stack.first + layer, f"{stack.name}.block.{layer}.layer.{place}"
    build.norm(number, "expert_norm", f"{tensor}.layer_norm", "x", "normed", n.hidden)
    if stack.sparse(layer):
        has_bias = build.checkpoint.config.boolean("router_bias", default=False)
        router(build, number, "normed", form, f"{tensor}.mlp.router.classifier", bias=has_bias)
        add_mixed(build, number, mixture(build, number, "normed", form, _experts(build, number, tensor, form)))
        return
    part, inner = f"layer {number} / mlp", build.floats("mlp_up", form.intermediate)
    up = build.matrix(f"layers.{number}.mlp.up", f"{tensor}.mlp.wi", form.intermediate, n.hidden, form.why)
    build.op(Linear(number, part, "mlp_up", "normed", inner, up, form.intermediate, n.hidden))
    build.op(Activation(number, part, inner, form.intermediate, n.activation))
    down = build.matrix(f"layers.{number}.mlp.down", f"{tensor}.mlp.wo", n.hidden, form.intermediate, form.why)
    out = build.floats("mlp_out", n.hidden)
    build.op(Linear(number, part, "mlp_down", inner, out, down, n.hidden, form.intermediate))
    build.op(Add(number, part, "x", out, n.hidden))


def _experts(build: Builder, layer: int, tensor: str, form: Mixture) -> list[ExpertWeights]:
    kept, hidden = [], build.numbers.hidden
    for expert in range(form.experts):
        prefix, name = f"{tensor}.mlp.experts.expert_{expert}", f"layers.{layer}.experts.{expert}"
        up = build.matrix(f"{name}.up", f"{prefix}.wi", form.intermediate, hidden, form.why)
        down = build.matrix(f"{name}.down", f"{prefix}.wo", hidden, form.intermediate, form.why)
        kept.append(ExpertWeights(expert, None, up, down))
    return kept


def _bias(build: Builder, stack: _Stack) -> str:
    """The bias of each head and distance, out of the buckets in which the checkpoint has it."""
    n, config = build.numbers, build.checkpoint.config
    buckets = config.integer("relative_attention_num_buckets", minimum=4, maximum=1 << 16, default=32)
    farthest = config.integer("relative_attention_max_distance", minimum=1, maximum=_FAR, default=128)
    tensor = f"{stack.name}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
    values = build.checkpoint.take(tensor, (buckets, n.heads), "relative_attention_num_buckets × num_heads")
    both = stack.reach is Reach.SOURCE
    kinds = buckets // 2 if both else buckets
    if farthest <= kinds // 2:
        raise config.error("relative_attention_max_distance", f"{farthest} is within the {kinds // 2} exact distances")
    distance = np.arange(1 - stack.longest, stack.longest if both else 1)
    name = f"{stack.name}_distance_bias"
    table: Float = np.ascontiguousarray(values[_bucket(distance, buckets, farthest, both=both)].T)
    build.graph.weights[name] = Vector(table, derived=True)
    return name


def _bucket(distance: Int | np.ndarray, buckets: int, farthest: int, *, both: bool) -> np.ndarray:
    """Bucket of each distance key - query: exact ones, then wider and wider; its logarithms are those of fp32."""
    if both:
        buckets //= 2
    first = np.where(distance > 0, buckets, 0) if both else 0
    apart = np.abs(distance)
    exact = buckets // 2
    with np.errstate(divide="ignore"):
        wide = np.log(apart.astype(np.float32) / np.float32(exact)) / np.float32(math.log(farthest / exact))
    large = exact + np.where(apart < exact, 0, wide * np.float32(buckets - exact)).astype(np.int64)
    return np.asarray(first + np.where(apart < exact, apart, np.minimum(large, buckets - 1)))
