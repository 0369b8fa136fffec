"""What decoder-only models have in common: numbers of the config, attention, norms and the head as ops.

An importer reads what is its own, then calls a `Builder` layer by layer; the parts of the MLP are in `feed_forward.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colibri.checkpoint.checkpoint import Checkpoint
from colibri.checkpoint.config import Config, read_rope
from colibri.checkpoint.families import ImportOptions
from colibri.checkpoint.families.rotary import Rotary, rotary
from colibri.checkpoint.lazy import Lazy, dense_matrix
from colibri.errors import BadInput, UsageError
from colibri.graph.float32 import Float
from colibri.graph.graph import BufferKind, Graph, ModelKind, Op, State, TensorClass
from colibri.graph.ops import Add, Attention, Clip, Embedding, LastRow, LayerNorm, Linear, PositionScale, RmsNorm, Rope
from colibri.graph.ops.rope import rope_tables
from colibri.graph.weights import Vector

ACTIVATIONS = {
    "silu": "silu",
    "swish": "silu",
    "relu": "relu",
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
}
WIDEST_HEAD = 1 << 16  # values
_MOST_LAYERS, _MOST_POSITIONS = 1 << 12, 1 << 24  # tables have a row for each
_TIED = "equal to the embedding it is tied to"


@dataclass(frozen=True)
class Numbers:
    """The keys of config.json that every decoder has.

    Attributes:
        longest: positions that the model was made for; ``context``: those of the firmware.
        activation: name in `ACTIVATIONS`.
    """

    vocab: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    eps: float
    longest: int
    context: int
    tied: bool
    activation: str

    @property
    def q_width(self) -> int:
        """Values of all query heads."""
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        """Values of all key heads."""
        return self.kv_heads * self.head_dim


def read_numbers(
    config: Config, options: ImportOptions, *, eps: float, head_dim: int | None = None, tied: bool = False
) -> Numbers:
    """Read and check them.

    Args:
        eps, head_dim, tied: what holds where the config does not say it; a head_dim of None is hidden / heads.

    Raises:
        BadInput: a key is missing, wrong, or contradicts another.
        UsageError: a longer context than the model was made for.
    """
    hidden = config.integer("hidden_size", minimum=1)
    heads = config.integer("num_attention_heads", minimum=1)
    kv_heads = config.integer("num_key_value_heads", minimum=1, default=heads)
    own = config.optional_integer("head_dim", minimum=2, maximum=WIDEST_HEAD) or head_dim
    if own is None:
        if hidden % heads:
            what = f"{hidden} is not a multiple of num_attention_heads {heads}"
            raise config.error("hidden_size", what, "set head_dim")
        own = hidden // heads
    if heads % kv_heads:
        raise config.error("num_key_value_heads", f"{kv_heads} does not divide num_attention_heads {heads}")
    if own % 2:
        raise config.error("head_dim", f"{own} is odd; rotary embedding needs pairs")
    if own > WIDEST_HEAD:
        raise config.error("hidden_size", f"makes heads of {own} values, expected at most {WIDEST_HEAD}")
    longest = config.integer("max_position_embeddings", minimum=1)
    context = options.context or longest
    if context > longest:
        what = f"{context} is more than the {longest} positions of the checkpoint (max_position_embeddings)"
        raise UsageError(what, where="--context", hint="ask for less")
    bounded_context(context, "--context")
    activation = config.text("hidden_act", default="silu")
    if activation not in ACTIVATIONS:
        raise config.error("hidden_act", f"{activation!r} is not supported", f"one of {', '.join(ACTIVATIONS)}")
    return Numbers(
        vocab=config.integer("vocab_size", minimum=1),
        hidden=hidden,
        layers=config.integer("num_hidden_layers", minimum=1, maximum=_MOST_LAYERS),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=own,
        eps=config.number("rms_norm_eps", minimum=0.0, maximum=1.0, default=eps),
        longest=longest,
        context=context,
        tied=config.boolean("tie_word_embeddings", default=tied),
        activation=ACTIVATIONS[activation],
    )


def bounded_context(positions: int, option: str) -> int:
    """The positions, if tables may have so many rows.

    Raises:
        UsageError: they may not.
    """
    if positions > _MOST_POSITIONS:
        raise UsageError(f"{positions:,} positions", where=option, hint=f"ask for at most {_MOST_POSITIONS:,}")
    return positions


@dataclass(frozen=True)
class AttentionForm:
    """How one family attends; the same in every layer but for the window.

    Attributes:
        biases: slots of ``q k v o`` that have one.
        norm: ``head`` where q and k are normalised head by head, ``width`` where all heads are as one; else empty.
        clip: bound of q, k and v, each value; 0 for none.
        scale: of the scores; 0 means 1 / sqrt(head_dim).
        window: of a layer: positions that it sees, the current one included; 0 for all.
        chunked: whether a window is a chunk: positions of the same multiple of it.
        turned: whether a layer's heads turn by position.
        pairs: whether the values that turn together are neighbours in the checkpoint.
        unit: whether turned heads are normalised behind the turn, without weights.
        temperature: of a layer that does not turn: what its queries are multiplied by, at each position; None for none.
        sinks: whether each head has a score of its own that takes a part of the softmax and gives nothing.
    """

    biases: str = ""
    norm: str = ""
    clip: float = 0.0
    scale: float = 0.0
    window: Callable[[int], int] = lambda layer: 0
    sinks: bool = False
    chunked: bool = False
    turned: Callable[[int], bool] = lambda layer: True
    pairs: bool = False
    unit: bool = False
    temperature: Float | None = None


class Builder:
    """Adds ops and weights to the graph, in the order in which they run."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        numbers: Numbers,
        options: ImportOptions,
        family: str,
        routing: str,
        *,
        layer_norms: bool = False,
    ) -> None:
        """Begin a graph.

        Args:
            routing: one sentence on how experts are chosen.
            layer_norms: whether the norms around attention and MLP subtract the mean and add a bias.
        """
        self.checkpoint = checkpoint
        self.numbers = numbers
        self.options = options
        self.layer_norms = layer_norms
        self.graph = Graph(
            family=family,
            kind=ModelKind.TOKENS,
            input_width=0,
            output_width=numbers.vocab,
            context=numbers.context,
            routing=routing,
        )

    # ---- small parts ----

    def op(self, op: Op) -> None:
        """Append an op."""
        self.graph.ops.append(op)

    def floats(self, name: str, width: int, rows: int = 0) -> str:
        """Declare a float buffer."""
        return self.graph.buffer(name, BufferKind.FLOAT, width, rows)

    def dense(self, name: str, values: Lazy, bias: Lazy | None = None) -> str:
        """Add a matrix ``[n, k]``."""
        self.graph.weights[name] = dense_matrix(values, bias)
        return name

    def matrix(self, name: str, tensor: str, n: int, k: int, why: str, *, bias: bool = False) -> str:
        """Add the matrix that the checkpoint stores as ``tensor.weight``, with ``tensor.bias`` where it has one."""
        values, biases = self.claimed(tensor, n, k, why, bias=bias)
        return self.dense(name, values, biases)

    def claimed(self, tensor: str, n: int, k: int, why: str, *, bias: bool) -> tuple[Lazy, Lazy | None]:
        """The tensors of a matrix and of its bias."""
        claim = self.checkpoint.claim
        return claim(f"{tensor}.weight", (n, k), why), claim(f"{tensor}.bias", (n,), why) if bias else None

    def norm(self, layer: int | None, slot: str, tensor: str, x: str, out: str, width: int, groups: int = 1) -> str:
        """Normalise ``x`` into ``out``, in groups of ``width`` values."""
        part = "head" if layer is None else f"layer {layer} / norms"
        name = slot if layer is None else f"layers.{layer}.{slot}"
        self.graph.weights[name] = Vector(self.checkpoint.take(f"{tensor}.weight", (width,), "width of the norm"))
        if self.layer_norms:
            bias = f"{name}_bias"
            self.graph.weights[bias] = Vector(self.checkpoint.take(f"{tensor}.bias", (width,), "width of the norm"))
            self.op(LayerNorm(layer, part, slot, x, out, name, bias, width, self.numbers.eps))
            return out
        self.op(RmsNorm(layer, part, slot, x, out, name, width, self.numbers.eps, groups))
        return out

    # ---- before, inside and behind the layers ----

    def rope(
        self, default_theta: float, *, default: Mapping[str, object] | None = None, mscales: bool = False
    ) -> Rotary:
        """Read how positions turn heads, and add the tables.

        Args:
            default: parameters where the config has no table of them.
            mscales: as `rotary` has it.

        Raises:
            BadInput, UsageError: as `rotary`.
        """
        n, config = self.numbers, self.checkpoint.config
        rope = read_rope(config, default_theta=default_theta, default=default)
        turned = rotary(config, rope, n.head_dim, n.context, n.longest, mscales=mscales)
        coarse, fine, _ = rope_tables(turned.frequencies, n.context, turned.factor)
        self.graph.weights.update(
            {"rope_coarse": Vector(coarse, derived=True), "rope_fine": Vector(fine, derived=True)}
        )
        self.checkpoint.drop("model.layers.*.self_attn.rotary_emb", "the frequencies follow from rope_theta")
        return turned

    def embedding(self, *, head_bias: bool = False) -> None:
        """The first op.

        Args:
            head_bias: whether logits have a bias; the matrix has it where it makes them, too.
        """
        n = self.numbers
        tokens = self.graph.buffer(Graph.INPUT, BufferKind.TOKENS, 1)
        values = self.checkpoint.claim("model.embed_tokens.weight", (n.vocab, n.hidden), "vocab_size")
        bias = self.checkpoint.claim("lm_head.bias", (n.vocab,), "vocab_size") if n.tied and head_bias else None
        table = self.dense("embedding", self.equal_to_head(values) if n.tied else values, bias)
        self.op(Embedding(None, "embedding", tokens, self.floats("x", n.hidden), table, n.vocab, n.hidden))

    def attention(self, layer: int, form: AttentionForm) -> None:
        """Norm, projections, positions, attention and the residual."""
        n, part, prefix = self.numbers, f"layer {layer} / attention", f"model.layers.{layer}"
        normed = self.floats("normed", n.hidden)
        self.norm(layer, "attention_norm", f"{prefix}.input_layernorm", "x", normed, n.hidden)
        for slot, width in (("q", n.q_width), ("k", n.kv_width), ("v", n.kv_width)):
            self._project(layer, slot, normed, slot, width, n.hidden, form)
        heads = {"q": self._head_norm(layer, "q", n.heads, form), "k": self._head_norm(layer, "k", n.kv_heads, form)}
        if form.clip:
            for name, width in ((heads["q"], n.q_width), (heads["k"], n.kv_width), ("v", n.kv_width)):
                self.op(Clip(layer, part, name, width, form.clip))
        if form.turned(layer):
            self._turn(layer, heads, form)
        elif form.temperature is not None:
            self.graph.weights["temperature"] = Vector(form.temperature, derived=True)
            self.op(PositionScale(layer, "tables", heads["q"], "temperature", n.q_width))
        window = form.window(layer)
        capacity = min(window, n.context) if window else n.context
        kv = self.options.kv
        states = [State(f"layers.{layer}.{kind}", kv, capacity, n.kv_width, n.kv_heads) for kind in ("key", "value")]
        self.graph.states.update({state.name: state for state in states})
        out = self.floats("attended", n.q_width)
        dims = (n.heads, n.kv_heads, n.head_dim, capacity, window if window < n.context else 0)
        scale = float(np.float32(form.scale or n.head_dim**-0.5))
        keys, values = (state.name for state in states)
        sinks = ""
        if form.sinks:
            sinks = f"layers.{layer}.sinks"
            self.graph.weights[sinks] = Vector(self.checkpoint.take(f"{prefix}.self_attn.sinks", (n.heads,), "heads"))
        inputs = heads["q"], heads["k"], "v", out, keys, values
        chunked = form.chunked and window != 0
        self.op(Attention(layer, part, *inputs, *dims, scale, kv, sinks, chunked and window < n.context))
        self._project(layer, "o", out, "projected", n.hidden, n.q_width, form)
        self.op(Add(layer, part, "x", "projected", n.hidden))

    def _turn(self, layer: int, heads: dict[str, str], form: AttentionForm) -> None:
        """Turn queries and keys by position; names in ``heads`` become those of the results."""
        n, fine = self.numbers, self.graph.weights["rope_fine"]
        assert isinstance(fine, Vector)
        step = int(fine.values.shape[0])
        for slot, count in (("q", n.heads), ("k", n.kv_heads)):
            self.op(Rope(layer, "tables", heads[slot], "rope_coarse", "rope_fine", step, count, n.head_dim))
            if form.unit:
                self.graph.weights["unit"] = Vector(np.ones(n.head_dim, np.float32), derived=True)
                out, part = self.floats(f"{slot}_unit", count * n.head_dim), "tables"
                self.op(RmsNorm(layer, part, "unit", heads[slot], out, "unit", n.head_dim, n.eps, count))
                heads[slot] = out

    def _project(self, layer: int, slot: str, x: str, out: str, n: int, k: int, form: AttentionForm) -> None:
        tensor, bias = f"model.layers.{layer}.self_attn.{slot}_proj", slot in form.biases
        why = "hidden_size" if slot == "o" else "heads and head_dim"
        values, biases = self.claimed(tensor, n, k, why, bias=bias)
        if form.pairs and slot in "qk" and form.turned(layer):
            order = self._parted(n)
            values, biases = values[order], None if biases is None else biases[order]
        weight = self.dense(f"layers.{layer}.{slot}", values, biases)
        part, role = f"layer {layer} / attention", TensorClass.ATTENTION
        self.op(Linear(layer, part, slot, x, self.floats(out, n), weight, n, k, bias, role=role))

    def _parted(self, rows: int) -> NDArray[np.intp]:
        """Order that puts pair i of each head at i and i + half; queries and keys alike, so that no score changes."""
        head = self.numbers.head_dim
        return np.arange(rows).reshape(-1, head // 2, 2).transpose(0, 2, 1).reshape(-1)

    def _head_norm(self, layer: int, slot: str, heads: int, form: AttentionForm) -> str:
        if not form.norm:
            return slot
        width = heads * self.numbers.head_dim
        group = self.numbers.head_dim if form.norm == "head" else width
        tensor, out = f"model.layers.{layer}.self_attn.{slot}_norm", self.floats(f"{slot}_normed", width)
        return self.norm(layer, f"{slot}_norm", tensor, slot, out, group, width // group)

    def head(self, *, bias: bool = False) -> None:
        """Norm and logits of the last row."""
        n = self.numbers
        last = self.floats("last", n.hidden, 1)
        self.op(LastRow(None, "head", "x", last, n.hidden))
        normed = self.floats("last_normed", n.hidden, 1)
        self.norm(None, "final_norm", "model.norm", last, normed, n.hidden)
        logits = self.floats(Graph.OUTPUT, n.vocab)
        weight = self.head_weight(bias=bias)
        role = TensorClass.HEAD
        self.op(Linear(None, "head", "head", normed, logits, weight, n.vocab, n.hidden, bias, role=role))

    def head_weight(self, *, bias: bool = False) -> str:
        """The matrix that makes logits: the embedding where they are tied, else ``lm_head``."""
        return "embedding" if self.numbers.tied else self._own_head(bias)

    def _own_head(self, bias: bool) -> str:
        if not self.checkpoint.has("lm_head.weight"):
            raise BadInput(
                "lm_head.weight is missing and tie_word_embeddings is false",
                where=self.checkpoint.where,
                hint="set tie_word_embeddings to true if the head really is the embedding",
            )
        return self.matrix("head", "lm_head", self.numbers.vocab, self.numbers.hidden, "vocab_size", bias=bias)

    def equal_to_head(self, embedding: Lazy) -> Lazy:
        """A tied head is the embedding itself; one that is stored all the same must be equal."""
        n, checkpoint = self.numbers, self.checkpoint
        if not checkpoint.has("lm_head.weight"):
            return embedding
        stored = checkpoint.claim("lm_head.weight", (n.vocab, n.hidden), "vocab_size")
        self.graph.dropped.append(f"lm_head.weight: {_TIED}")

        def check(values: Float, begin: int) -> None:
            if not np.array_equal(stored.rows(begin, begin + len(values)), values):
                raise BadInput(
                    "tie_word_embeddings is true, but a different lm_head.weight is stored",
                    where=checkpoint.where,
                    hint="set tie_word_embeddings to false to use it, or remove it",
                )

        return embedding.checked(check)
