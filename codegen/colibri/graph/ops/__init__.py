"""One file an op: its buffers and weights, its numpy reference and its C call.

The portable C kernel of the same stem is in `runtime_c/kernels/portable/`.
"""

from colibri.graph.ops.activation import Activation
from colibri.graph.ops.add import Add
from colibri.graph.ops.add_weighted import AddWeighted
from colibri.graph.ops.attention import Attention
from colibri.graph.ops.clip import Clip
from colibri.graph.ops.embedding import Embedding
from colibri.graph.ops.experts import Experts
from colibri.graph.ops.gated import Gated
from colibri.graph.ops.grouped_router import GroupedRouter
from colibri.graph.ops.head_linear import HeadLinear
from colibri.graph.ops.keep import Keep
from colibri.graph.ops.last_row import LastRow
from colibri.graph.ops.latent_attention import LatentAttention
from colibri.graph.ops.layer_norm import LayerNorm
from colibri.graph.ops.linear import Linear
from colibri.graph.ops.position_scale import PositionScale
from colibri.graph.ops.quantise import Quantise
from colibri.graph.ops.quantised_norm import QuantisedNorm
from colibri.graph.ops.recall import Recall
from colibri.graph.ops.rms_norm import RmsNorm
from colibri.graph.ops.rope import Rope
from colibri.graph.ops.router import Router
from colibri.graph.ops.sparse_mixer import SparseMixer
from colibri.graph.ops.state_attention import StateAttention

__all__ = [
    "Activation",
    "Add",
    "AddWeighted",
    "Attention",
    "Clip",
    "Embedding",
    "Experts",
    "Gated",
    "GroupedRouter",
    "HeadLinear",
    "Keep",
    "LastRow",
    "LatentAttention",
    "LayerNorm",
    "Linear",
    "PositionScale",
    "Quantise",
    "QuantisedNorm",
    "Recall",
    "RmsNorm",
    "Rope",
    "Router",
    "SparseMixer",
    "StateAttention",
]
