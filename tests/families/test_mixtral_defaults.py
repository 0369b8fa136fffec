"""What a Mixtral's config.json need not say: the defaults of transformers' `MixtralConfig`; and a width of heads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from make_bad import CONFIG, tiny_mixtral, write_checkpoint
from small_models import load_graph

from colibri.graph.graph import Graph
from colibri.graph.ops import Attention, Linear, Rope
from colibri.graph.weights import Vector

# Source: transformers 5.24, models/mixtral/configuration_mixtral.py.
DEFAULTS: dict[str, Any] = {
    "hidden_act": "silu",
    "num_experts_per_tok": 2,
    "num_local_experts": 8,
    "rms_norm_eps": 1e-5,
    "rope_parameters": {"rope_theta": 1e6, "rope_type": "default"},
    "sliding_window": None,
    "tie_word_embeddings": False,
}


def graph_of(folder: Path, config: dict[str, Any], arrays: dict[str, np.ndarray]) -> Graph:
    write_checkpoint(folder, config, arrays)
    return load_graph(folder)


def tables(graph: Graph) -> list[np.ndarray]:
    found = [graph.weights[name] for name in ("rope_coarse", "rope_fine")]
    return [weight.values for weight in found if isinstance(weight, Vector)]


@pytest.mark.parametrize("key", sorted(DEFAULTS))
def test_a_key_that_is_not_there(key: str, tmp_path: Path) -> None:
    said = CONFIG | DEFAULTS
    arrays = tiny_mixtral(said)
    explicit = graph_of(tmp_path / "said", said, arrays)
    silent = graph_of(tmp_path / "silent", {name: value for name, value in said.items() if name != key}, arrays)
    assert silent.ops == explicit.ops and list(silent.weights) == list(explicit.weights)
    assert all(np.array_equal(one, other) for one, other in zip(tables(silent), tables(explicit), strict=True))


def test_swish_is_another_name_of_silu(tmp_path: Path) -> None:
    one, other = (
        graph_of(tmp_path / name, CONFIG | {"hidden_act": name}, tiny_mixtral()) for name in ("silu", "swish")
    )
    assert one.ops == other.ops


def test_heads_wider_than_the_hidden_size_divided_by_them(tmp_path: Path) -> None:
    """4 heads of 6, 2 of keys and values, beside a hidden size of 16."""
    arrays = tiny_mixtral()
    rng = np.random.default_rng(1)
    for name in arrays:
        if ".self_attn." in name:
            rows = {"q": 24, "k": 12, "v": 12, "o": 16}[name.split("self_attn.")[1][0]]
            shape = (rows, 24 if "o_proj" in name else 16)
            arrays[name] = (rng.standard_normal(shape) * 0.25).astype(np.float32)
    graph = graph_of(tmp_path / "wide", CONFIG | {"head_dim": 6}, arrays)
    attention = next(op for op in graph.ops if isinstance(op, Attention))
    assert (attention.heads, attention.kv_heads, attention.head_dim) == (4, 2, 6)
    assert attention.scale == float(np.float32(6**-0.5))
    assert [(op.heads, op.head_dim) for op in graph.ops if isinstance(op, Rope)][:2] == [(4, 6), (2, 6)]
    widths = {op.slot: (op.n, op.k) for op in graph.ops if isinstance(op, Linear) and op.layer == 0}
    assert widths == {"q": (24, 16), "k": (12, 16), "v": (12, 16), "o": (16, 24)}
    assert [values.shape[1] for values in tables(graph)] == [3, 3]
