"""The second half of a decoder's layer as ops: router and experts, experts that always run, or one dense MLP."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from colibri.checkpoint.config import Config
from colibri.checkpoint.families.decoder import Builder
from colibri.errors import BadInput
from colibri.graph.float32 import Float
from colibri.graph.graph import BufferKind, TensorClass
from colibri.graph.ops import Add, AddWeighted, Experts, Gated, GroupedRouter, Linear, Router
from colibri.graph.ops.experts import ExpertWeights
from colibri.graph.weights import Matrix, StoredMatrix, Vector

GATE_UP_DOWN = ("gate_proj", "up_proj", "down_proj")


@dataclass(frozen=True)
class Grouping:
    """Experts in groups of equal size, of which only some are open to the choice.

    Attributes:
        score: of an expert: ``softmax`` over all, or ``sigmoid``.
        kept: groups that are open.
        best: scores that are summed to a group's own: its 1 or 2 largest.
        correction: tensor, beside the router's matrix, that is added to scores for the choice alone; empty for none.
    """

    score: str
    groups: int
    kept: int
    best: int
    correction: str = ""


@dataclass(frozen=True)
class Mixture:
    """Routed experts of a layer.

    Attributes:
        intermediate: hidden width of an expert.
        renormalise: whether the chosen weights are divided by their sum.
        why: keys of the config behind the experts' shapes.
        scale: of the chosen weights, taken into the experts' matrices.
        grouping: None where all experts are open.
    """

    experts: int
    top_k: int
    intermediate: int
    renormalise: bool
    why: str = "intermediate_size"
    scale: float = 1.0
    grouping: Grouping | None = None

    @property
    def routing(self) -> str:
        """For the user."""
        after = "divided by their sum" if self.renormalise else "as they are"
        if self.scale != 1.0:
            after += f", times {self.scale:g}"
        if self.grouping is None:
            return f"softmax over all experts, top {self.top_k}, chosen weights {after}"
        g = self.grouping
        score = "softmax over all experts" if g.score == "softmax" else "sigmoid of each expert"
        plus = " plus a correction for the choice" if g.correction else ""
        groups = f"the {g.kept} best of {g.groups} groups" if g.groups > 1 else "all experts"
        return f"{score}{plus}, top {self.top_k} within {groups}, chosen weights {after}"


def read_mixture(
    config: Config, *, experts: str, width: str, renormalise: bool, top_k: int | None = None, most: int | None = None
) -> Mixture:
    """Read the counts.

    Args:
        experts, width: keys of the number of experts and of their hidden width.
        top_k, most: numbers of chosen and of all experts where the config does not say them.

    Raises:
        BadInput: a key is missing or wrong, or more experts are to be chosen than there are.
    """
    count = config.integer(experts, minimum=1, maximum=4096, default=most)
    chosen = config.integer("num_experts_per_tok", minimum=1, default=top_k)
    if chosen > count:
        raise config.error("num_experts_per_tok", f"is {chosen}, but there are {count} experts")
    return Mixture(count, chosen, config.integer(width, minimum=1), renormalise, width.split("|")[0])


def feed_forward_norm(build: Builder, layer: int) -> str:
    """The norm before the MLP; returns its buffer."""
    width = build.numbers.hidden
    tensor = f"model.layers.{layer}.post_attention_layernorm"
    return build.norm(layer, "expert_norm", tensor, "x", build.floats("normed", width), width)


def router(build: Builder, layer: int, normed: str, form: Mixture, tensor: str, *, bias: bool = False) -> None:
    """Choose the experts.

    Args:
        tensor: of the router's matrix, without ``.weight``.
    """
    n = build.numbers
    weight = build.matrix(f"layers.{layer}.router", tensor, form.experts, n.hidden, "number of experts", bias=bias)
    route = build.graph.buffer("route", BufferKind.ROUTE, form.top_k)
    shape = form.experts, n.hidden, form.top_k
    build.op(Router(layer, f"layer {layer} / router", normed, route, weight, *shape, form.renormalise, bias))


def grouped_router(build: Builder, layer: int, normed: str, form: Mixture, tensor: str) -> None:
    """Choose the experts within the best groups.

    Args:
        tensor: of the router's matrix, without ``.weight``; the correction lies beside it.
    """
    n, g = build.numbers, form.grouping
    assert g is not None
    name = f"layers.{layer}.router"
    weight = build.matrix(name, tensor, form.experts, n.hidden, "number of experts")
    correction = ""
    if g.correction:
        values = build.checkpoint.take(f"{tensor}.{g.correction}", (form.experts,), "number of experts")
        correction = f"{name}_correction"
        build.graph.weights[correction] = Vector(values)
    route = build.graph.buffer("route", BufferKind.ROUTE, form.top_k)
    sizes = (form.experts // g.groups,) * g.groups
    shape = n.hidden, form.top_k, form.renormalise, g.score, sizes, g.kept, g.best
    build.op(GroupedRouter(layer, f"layer {layer} / router", normed, route, weight, correction, *shape))


def multiply(build: Builder, name: str, factor: float) -> None:
    """A weight, bias included, times a factor.

    Raises:
        BadInput: a product is beyond fp32.
    """
    weight = build.graph.weights[name]
    if factor == 1.0:
        return

    def times(values: Float) -> Float:
        with np.errstate(over="ignore", invalid="ignore"):
            products = values * np.float32(factor)
        if not np.isfinite(products).all():
            what = f"the factors make {name} {factor:g} times as large, which is beyond fp32"
            raise BadInput(what, where=build.checkpoint.config.where)
        return products

    def all_times(rows: Matrix) -> Matrix:
        assert rows.dense is not None
        return replace(rows, dense=times(rows.dense), bias=None if rows.bias is None else times(rows.bias))

    if isinstance(weight, Vector):
        build.graph.weights[name] = replace(weight, values=times(weight.values))
    else:
        assert isinstance(weight, StoredMatrix)
        build.graph.weights[name] = weight.then(all_times)


def mixture(
    build: Builder,
    layer: int,
    normed: str,
    form: Mixture,
    kept: Sequence[ExpertWeights],
    *,
    bias: bool = False,
    clipped: tuple[float, float] | None = None,
    weigh_input: bool = False,
) -> str:
    """Run the chosen experts; returns the buffer with their sum, which is not added to x yet.

    Args:
        kept: of `listed_experts` or `fused_experts`.
        bias: whether every matrix has one.
        clipped, weigh_input: as `Experts` has them.
    """
    n = build.numbers
    out, inner = build.floats("mixed", n.hidden), (form.top_k, n.hidden, form.intermediate)
    op = Experts(layer, f"layer {layer}", normed, "route", out, tuple(kept), *inner, n.activation, bias)
    build.op(replace(op, clipped=clipped, weigh_input=weigh_input))
    return out


def add_mixed(build: Builder, layer: int, mixed: str) -> None:
    """The residual."""
    build.op(Add(layer, f"layer {layer}", "x", mixed, build.numbers.hidden))


def listed_experts(
    build: Builder, layer: int, form: Mixture, prefix: str, names: tuple[str, str, str] = GATE_UP_DOWN
) -> list[ExpertWeights]:
    """Experts with a tensor for each matrix: ``PREFIX.NUMBER.NAME.weight``, names of gate, up and down."""
    shapes = _shapes(build, form)
    kept = []
    for expert in range(form.experts):
        made = {
            slot: build.matrix(f"layers.{layer}.experts.{expert}.{slot}", f"{prefix}.{expert}.{name}", n, k, form.why)
            for (slot, (n, k)), name in zip(shapes.items(), names, strict=True)
        }
        kept.append(ExpertWeights(expert, **made))
    return kept


def fused_experts(build: Builder, layer: int, form: Mixture, gate_up: str, down: str) -> list[ExpertWeights]:
    """All experts in two tensors: ``[experts, 2 * intermediate, hidden]``, gate rows first, and down's."""
    inner, hidden = form.intermediate, build.numbers.hidden
    both = build.checkpoint.claim(gate_up, (form.experts, 2 * inner, hidden), form.why)
    last = build.checkpoint.claim(down, (form.experts, hidden, inner), form.why)
    kept = []
    for expert in range(form.experts):
        parts = {"gate": both[expert, :inner], "up": both[expert, inner:], "down": last[expert]}
        made = {slot: build.dense(f"layers.{layer}.experts.{expert}.{slot}", values) for slot, values in parts.items()}
        kept.append(ExpertWeights(expert, **made))
    return kept


def stored_experts(build: Builder, layer: int, form: Mixture, prefix: str) -> list[ExpertWeights]:
    """Experts in whichever of the two forms that transformers writes: ``PREFIX.gate_up_proj``, or one by one."""
    if build.checkpoint.has(f"{prefix}.gate_up_proj"):
        return fused_experts(build, layer, form, f"{prefix}.gate_up_proj", f"{prefix}.down_proj")
    return listed_experts(build, layer, form, prefix)


def _shapes(build: Builder, form: Mixture) -> dict[str, tuple[int, int]]:
    inner, hidden = form.intermediate, build.numbers.hidden
    return {"gate": (inner, hidden), "up": (inner, hidden), "down": (hidden, inner)}


def gated_mlp(
    build: Builder,
    layer: int,
    x: str,
    tensor: str,
    inner: int,
    *,
    kind: str = "mlp",
    bias: bool = False,
    why: str = "intermediate_size",
) -> str:
    """``down(activation(gate x) * up x)`` for every row; returns the buffer, which is not added to x yet.

    Args:
        tensor: before ``.gate_proj.weight`` and the others.
        kind: ``mlp`` or ``shared``, for names.
    """
    n, part = build.numbers, f"layer {layer} / {kind}"
    role = TensorClass.SHARED if kind == "shared" else TensorClass.DENSE
    hidden = {slot: build.floats(f"{kind}_{slot}", inner) for slot in ("gate", "up")}
    for slot, out in hidden.items():
        weight = build.matrix(f"layers.{layer}.{kind}.{slot}", f"{tensor}.{slot}_proj", inner, n.hidden, why, bias=bias)
        build.op(Linear(layer, part, f"{kind}_{slot}", x, out, weight, inner, n.hidden, bias, role=role))
    build.op(Gated(layer, part, hidden["up"], hidden["gate"], inner, n.activation))
    weight = build.matrix(f"layers.{layer}.{kind}.down", f"{tensor}.down_proj", n.hidden, inner, why, bias=bias)
    out = build.floats(f"{kind}_out", n.hidden)
    build.op(Linear(layer, part, f"{kind}_down", hidden["up"], out, weight, n.hidden, inner, bias, role=role))
    return out


def dense_layer(build: Builder, layer: int, inner: int, *, bias: bool = False, name: str = "mlp") -> None:
    """Norm, a dense MLP and the residual.

    Args:
        name: of the MLP among the layer's tensors.
    """
    normed = feed_forward_norm(build, layer)
    out = gated_mlp(build, layer, normed, f"model.layers.{layer}.{name}", inner, bias=bias)
    build.op(Add(layer, f"layer {layer} / mlp", "x", out, build.numbers.hidden))


def add_shared(
    build: Builder,
    layer: int,
    normed: str,
    mixed: str,
    tensor: str,
    inner: int,
    gate: str = "",
    *,
    bias: bool = False,
) -> None:
    """Add an expert that always runs to the sum of the others, last.

    Args:
        gate: tensor of its gate, without ``.weight``: its output is multiplied by the sigmoid of ``gate(x)``.
    """
    n, part = build.numbers, f"layer {layer} / shared"
    why = "shared_expert_intermediate_size"
    shared = gated_mlp(build, layer, normed, tensor, inner, kind="shared", bias=bias, why=why)
    if not gate:
        build.op(Add(layer, part, mixed, shared, n.hidden))
        return
    weight = build.matrix(f"layers.{layer}.shared.scale", gate, 1, n.hidden, "hidden_size")
    score = build.floats("shared_score", 1)
    shape = score, weight, 1, n.hidden
    build.op(Linear(layer, part, "shared_scale", normed, *shape, keep_float=True, role=TensorClass.ROUTER))
    build.op(AddWeighted(layer, part, mixed, shared, score, n.hidden))
