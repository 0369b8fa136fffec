"""The PyTorch code of docs/sensor-models.md, run as it stands with a small numpy stand-in for torch."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from colibri.checkpoint.checkpoint import Checkpoint
from colibri.checkpoint.families import ImportOptions, import_graph
from colibri.checkpoint.families.moe_mlp import REQUIRED_KEYS
from colibri.graph.float32 import ACTIVATIONS
from colibri.graph.interpret import Reference

PAGE = (Path(__file__).parents[2] / "docs/sensor-models.md").read_text(encoding="utf-8")
random = np.random.default_rng(5)


class Tensor(np.ndarray):
    """An array with the one method of torch.Tensor that the page uses."""

    def scatter(self, axis: int, index: np.ndarray, values: np.ndarray) -> Tensor:
        out = self.copy()
        np.put_along_axis(out, index, values, axis)
        return out


class Module:
    """Finds its parameters and children as torch.nn.Module does: by attribute, in order of assignment."""

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return self.forward(x)  # type: ignore[attr-defined, no-any-return]

    def state_dict(self, prefix: str = "") -> dict[str, np.ndarray]:
        found: dict[str, np.ndarray] = {}
        for name, value in vars(self).items():
            if isinstance(value, Module):
                found |= value.state_dict(f"{prefix}{name}.")
            elif isinstance(value, np.ndarray):
                found[prefix + name] = value
        return found


class Linear(Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        self.weight = (random.standard_normal((outputs, inputs)) / inputs**0.5).astype(np.float32).view(Tensor)
        self.bias = random.standard_normal(outputs).astype(np.float32).view(Tensor)

    def forward(self, x: np.ndarray) -> np.ndarray:
        return x @ self.weight.T + self.bias


class ModuleList(Module):
    def __init__(self, modules: Iterator[Module]) -> None:
        vars(self).update({str(number): module for number, module in enumerate(modules)})

    def __iter__(self) -> Iterator[Module]:
        return iter(vars(self).values())


def softmax(x: np.ndarray, dim: int) -> np.ndarray:
    terms = np.exp(x - x.max(dim, keepdims=True))
    return terms / terms.sum(dim, keepdims=True)


def topk(x: np.ndarray, k: int, dim: int) -> tuple[np.ndarray, np.ndarray]:
    chosen = np.argsort(-x, axis=dim, kind="stable")[:, :k]
    return np.take_along_axis(x, chosen, dim), chosen


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    torch: Any = ModuleType("torch")
    torch.nn = ModuleType("torch.nn")
    torch.nn.Module, torch.nn.Linear, torch.nn.ModuleList = Module, Linear, ModuleList
    torch.relu = lambda x: np.maximum(x, 0)
    torch.softmax, torch.topk, torch.zeros_like = softmax, topk, np.zeros_like
    saver: Any = ModuleType("safetensors.torch")
    saver.save_file = lambda tensors, path: save_file({k: np.asarray(v) for k, v in tensors.items()}, path)
    for name, module in {"torch": torch, "torch.nn": torch.nn, "safetensors.torch": saver}.items():
        monkeypatch.setitem(sys.modules, name, module)


@pytest.mark.usefixtures("stand_in")
def test_the_code_of_the_page_makes_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code = re.search(r"```python\n(.*?)```", PAGE, re.S)
    assert code is not None
    names: dict[str, Any] = {}
    exec(compile(code[1], "sensor-models.md", "exec"), names)
    graph = import_graph(Checkpoint.open(tmp_path / "my-sensor"), ImportOptions())
    x = random.standard_normal((50, 6)).astype(np.float32)
    assert graph.dropped == []
    right = np.asarray(names["model"](x.view(Tensor)))
    assert right.shape == (50, 1) and right.std() > 0.1
    np.testing.assert_allclose(Reference(graph).forward(x), right, rtol=0, atol=1e-5)


def test_the_table_of_keys_is_complete() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (required|optional)", PAGE, re.M))
    assert [key for key, need in rows.items() if need == "required"] == list(REQUIRED_KEYS)
    activation = re.search(r"\| `activation` \| optional, `relu` \| (.*) \|", PAGE)
    assert activation is not None
    assert set(re.findall(r"`(\w+)`", activation[1])) == set(ACTIVATIONS)
