"""A sensor model against a few lines of float64, for every activation and both ways to weigh experts."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from small_models import load_graph, sensor_arrays, write_sensor

from colibri.graph.float32 import ACTIVATIONS
from colibri.graph.interpret import Reference

FORMULAS = {
    "identity": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "gelu": lambda x: 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
}


def by_hand(arrays: dict[str, np.ndarray], x: np.ndarray, activation: str, top_k: int, renormalise: bool) -> np.ndarray:
    act = FORMULAS[activation]
    w = {name: values.astype(np.float64) for name, values in arrays.items()}

    def linear(name: str, values: np.ndarray) -> np.ndarray:
        return w[f"{name}.weight"] @ values + w[f"{name}.bias"]

    rows = []
    for sample in x.astype(np.float64):
        z = act(linear("inp", sample))
        scores = linear("moe.gate", z)
        probabilities = np.exp(scores - scores.max())
        probabilities /= probabilities.sum()
        chosen = np.argsort(-scores, kind="stable")[:top_k]
        total = probabilities[chosen].sum() if renormalise else 1.0
        mixed = sum(
            probabilities[e] / total * linear(f"moe.experts.{e}.fc2", act(linear(f"moe.experts.{e}.fc1", z)))
            for e in chosen
        )
        rows.append(linear("out", z + mixed))
    return np.array(rows)


@pytest.mark.parametrize("renormalise", [False, True])
@pytest.mark.parametrize("top_k", [1, 2, 4])
@pytest.mark.parametrize("activation", sorted(ACTIVATIONS))
def test_the_graph_is_the_formula(tmp_path: Path, activation: str, top_k: int, renormalise: bool) -> None:
    arrays = sensor_arrays()
    folder = write_sensor(tmp_path / "m", arrays, activation=activation, top_k=top_k, norm_topk_prob=renormalise)
    x = np.random.default_rng(top_k).standard_normal((25, 5)).astype(np.float32)
    got = Reference(load_graph(folder)).forward(x)
    assert np.max(np.abs(got - by_hand(arrays, x, activation, top_k, renormalise))) < 5e-6
