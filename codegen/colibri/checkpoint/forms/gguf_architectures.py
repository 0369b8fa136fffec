"""What the architectures of GGUF files are called in Hugging Face's words: one table each, and no code.

Keys and tensors: `gguf-py/gguf/constants.py` and `tensor_mapping.py` of llama.cpp, and its `conversion/` scripts for
what they leave out; `src/models/*.cpp` there for what a missing key means. A name of a config key or of a tensor is the
one that the importer in `families/` asks for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum


class Made(Enum):
    """How a tensor is made of those of the file."""

    SAME = "as it is"
    QUERIES = "rows that turn together are neighbours in the file, for each query head"
    KEYS = "the same for each key head"
    ROW = "a matrix of one row"
    EACH = "a tensor for each expert"
    STACKED = "the rows of two matrices, one below the other, for each expert"
    TURNED = "matrices of each expert, one below the other, then rows and columns exchanged"
    WOVEN = "entries of two alternating, for each expert"
    WOVEN_TURNED = "rows of two alternating, then rows and columns exchanged, for each expert"
    KEYS_AND_VALUES = "rows that make keys (exchanged in the file) and values, for each head"


@dataclass(frozen=True)
class Rule:
    """A tensor.

    Attributes:
        target: its name in Hugging Face's words; ``{expert}`` stands for a number.
        made: how.
        sources: names in the file.
        blocks: whether the family takes it in MXFP4 blocks too, not turned, where the layer's experts all are.
    """

    target: str
    made: Made
    sources: tuple[str, ...]
    blocks: bool = False


@dataclass(frozen=True)
class Architecture:
    """One meaning of ``general.architecture``.

    Attributes:
        model_type: of the family.
        keys: keys of the file, without the architecture's name, and what the config calls them.
        apart: further keys, which mean something together with others.
        fixed: what the config says where the file has no key for it.
        special: what it says besides, where a key of the file has a certain value.
        biases: tensors of the first layer (or outside) whose presence the config tells, and its keys.
        sparse: key of the config for the list of layers that have a router; empty for none.
        layer: rules for names behind ``blk.N.`` and ``model.layers.N.``.
        around: the same for tensors outside the layers.
        truncated: whether yarn's bounds are whole numbers.
    """

    model_type: str
    keys: Mapping[str, str] = field(default_factory=dict)
    apart: frozenset[str] = frozenset()
    fixed: Mapping[str, object] = field(default_factory=dict)
    special: Mapping[tuple[str, object], Mapping[str, object]] = field(default_factory=dict)
    biases: Mapping[str, str] = field(default_factory=dict)
    sparse: str = ""
    layer: tuple[Rule, ...] = ()
    around: tuple[Rule, ...] = ()
    truncated: bool = True


def _same(**names: str) -> tuple[Rule, ...]:
    """Weights that have the same form in both: name in the file, name in Hugging Face's words."""
    return tuple(Rule(f"{target}.weight", Made.SAME, (f"{source}.weight",)) for source, target in names.items())


def _with_biases(*rules: Rule) -> tuple[Rule, ...]:
    """The rules, and those for biases beside the weights."""
    biases = [
        Rule(
            rule.target.replace(".weight", ".bias"),
            rule.made,
            tuple(s.replace(".weight", ".bias") for s in rule.sources),
        )
        for rule in rules
    ]
    return (*rules, *biases)


def _attention(queries: Made = Made.SAME, keys: Made = Made.SAME) -> tuple[Rule, ...]:
    return _with_biases(
        Rule("self_attn.q_proj.weight", queries, ("attn_q.weight",)),
        Rule("self_attn.k_proj.weight", keys, ("attn_k.weight",)),
        *_same(attn_v="self_attn.v_proj", attn_output="self_attn.o_proj"),
    )


def _each_expert(prefix: str, gate: str, up: str, down: str) -> tuple[Rule, ...]:
    slots = {"gate": gate, "up": up, "down": down}
    return tuple(
        Rule(f"{prefix}.{{expert}}.{name}.weight", Made.EACH, (f"ffn_{slot}_exps.weight",))
        for slot, name in slots.items()
    )


COMMON_KEYS = {
    "block_count": "num_hidden_layers",
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
}
"""Keys of every architecture."""

READ_APART = {
    "vocab_size", "rope.freq_base", "rope.dimension_count", "rope.scale_linear", "rope.scaling.type",
    "rope.scaling.factor", "rope.scaling.original_context_length", "rope.scaling.attn_factor",
    "rope.scaling.yarn_attn_factor", "rope.scaling.yarn_beta_fast", "rope.scaling.yarn_beta_slow",
    "attention.key_length", "attention.value_length",
}  # fmt: skip
"""Keys of every architecture that mean something together with others."""

WITHOUT_MEANING = {"rope.scaling.finetuned", "tensor_data_layout", "pooling_type"}
"""Keys that say nothing on what is computed."""

NEUTRAL: Mapping[str, tuple[object, ...]] = {
    "attention.causal": (True,),
    "attention.clamp_kqv": (0.0,),
    "attention.sliding_window": (0,),
    "attn_logit_softcapping": (0.0,),
    "expert_count": (0,),
    "expert_group_count": (0, 1),
    "expert_group_used_count": (0, 1),
    "expert_shared_count": (0,),
    "expert_used_count": (0,),
    "expert_weights_norm": (False,),
    "expert_weights_scale": (0.0, 1.0),
    "final_logit_softcapping": (0.0,),
    "nextn_predict_layers": (0,),
    "rope.scaling.yarn_ext_factor": (1.0,),
    "use_parallel_residual": (False,),
}
"""Keys that an architecture may have, with the values that change nothing, where its table does not name them."""

_AROUND = _same(token_embd="model.embed_tokens", output_norm="model.norm", output="lm_head")
_NORMS = _same(attn_norm="input_layernorm", ffn_norm="post_attention_layernorm")
_HEAD_NORMS = _same(attn_q_norm="self_attn.q_norm", attn_k_norm="self_attn.k_norm")
_MLP = _same(ffn_gate="mlp.gate_proj", ffn_up="mlp.up_proj", ffn_down="mlp.down_proj")
_ROUTER = _same(ffn_gate_inp="mlp.gate")
_EXPERTS = _each_expert("mlp.experts", "gate_proj", "up_proj", "down_proj")
_W_EXPERTS = _each_expert("block_sparse_moe.experts", "w1", "w3", "w2")
_PAIRED = _attention(Made.QUERIES, Made.KEYS)
_WIDTH = {"feed_forward_length": "intermediate_size"}
_CHOSEN = {"expert_used_count": "num_experts_per_tok"}
_BIASES = {"attn_q.bias": "attention_bias"}

_LLAMA = Architecture(
    "llama",
    _WIDTH,
    biases=_BIASES | {"ffn_gate.bias": "mlp_bias"},
    layer=_NORMS + _PAIRED + _with_biases(*_MLP),
    around=_AROUND,
)
_MIXTRAL = Architecture(
    "mixtral",
    _WIDTH | _CHOSEN | {"expert_count": "num_local_experts", "attention.sliding_window": "sliding_window"},
    layer=_NORMS + _PAIRED + _same(ffn_gate_inp="block_sparse_moe.gate") + _W_EXPERTS,
    around=_AROUND,
)
_QWEN2 = Architecture("qwen2", _WIDTH, layer=_NORMS + _attention() + _MLP, around=_AROUND)
_QWEN3 = Architecture("qwen3", _WIDTH, biases=_BIASES, layer=_NORMS + _attention() + _HEAD_NORMS + _MLP, around=_AROUND)
_QWEN2_MOE = Architecture(
    "qwen2_moe",
    _CHOSEN
    | {
        "feed_forward_length": "intermediate_size",
        "expert_count": "num_experts",
        "expert_feed_forward_length": "moe_intermediate_size",
        "expert_shared_feed_forward_length": "shared_expert_intermediate_size",
        "expert_weights_norm": "norm_topk_prob",
    },
    fixed={"norm_topk_prob": False},
    biases={"attn_q.bias": "qkv_bias"},
    layer=_NORMS
    + _attention()
    + _ROUTER
    + _EXPERTS
    + _same(
        ffn_gate_shexp="mlp.shared_expert.gate_proj",
        ffn_up_shexp="mlp.shared_expert.up_proj",
        ffn_down_shexp="mlp.shared_expert.down_proj",
    )
    + (Rule("mlp.shared_expert_gate.weight", Made.ROW, ("ffn_gate_inp_shexp.weight",)),),
    around=_AROUND,
)
_QWEN3_MOE = Architecture(
    "qwen3_moe",
    _CHOSEN
    | {
        "feed_forward_length": "intermediate_size",
        "expert_count": "num_experts",
        "expert_feed_forward_length": "moe_intermediate_size",
        "expert_weights_norm": "norm_topk_prob",
    },
    fixed={"norm_topk_prob": True},
    biases=_BIASES,
    layer=_NORMS + _attention() + _HEAD_NORMS + _ROUTER + _EXPERTS,
    around=_AROUND,
)
_OLMOE = Architecture(
    "olmoe",
    _WIDTH
    | _CHOSEN
    | {
        "expert_count": "num_experts",
        "attention.clamp_kqv": "clip_qkv",
        "expert_weights_norm": "norm_topk_prob",
    },
    fixed={"norm_topk_prob": False},
    biases=_BIASES,
    layer=_NORMS + _attention() + _HEAD_NORMS + _ROUTER + _EXPERTS,
    around=_AROUND,
)
_DEEPSEEK_V2 = Architecture(
    "deepseek_v2",
    _WIDTH
    | _CHOSEN
    | {
        "expert_count": "n_routed_experts",
        "expert_shared_count": "n_shared_experts",
        "expert_feed_forward_length": "moe_intermediate_size",
        "expert_group_count": "n_group",
        "expert_group_used_count": "topk_group",
        "expert_weights_scale": "routed_scaling_factor",
        "expert_weights_norm": "norm_topk_prob",
        "leading_dense_block_count": "first_k_dense_replace",
        "nextn_predict_layers": "num_nextn_predict_layers",
        "attention.q_lora_rank": "q_lora_rank",
        "attention.kv_lora_rank": "kv_lora_rank",
        "rope.dimension_count": "qk_rope_head_dim",
    },
    apart=frozenset(
        {
            "attention.key_length_mla",
            "attention.value_length_mla",
            "expert_gating_func",
            "rope.scaling.yarn_log_multiplier",
        }
    ),
    fixed={"norm_topk_prob": False, "routed_scaling_factor": 1.0},
    biases={"attn_kv_a_mqa.bias": "attention_bias"},
    layer=_NORMS
    + _with_biases(
        *_same(
            attn_q_a="self_attn.q_a_proj",
            attn_kv_a_mqa="self_attn.kv_a_proj_with_mqa",
            attn_output="self_attn.o_proj",
        )
    )
    + _same(
        attn_q="self_attn.q_proj",
        attn_q_b="self_attn.q_b_proj",
        attn_q_a_norm="self_attn.q_a_layernorm",
        attn_kv_a_norm="self_attn.kv_a_layernorm",
        attn_kv_b="self_attn.kv_b_proj",
        ffn_gate_shexp="mlp.shared_experts.gate_proj",
        ffn_up_shexp="mlp.shared_experts.up_proj",
        ffn_down_shexp="mlp.shared_experts.down_proj",
    )
    + _MLP
    + _ROUTER
    + _EXPERTS
    + (
        Rule("self_attn.kv_b_proj.weight", Made.KEYS_AND_VALUES, ("attn_k_b.weight", "attn_v_b.weight")),
        Rule("mlp.gate.e_score_correction_bias", Made.SAME, ("exp_probs_b.bias",)),
    )
    + tuple(
        Rule(f"nextn.{name}.weight", Made.SAME, (f"nextn.{name}.weight",))
        for name in ("eh_proj", "enorm", "hnorm", "embed_tokens", "shared_head_head", "shared_head_norm")
    ),
    around=_AROUND,
)
_DEEPSEEK_V3 = replace(_DEEPSEEK_V2, model_type="deepseek_v3")
_GRANITE_MOE = Architecture(
    "granitemoe",
    _WIDTH
    | _CHOSEN
    | {
        "expert_count": "num_local_experts",
        "attention.scale": "attention_multiplier",
        "embedding_scale": "embedding_multiplier",
        "residual_scale": "residual_multiplier",
        "logit_scale": "logits_scaling",
    },
    biases=_BIASES,
    layer=_NORMS
    + _PAIRED
    + _same(ffn_gate_inp="block_sparse_moe.router.layer", ffn_down_exps="block_sparse_moe.output_linear")
    + (Rule("block_sparse_moe.input_linear.weight", Made.STACKED, ("ffn_gate_exps.weight", "ffn_up_exps.weight")),),
    around=_AROUND,
)
_PHI_MOE = Architecture(
    "phimoe",
    _WIDTH | _CHOSEN | {"expert_count": "num_local_experts", "attention.sliding_window": "sliding_window"},
    biases=_BIASES | {"output.bias": "lm_head_bias"},
    layer=_with_biases(*_NORMS) + _attention() + _same(ffn_gate_inp="block_sparse_moe.gate") + _W_EXPERTS,
    around=_with_biases(*_AROUND),
)
_GPT_OSS = Architecture(
    "gpt_oss",
    _CHOSEN
    | {
        "expert_count": "num_local_experts",
        "expert_feed_forward_length": "intermediate_size",
        "attention.sliding_window": "sliding_window",
    },
    apart=frozenset({"feed_forward_length"}),  # as wide as an expert: there is no other
    biases=_BIASES,
    layer=_same(attn_norm="input_layernorm", post_attention_norm="post_attention_layernorm")
    + _attention()
    + _with_biases(*_same(ffn_gate_inp="mlp.router"))
    + (
        Rule("self_attn.sinks", Made.SAME, ("attn_sinks.weight",)),
        Rule(
            "mlp.experts.gate_up_proj", Made.WOVEN_TURNED, ("ffn_gate_exps.weight", "ffn_up_exps.weight"), blocks=True
        ),
        Rule("mlp.experts.gate_up_proj_bias", Made.WOVEN, ("ffn_gate_exps.bias", "ffn_up_exps.bias")),
        Rule("mlp.experts.down_proj", Made.TURNED, ("ffn_down_exps.weight",), blocks=True),
        Rule("mlp.experts.down_proj_bias", Made.SAME, ("ffn_down_exps.bias",)),
    ),
    around=_AROUND,
    truncated=False,
)
_LLAMA4 = Architecture(
    "llama4_text",
    _CHOSEN
    | {
        "expert_count": "num_local_experts",
        "feed_forward_length": "intermediate_size_mlp",
        "expert_feed_forward_length": "intermediate_size",
        "attention.sliding_window": "attention_chunk_size",
    },
    fixed={"attention_chunk_size": 8192, "no_rope_layer_interval": 4, "floor_scale": 8192, "attn_scale": 0.1},
    apart=frozenset({"interleave_moe_layer_step"}),  # the layers that have a router say it too
    special={("expert_count", 128): {"use_qk_norm": False}},
    biases=_BIASES,
    sparse="moe_layers",
    layer=_NORMS
    + _attention()
    + _same(
        ffn_gate="feed_forward.gate_proj",
        ffn_up="feed_forward.up_proj",
        ffn_down="feed_forward.down_proj",
        ffn_gate_inp="feed_forward.router",
        ffn_gate_shexp="feed_forward.shared_expert.gate_proj",
        ffn_up_shexp="feed_forward.shared_expert.up_proj",
        ffn_down_shexp="feed_forward.shared_expert.down_proj",
    )
    + (
        Rule("feed_forward.experts.gate_up_proj", Made.TURNED, ("ffn_gate_exps.weight", "ffn_up_exps.weight")),
        Rule("feed_forward.experts.down_proj", Made.TURNED, ("ffn_down_exps.weight",)),
    ),
    around=_AROUND,
)

ARCHITECTURES: Mapping[str, tuple[Architecture, ...]] = {
    "deepseek2": (_DEEPSEEK_V2, _DEEPSEEK_V3),
    "gpt-oss": (_GPT_OSS,),
    "granitemoe": (_GRANITE_MOE,),
    "llama": (_LLAMA, _MIXTRAL),
    "llama4": (_LLAMA4,),
    "olmoe": (_OLMOE,),
    "phimoe": (_PHI_MOE,),
    "qwen2": (_QWEN2,),
    "qwen2moe": (_QWEN2_MOE,),
    "qwen3": (_QWEN3,),
    "qwen3moe": (_QWEN3_MOE,),
}
"""By ``general.architecture``; of two, the second is that with ``expert_count``, or with sigmoid scores."""
