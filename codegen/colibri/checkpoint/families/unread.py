"""Keys that change what a model answers, in a config whose importer does not read them: it is another model then.

Transformers ignores a key that the class of a model type does not have. But a person who writes one means it, and code
of one's own beside a checkpoint may read it. Source of the names: the configuration classes of transformers 5.24. What
comes with tensors of its own is not here: no tensor is left over in silence.
"""

from __future__ import annotations

import json

from colibri.checkpoint.config import Config
from colibri.errors import BadInput, shown
from colibri.graph.graph import Graph

# What each means where it changes nothing; null never does.
_NEUTRAL: dict[str, tuple[object, ...]] = {
    "alibi": (False,),
    "attention_chunk_size": (),
    "attention_multiplier": (),
    "attn_logit_softcapping": (),
    "attn_temperature_tuning": (False, 0),
    "clip_qkv": (),
    "embedding_multiplier": (1,),
    "final_logit_softcapping": (),
    "llama_4_scaling_beta": (),
    "logit_scale": (1,),
    "logits_scaling": (1,),
    "parallel_attn": (False,),
    "position_embedding_type": ("rope", "rotary"),
    "qk_layer_norms": (False,),
    "qk_layernorm": (False,),
    "qk_norm": (False,),
    "query_pre_attn_scalar": (),
    "residual_multiplier": (1,),
    "rope_interleave": (False,),
    "rope_interleaved": (False,),
    "rotary_pct": (1,),
    "routed_scaling_factor": (1,),
    "scale_depth": (),
    "scale_emb": (1,),
    "scoring_func": ("softmax",),
    "swiglu_limit": (),
    "use_parallel_residual": (False,),
    "use_qk_norm": (False,),
}
_NORMS = ("qk_layer_norms", "qk_layernorm", "qk_norm", "use_qk_norm")
_TABLES = ("rope_parameters", "rope_scaling")
_KINDS = ("full_attention", "sliding_attention")


def refuse_unread(config: Config, graph: Graph) -> None:
    """Look for them, once the graph is made.

    Raises:
        BadInput: there is one, with a value that means something.
    """
    tables = [config, *(table for name in _TABLES if (table := config.optional_section(name)) is not None)]
    for table in tables:
        for key in table.unread():
            if key in _NEUTRAL and table.table[key] not in _NEUTRAL[key] and not _stored(key, graph):
                raise _of_another(table, key, graph)
    kinds = () if "layer_types" not in config.unread() else config.texts("layer_types")
    if len(set(kinds)) > 1 or set(kinds) - {*_KINDS}:
        raise _of_another(config, "layer_types", graph)


def _stored(key: str, graph: Graph) -> bool:
    """Whether the checkpoint's tensors say the same as the key."""
    return key in _NORMS and any(name.endswith(".q_norm") for name in graph.weights)


def _of_another(table: Config, key: str, graph: Graph) -> BadInput:
    value = table.table[key]
    what = "is set" if isinstance(value, (list, dict)) else f"is {shown(json.dumps(value))}"
    hint = "remove the key if the model was made without it"
    return table.error(key, f"{what}, which has no meaning for model type {graph.family}", hint)
