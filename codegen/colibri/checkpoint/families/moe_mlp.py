"""Sensor models: an MLP around one mixture of experts. The form is documented in docs/sensor-models.md.

    z = activation(inp x);  y = out(z + moe(norm z));  expert = fc2(activation(fc1 z))

The norm and an expert that always runs are optional.

The first and the last layer stay fp32 in every scheme: they are a few hundred weights, and in 8 bits they cost more
accuracy than all experts together.
"""

from __future__ import annotations

from colibri.checkpoint.checkpoint import Checkpoint
from colibri.checkpoint.families import ImportOptions
from colibri.checkpoint.lazy import dense_matrix
from colibri.errors import UsageError
from colibri.graph.float32 import ACTIVATIONS
from colibri.graph.graph import BufferKind, Graph, ModelKind, TensorClass
from colibri.graph.ops import Activation, Add, Experts, LayerNorm, Linear, Router
from colibri.graph.ops.experts import ExpertWeights
from colibri.graph.weights import Vector

REQUIRED_KEYS = ("input_dim", "model_dim", "expert_hidden", "num_experts", "top_k", "output_dim")


def load(checkpoint: Checkpoint, options: ImportOptions) -> Graph:
    """Make the graph of a sensor model.

    Raises:
        BadInput: config or tensors are not of this form; the message names the key or the tensor.
        UsageError: a context is asked for.
    """
    config = checkpoint.config
    inputs = config.integer("input_dim", minimum=1)
    width = config.integer("model_dim", minimum=1)
    hidden = config.integer("expert_hidden", minimum=1)
    experts = config.integer("num_experts", minimum=1, maximum=4096)
    top_k = config.integer("top_k", minimum=1)
    outputs = config.integer("output_dim", minimum=1)
    renormalise = config.boolean("norm_topk_prob", default=False)
    shared = config.optional_integer("shared_expert_hidden", minimum=1)
    task = config.text("task", choices=("classification", "regression"), default="regression")
    activation = config.text("activation", choices=sorted(ACTIVATIONS), default="relu")
    if top_k > experts:
        raise config.error("top_k", f"is {top_k}, but there are {experts} experts")
    if options.context is not None:
        raise UsageError("is for token models; a sensor model has no context", where="--context", hint="leave it out")

    graph = Graph(
        family="moe_mlp",
        kind=ModelKind.SAMPLES,
        input_width=inputs,
        output_width=outputs,
        context=0,
        routing=f"softmax over all experts, top {top_k}, chosen weights "
        + ("divided by their sum" if renormalise else "as they are")
        + ("; a shared expert is added last" if shared else ""),
        classifies=task == "classification",
    )
    for key in ("inputs", "outputs"):
        if config.has(key):
            labels = config.texts(key)
            expected = inputs if key == "inputs" else outputs
            if len(labels) != expected:
                raise config.error(key, f"names {len(labels)}, but there are {expected}")
            graph.labels[key] = labels

    def matrix(name: str, tensor: str, n: int, k: int, why: str) -> str:
        weight = checkpoint.claim(f"{tensor}.weight", (n, k), why)
        graph.weights[name] = dense_matrix(weight, checkpoint.claim(f"{tensor}.bias", (n,), why))
        return name

    graph.buffer(Graph.INPUT, BufferKind.FLOAT, inputs)
    z = graph.buffer("z", BufferKind.FLOAT, width)
    first = matrix("inp", "inp", width, inputs, "model_dim and input_dim")
    graph.ops.append(
        Linear(None, "input layer", "inp", Graph.INPUT, z, first, width, inputs, bias=True, keep_float=True)
    )
    graph.ops.append(Activation(None, "input layer", z, width, activation))

    normed = z
    if config.boolean("layer_norm", default=False):
        normed = graph.buffer("normed", BufferKind.FLOAT, width)
        names = "layers.0.norm", "layers.0.norm_bias"
        for name, tensor in zip(names, ("moe.norm.weight", "moe.norm.bias"), strict=True):
            graph.weights[name] = Vector(checkpoint.take(tensor, (width,), "model_dim"))
        eps = config.number("layer_norm_eps", minimum=0.0, maximum=1.0, default=1e-5)
        graph.ops.append(LayerNorm(0, "layer 0 / norms", "norm", z, normed, *names, width, eps))
    router = matrix("layers.0.router", "moe.gate", experts, width, "num_experts and model_dim")
    route = graph.buffer("route", BufferKind.ROUTE, top_k)
    graph.ops.append(
        Router(0, "layer 0 / router", normed, route, router, experts, width, top_k, renormalise, bias=True)
    )
    kept = tuple(
        ExpertWeights(
            expert,
            None,
            matrix(f"layers.0.experts.{expert}.up", f"moe.experts.{expert}.fc1", hidden, width, "expert_hidden"),
            matrix(f"layers.0.experts.{expert}.down", f"moe.experts.{expert}.fc2", width, hidden, "expert_hidden"),
        )
        for expert in range(experts)
    )
    mixed = graph.buffer("mixed", BufferKind.FLOAT, width)
    graph.ops.append(Experts(0, "layer 0", normed, route, mixed, kept, top_k, width, hidden, activation, bias=True))
    if shared:
        part, inner = "layer 0 / shared", graph.buffer("shared_up", BufferKind.FLOAT, shared)
        up = matrix("layers.0.shared.up", "moe.shared.fc1", shared, width, "shared_expert_hidden")
        role = TensorClass.SHARED
        graph.ops.append(Linear(0, part, "shared_up", normed, inner, up, shared, width, bias=True, role=role))
        graph.ops.append(Activation(0, part, inner, shared, activation))
        down = matrix("layers.0.shared.down", "moe.shared.fc2", width, shared, "shared_expert_hidden")
        always = graph.buffer("shared_out", BufferKind.FLOAT, width)
        graph.ops.append(Linear(0, part, "shared_down", inner, always, down, width, shared, bias=True, role=role))
        graph.ops.append(Add(0, part, mixed, always, width))
    graph.ops.append(Add(0, "layer 0", z, mixed, width))

    output = graph.buffer(Graph.OUTPUT, BufferKind.FLOAT, outputs)
    last = matrix("out", "out", outputs, width, "output_dim and model_dim")
    shape = output, last, outputs, width
    role = TensorClass.HEAD
    graph.ops.append(Linear(None, "output layer", "out", z, *shape, bias=True, keep_float=True, role=role))
    return graph
