"""Dense decoders (`model_type` llama, mistral, qwen2, qwen3): one MLP in each layer, which every token takes.

Source: transformers 5.24, `models/{llama,mistral,qwen2,qwen3}/`. They differ in biases, in norms of the heads, and in
which layers see a window only.
"""

from __future__ import annotations

from colibri.checkpoint.checkpoint import Checkpoint
from colibri.checkpoint.families import ImportOptions
from colibri.checkpoint.families.decoder import AttentionForm, Builder, read_numbers
from colibri.checkpoint.families.feed_forward import dense_layer
from colibri.checkpoint.families.names import Names
from colibri.checkpoint.families.windows import one_window, upper_windows
from colibri.graph.graph import Graph

_NAMES = Names(r"self_attn\.[qkvo]_proj\.bias|self_attn\.[qk]_norm\.weight|mlp\.(?:gate|up|down)_proj\.(?:weight|bias)")
_ROUTING = "one dense MLP a layer, no router"


def load_llama(checkpoint: Checkpoint, options: ImportOptions) -> Graph:
    """Make the graph of a Llama checkpoint.

    Raises:
        BadInput, UsageError: as `load_mistral`.
    """
    config = checkpoint.config
    biases = "qkvo" if config.boolean("attention_bias", default=False) else ""
    return _load(checkpoint, options, AttentionForm(biases), mlp_bias=config.boolean("mlp_bias", default=False))


def load_mistral(checkpoint: Checkpoint, options: ImportOptions) -> Graph:
    """Make the graph of a Mistral checkpoint.

    Raises:
        BadInput: config or tensors are not of this family; the message names the key or the tensor.
        UsageError: a context that the model was not made for.
    """
    return _load(checkpoint, options, AttentionForm(window=one_window(checkpoint.config, absent=4096)))


def load_qwen2(checkpoint: Checkpoint, options: ImportOptions) -> Graph:
    """Make the graph of a dense Qwen2 checkpoint: q, k and v have biases.

    Raises:
        BadInput, UsageError: as `load_mistral`.
    """
    return _load(checkpoint, options, AttentionForm("qkv", window=upper_windows(checkpoint.config)), eps=1e-6)


def load_qwen3(checkpoint: Checkpoint, options: ImportOptions) -> Graph:
    """Make the graph of a dense Qwen3 checkpoint: q and k are normalised head by head.

    Raises:
        BadInput, UsageError: as `load_mistral`.
    """
    config = checkpoint.config
    biases = "qkvo" if config.boolean("attention_bias", default=False) else ""
    form = AttentionForm(biases, "head", window=upper_windows(config))
    return _load(checkpoint, options, form, eps=1e-6, head_dim=128)


def _load(
    checkpoint: Checkpoint,
    options: ImportOptions,
    form: AttentionForm,
    *,
    eps: float = 1e-6,
    head_dim: int | None = None,
    mlp_bias: bool = False,
) -> Graph:
    config = checkpoint.config
    numbers = read_numbers(config, options, eps=eps, head_dim=head_dim)
    inner = config.integer("intermediate_size", minimum=1)
    build = Builder(checkpoint, numbers, options, config.text("model_type"), _ROUTING)
    build.rope(default_theta=1e4)
    _NAMES.check(checkpoint, numbers.layers)
    build.embedding()
    for layer in range(numbers.layers):
        build.attention(layer, form)
        dense_layer(build, layer, inner, bias=mlp_bias)
    build.head()
    return build.graph
