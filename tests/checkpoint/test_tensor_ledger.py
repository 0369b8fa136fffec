"""Every tensor is taken exactly once, or dropped with a reason."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from make_bad import CONFIG, tiny_mixtral, write_arrays, write_checkpoint

from colibri.checkpoint.checkpoint import Checkpoint, Dropped, natural_order, nearest_name
from colibri.errors import BadInput, ColibriError

GATE = "model.layers.0.block_sparse_moe.gate.weight"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    write_checkpoint(tmp_path)
    return Checkpoint.open(tmp_path)


def test_take_and_finish(checkpoint: Checkpoint) -> None:
    arrays = tiny_mixtral()
    for name, array in arrays.items():
        assert checkpoint.has(name) and checkpoint.shape(name) == array.shape
        np.testing.assert_array_equal(checkpoint.take(name, array.shape), array)
    assert checkpoint.left() == () and checkpoint.finish() == []
    assert checkpoint.parameters() == sum(array.size for array in arrays.values())


def test_shape_error_says_why(checkpoint: Checkpoint) -> None:
    with pytest.raises(BadInput) as caught:
        checkpoint.take(GATE, (8, 16), "num_local_experts × hidden_size")
    assert f"{GATE}: shape 4×16, expected 8×16 (num_local_experts × hidden_size)" in str(caught.value)
    assert GATE in checkpoint.left()


def test_missing_tensor_has_a_hint(checkpoint: Checkpoint) -> None:
    with pytest.raises(BadInput) as caught:
        checkpoint.take("model.layers.0.mlp.gate.weight", (4, 16))
    assert "no tensor 'model.layers.0.mlp.gate.weight'" in str(caught.value)
    assert f"the nearest name is '{GATE}'" in str(caught.value)
    with pytest.raises(BadInput, match=r"no tensor 'zzz'$"):
        checkpoint.shape("zzz")
    with pytest.raises(BadInput, match="no tensor"):
        checkpoint.dtype("zzz")
    assert checkpoint.take_optional("zzz", (1,)) is None
    assert checkpoint.take_optional("model.norm.weight", (16,)) is not None


def test_using_twice_is_the_importers_mistake(checkpoint: Checkpoint) -> None:
    checkpoint.take(GATE, (4, 16))
    for again in (lambda: checkpoint.take(GATE, (4, 16)), lambda: checkpoint.drop(GATE, "x")):
        with pytest.raises(ColibriError) as caught:
            again()
        assert caught.value.exit_code == 70 and "twice" in str(caught.value)


def test_leftovers_are_named_in_natural_order(tmp_path: Path) -> None:
    names = [f"model.layers.{layer}.extra" for layer in (10, 2, 1, 11)]
    write_checkpoint(tmp_path, CONFIG, dict.fromkeys(names, np.ones(2, np.float32)))
    checkpoint = Checkpoint.open(tmp_path)
    with pytest.raises(BadInput) as caught:
        checkpoint.finish()
    listed = "'model.layers.1.extra', 'model.layers.2.extra', 'model.layers.10.extra' and 1 more"
    assert f"4 tensor(s) that this model does not have: {listed}" in str(caught.value)


def test_drop_by_name_prefix_and_star(tmp_path: Path) -> None:
    names = ("a.1.x", "a.1.y.z", "a.10.x", "b.1.freq", "b.2.freq", "b.2.c.freq", "a.1")
    write_checkpoint(tmp_path, CONFIG, dict.fromkeys(names, np.ones(2, np.float32)))
    checkpoint = Checkpoint.open(tmp_path)
    assert checkpoint.drop("a.1", "layer beyond the model") == 3
    assert checkpoint.drop("a.1.", "again") == 0
    assert checkpoint.drop("b.*.freq", "follows from the config") == 2
    assert checkpoint.drop("absent", "x") == 0
    assert checkpoint.left() == ("a.10.x", "b.2.c.freq")
    checkpoint.take("a.10.x", (2,))
    checkpoint.drop("b", "rest")
    dropped = checkpoint.finish()
    assert dropped[0] == Dropped("a.1", "layer beyond the model", 8)
    assert [note.name for note in dropped[1:]] == ["a.1.x", "a.1.y.z", "b.1.freq", "b.2.freq", "b.2.c.freq"]


def test_set_aside_file_is_reported(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, CONFIG, {"a": np.ones(1, np.float32)})
    write_arrays(tmp_path / "consolidated.00.safetensors", {})
    checkpoint = Checkpoint.open(tmp_path)
    checkpoint.take("a", (1,))
    assert [note.name for note in checkpoint.finish()] == ["consolidated.00.safetensors"]


def test_nearest_name_prefers_the_same_layer_and_expert() -> None:
    names = [f"layers.{layer}.feed_forward.experts.{expert}.w1.weight" for layer in range(4) for expert in range(12)]
    names.append("model.layers.3.block_sparse_moe.experts.2.w1.weight")
    wanted = "model.layers.1.feed_forward.experts.2.w1.weight"
    assert nearest_name(wanted, names) == "layers.1.feed_forward.experts.2.w1.weight"
    assert nearest_name("lm_head.weight", ["head.weight", *names]) == "head.weight"
    assert nearest_name("anything", []) is None


def test_another_layer_is_no_hint() -> None:
    names = ["layers.1.experts.3.w2.weight", "layers.0.experts.4.w2.weight"]
    assert nearest_name("layers.0.experts.3.w2.weight", names) is None
    assert nearest_name("layers.0.experts.3.w2.weight", [*names, "layers.0.experts.3.w9.weight"]) == (
        "layers.0.experts.3.w9.weight"
    )


def test_nearest_name_among_very_many_is_quick() -> None:
    names = [f"model.layers.{i // 800}.mlp.experts.{i % 800}.up_proj.weight" for i in range(80_000)]
    start = time.perf_counter()
    found = nearest_name("model.layers.7.mlp.expert.5.up_proj.weight", names)
    assert found == "model.layers.7.mlp.experts.5.up_proj.weight"
    assert time.perf_counter() - start < 10


def test_natural_order() -> None:
    assert sorted(["a.10", "a.9", "a.b", "a.²"], key=natural_order)[:2] == ["a.9", "a.10"]


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("quantization_config", {"quant_method": "awq"}, "quantization_config awq is not readable as plain weights"),
        ("quantization_config", {}, "quantization_config of an unnamed method is not readable"),
        ("compression_config", {"quant_method": "compressed-tensors"}, "compression_config compressed-tensors"),
        ("quantization_config", 4, "quantization_config is 4, expected an object"),
    ],
)
def test_quantised_checkpoints(key: str, value: object, words: str, tmp_path: Path) -> None:
    write_checkpoint(tmp_path, CONFIG | {key: value})
    with pytest.raises(BadInput) as caught:
        Checkpoint.open(tmp_path)
    assert words in str(caught.value)
    write_checkpoint(tmp_path, CONFIG | {key: None})
    assert Checkpoint.open(tmp_path).has(GATE)


@pytest.mark.parametrize(
    ("method", "words"),
    [
        *((name, "before it was quantised") for name in ("gptq", "awq", "compressed-tensors", "hqq", "quanto", "aqlm")),
        ("bitsandbytes", "dequantize() and save_pretrained() of transformers"),
    ],
)
def test_each_scheme_is_named_with_what_to_do(method: str, words: str, tmp_path: Path) -> None:
    write_checkpoint(tmp_path, CONFIG | {"quantization_config": {"quant_method": method, "bits": 4}})
    with pytest.raises(BadInput) as caught:
        Checkpoint.open(tmp_path)
    assert f"quantization_config {method} is not readable as plain weights" in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("end", "scheme"),
    [
        ("qweight", "gptq or awq"),
        ("weight_packed", "compressed-tensors"),
        ("weight.absmax", "bitsandbytes"),
        ("W_q", "hqq"),
        ("weight._data", "quanto"),
    ],
)
def test_a_scheme_that_the_config_does_not_name(end: str, scheme: str, tmp_path: Path) -> None:
    name = f"model.layers.0.self_attn.q_proj.{end}"
    write_checkpoint(tmp_path, CONFIG, {name: np.ones((2, 2), np.uint8)})
    with pytest.raises(BadInput) as caught:
        Checkpoint.open(tmp_path)
    assert f"tensor '{name}' is packed as {scheme} does" in str(caught.value)


ORIGINS = {
    "_name_or_path": ({"_name_or_path": "mistralai/Mixtral-8x7B"}, "", "mistralai/Mixtral-8x7B"),
    "a path of a disk": ({"_name_or_path": "/home/somebody/model"}, "", None),
    "a relative path": ({"_name_or_path": "../out/checkpoint-3"}, "", None),
    "not a text": ({"_name_or_path": 3}, "", None),
    "a base": ({}, "---\nlicense: mit\nbase_model: a/b-1\n---\n", "made from a/b-1"),
    "bases": (
        {"_name_or_path": "c/d"},
        "---\nbase_model:\n- a/b\n  - 'c/d'\n- e/f\ntags: x\n---\n",
        "c/d; made from a/b, e/f",
    ),
    "what is no name": ({}, "---\nbase_model: '*/ </script> | x'\n---\n", None),
    "no front matter": ({}, "# base_model: a/b\n", None),
}


@pytest.mark.parametrize("case", ORIGINS)
def test_origin(case: str, tmp_path: Path) -> None:
    keys, card, expected = ORIGINS[case]
    write_checkpoint(tmp_path, CONFIG | keys, tiny_mixtral(CONFIG))
    (tmp_path / "README.md").write_text(card)
    assert Checkpoint.open(tmp_path).origin() == expected


def test_licence(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, CONFIG)
    assert Checkpoint.open(tmp_path).licence() is None
    (tmp_path / "LICENSE").write_text("\n   Apache License\n Version 2.0\n")
    assert Checkpoint.open(tmp_path).licence() == "Apache License"
    write_checkpoint(tmp_path, CONFIG | {"license": "mit"})
    assert Checkpoint.open(tmp_path).licence() == "mit"
    (tmp_path / "README.md").write_text("---\nlanguage: en\nlicense: 'apache-2.0'\n---\n# Model\nlicense: gpl\n")
    assert Checkpoint.open(tmp_path).licence() == "apache-2.0"
    (tmp_path / "README.md").write_text("---\nlicense: other\nlicense_name: my-own\n---\n")
    assert Checkpoint.open(tmp_path).licence() == "my-own"
    (tmp_path / "README.md").write_bytes(b"license: gpl\n\xff")
    assert Checkpoint.open(tmp_path).licence() == "mit"
