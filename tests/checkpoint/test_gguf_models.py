"""What GGUF's keys and tensors mean, and what is refused."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf_bytes import ARRAY, BOOL, F32, STRING, U32, gguf, info, key, small_llama

from colibri.checkpoint.checkpoint import Checkpoint
from colibri.checkpoint.families import ImportOptions, import_graph
from colibri.errors import BadInput
from colibri.graph.graph import Graph
from colibri.graph.interpret import Reference

ORACLE = Path(__file__).parents[1] / "oracle"
Keys = dict[str, tuple[int, Any] | None]


def write(folder: Path, raw: bytes, name: str = "model.gguf") -> Path:
    file = folder / name
    file.write_bytes(raw)
    return file


def load(path: Path) -> Graph:
    return import_graph(Checkpoint.open(path), ImportOptions())


def refusal(path: Path) -> str:
    with pytest.raises(BadInput) as caught:
        load(path)
    return str(caught.value)


def test_the_only_file_of_a_folder_is_the_model(tmp_path: Path) -> None:
    file = write(tmp_path, small_llama())
    assert Checkpoint.open(tmp_path).name == Checkpoint.open(file).name == "model"
    graph = load(tmp_path)
    assert graph.family == "llama" and graph.output_width == 6 and graph.context == 16
    assert Reference(graph).extend(np.array([1, 2, 3]))[0].shape == (6,)
    write(tmp_path, small_llama(), "other.gguf")
    assert "holds 2 models, 'model.gguf', 'other.gguf'" in refusal(tmp_path)
    assert load(file).family == "llama"


def test_a_file_without_its_suffix(tmp_path: Path) -> None:
    assert load(write(tmp_path, small_llama(), "blob")).family == "llama"


def test_licence(tmp_path: Path) -> None:
    file = write(tmp_path, small_llama({"general.license": (STRING, "apache-2.0\n*/")}))
    assert Checkpoint.open(file).licence() == "apache-2.0 */"
    assert Checkpoint.open(write(tmp_path, small_llama())).licence() is None


REFUSED: dict[str, tuple[Keys, str]] = {
    "no architecture": ({"general.architecture": None}, "has no general.architecture"),
    "another architecture": ({"general.architecture": (STRING, "mamba*/\n")}, r"'mamba*/\n' is not supported"),
    "adapter": ({"general.type": (STRING, "adapter")}, "is of the type 'adapter', not a model; merge it"),
    "projector": ({"general.type": (STRING, "mmproj")}, "is of the type 'mmproj', not a model"),
    "architecture as a number": ({"general.architecture": (U32, 3)}, "has no general.architecture"),
    "a key of another model": (
        {"attention.temperature_scale": (F32, 1.0)},
        "llama.attention.temperature_scale is a key",
    ),
    "a window that the family has not": (
        {"attention.sliding_window": (U32, 64)},
        "sliding_window is a key with the value 64",
    ),
    "soft caps": ({"final_logit_softcapping": (F32, 30.0)}, "final_logit_softcapping is a key with the value 30.0"),
    "not causal": ({"attention.causal": (BOOL, 0)}, "attention.causal is a key with the value False"),
    "layers that differ": (
        {"attention.head_count_kv": (ARRAY, (U32, [1, 2]))},
        "head_count_kv differs from layer to layer",
    ),
    "no layers": ({"block_count": None}, "block_count is None"),
    "too many layers": ({"block_count": (U32, 2**32 - 1)}, "block_count is 4294967295"),
    "more layers than there are": ({"block_count": (U32, 2)}, "no tensor 'model.layers.1."),
    "fewer layers than there are": ({"block_count": (U32, 0)}, "block_count is 0"),
    "no heads": ({"attention.head_count": (U32, 0)}, "attention.head_count is missing or 0"),
    "no width": ({"embedding_length": None}, "embedding_length is missing or 0"),
    "width in words": ({"embedding_length": (STRING, "8")}, "embedding_length is '8', expected an integer"),
    "heads that do not divide": ({"attention.head_count": (U32, 3)}, "8 is not a multiple of the 3 heads"),
    "values unlike keys": (
        {"attention.key_length": (U32, 4), "attention.value_length": (U32, 6)},
        "value_length is 6, but keys have 4 values",
    ),
    "a part of a head turned": ({"rope.dimension_count": (U32, 2)}, "dimension_count is 2, but heads have 4 values"),
    "no number of key heads": ({"attention.head_count_kv": None}, "shape 4×8, expected 8×8"),
    "odd heads": ({"attention.key_length": (U32, 3)}, "head_dim 3 is odd"),
    "more heads than rows": (
        {"attention.head_count_kv": (U32, 4)},
        "has 4 rows for 4 heads, of which each needs an even",
    ),
    "unknown rope": ({"rope.scaling.type": (STRING, "spiral")}, "rope.scaling.type is 'spiral', not known"),
    "longrope without factors": ({"rope.scaling.type": (STRING, "longrope")}, "but there are no rope_factors tensors"),
    "no factor": ({"rope.scaling.type": (STRING, "yarn")}, "has no 'rope_parameters.factor'"),
    "factor in words": (
        {"rope.scaling.type": (STRING, "linear"), "rope.scaling.factor": (STRING, "x")},
        "rope.scaling.factor is 'x', expected a number",
    ),
    "attention factor": ({"rope.scaling.attn_factor": (F32, 2.0)}, "attn_factor is 2, but there are no rope_factors"),
    "vocabulary of another size": ({"vocab_size": (U32, 7)}, "shape 6×8, expected 7×8"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_keys_that_are_not_understood(tmp_path: Path, name: str) -> None:
    keys, expected = REFUSED[name]
    said = refusal(write(tmp_path, small_llama(keys)))
    assert expected in said and said.isprintable()


@pytest.mark.parametrize(
    "keys",
    [
        {"attention.causal": (BOOL, 1)},
        {"attention.head_count_kv": (ARRAY, (U32, [1]))},
        {"expert_count": (U32, 0), "expert_used_count": (U32, 0)},
        {"rope.scaling.type": (STRING, "none"), "rope.scaling.finetuned": (BOOL, 1)},
        {"vocab_size": (U32, 6), "rope.dimension_count": (U32, 4), "attention.key_length": (U32, 4)},
        {"general.alignment": (U32, 32), "general.file_type": (U32, 0), "tokenizer.chat_template": (STRING, "{{")},
    ],
)
def test_keys_that_change_nothing(tmp_path: Path, keys: Keys) -> None:
    wanted = Reference(load(write(tmp_path, small_llama()))).extend(np.array([3, 1]))[0]
    found = Reference(load(write(tmp_path, small_llama(keys)))).extend(np.array([3, 1]))[0]
    assert np.array_equal(found, wanted)


def test_linear_rope_under_its_old_key(tmp_path: Path) -> None:
    found = [
        load(write(tmp_path, small_llama(keys))).weights["rope_fine"].values
        for keys in (
            {"rope.scale_linear": (F32, 4.0)},
            {"rope.scaling.type": (STRING, "linear"), "rope.scaling.factor": (F32, 4.0)},
            {},
        )
    ]
    assert np.array_equal(found[0], found[1]) and not np.array_equal(found[0], found[2])


def test_a_tensor_that_is_missing_or_too_much(tmp_path: Path) -> None:
    said = refusal(write(tmp_path, small_llama(drop=("blk.0.ffn_up.weight",))))
    assert "model.layers.0.mlp.up_proj.weight" in said
    raw = small_llama(more={"blk.0.ssm_a.weight": (8,)})
    assert "tensor 'blk.0.ssm_a.weight': not of the architecture 'llama'" in refusal(write(tmp_path, raw))
    raw = small_llama(more={"blk.0.attn_rot_embd.weight": (2,)})
    assert load(write(tmp_path, raw)).dropped == ["blk.0.attn_rot_embd.weight: the frequencies follow from rope_theta"]


def test_shapes_that_nothing_has(tmp_path: Path) -> None:
    said = refusal(write(tmp_path, small_llama(more={"rope_freqs.weight": (1 << 16,)})))
    assert "rope_freqs.weight of shape 65536 is not one factor a pair" in said
    keys: Keys = {"expert_count": (U32, 2), "expert_used_count": (U32, 1)}
    for shape, shown in (((1, 5000, 1, 2), "1×5000×1×2"), ((5000, 1, 8), "5000×1×8")):
        raw = small_llama(keys, more={"blk.0.ffn_up_exps.weight": shape})
        assert f"ffn_up_exps.weight' of shape {shown} is not one matrix an expert" in refusal(write(tmp_path, raw))


def test_files_with_no_tensors(tmp_path: Path) -> None:
    raw = gguf([key("general.architecture", STRING, "llama"), key("llama.block_count", U32, 1)], [])
    assert "has no tensor token_embd.weight" in refusal(write(tmp_path, raw))


def test_not_finite(tmp_path: Path) -> None:
    raw = bytearray(small_llama())
    raw[-4:] = struct.pack("<f", float("nan"))
    checkpoint = Checkpoint.open(write(tmp_path, bytes(raw)))
    with pytest.raises(BadInput, match="1 of 96 values are not finite"):
        checkpoint.take("model.layers.0.mlp.down_proj.weight", (8, 12))


def test_rounded_weights_are_named(tmp_path: Path) -> None:
    assert load(write(tmp_path, small_llama())).warnings == []
    said = load(ORACLE / "gguf/mixtral-k-blocks.gguf").warnings
    assert said[0].startswith(
        "the file holds rounded weights, Q4_K (9 tensors), Q5_0 (2 tensors), Q6_K (3 tensors), Q8_0"
    )


SPLIT = {"split.count": (U32, 2), "split.tensors.count": (U32, 11)}


def parts(folder: Path, first: Keys, second: list[bytes]) -> Path:
    raw = small_llama(first, drop=("output_norm.weight",))
    file = write(folder, raw, "big-00001-of-00002.gguf")
    norm = [info("output_norm.weight", (8,), 0, 0)]
    write(folder, gguf(second, norm, np.ones(8, "<f4").tobytes()), "big-00002-of-00002.gguf")
    return file


def test_parts_that_belong_together(tmp_path: Path) -> None:
    second = [key("split.no", U32, 1), *(key(name, *what) for name, what in SPLIT.items())]
    file = parts(tmp_path, {"split.no": (U32, 0), **SPLIT}, second)
    for path in (file, tmp_path, tmp_path / "big-00002-of-00002.gguf"):
        assert Checkpoint.open(path).name == "big"
        assert load(path).family == "llama"
    (tmp_path / "big-00002-of-00002.gguf").unlink()
    assert "'big-00002-of-00002.gguf' of the 2 parts of this model is not there" in refusal(file)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ({}, {}, "split.no is None, expected 0"),
        ({"split.no": (U32, 1)}, {}, "split.no is 1, expected 0"),
        ({"split.no": (U32, 0), **SPLIT}, {}, "split.no is None, expected 1"),
        ({"split.no": (U32, 0), "split.count": (U32, 3)}, {}, "split.count is 3, expected 2"),
        (
            {"split.no": (U32, 0), "split.count": (U32, 2), "split.tensors.count": (U32, 12)},
            {},
            "split.tensors.count is 12, expected 11",
        ),
    ],
)
def test_parts_of_different_models(tmp_path: Path, first: Keys, second: dict[str, Any], expected: str) -> None:
    file = parts(tmp_path, first, [key(name, *what) for name, what in second.items()])
    assert expected in refusal(file)


def test_one_part_under_another_name(tmp_path: Path) -> None:
    file = write(tmp_path, small_llama({"split.no": (U32, 0), **SPLIT}), "renamed.gguf")
    assert "split.count is 2, expected 1" in refusal(file)
    write(tmp_path, small_llama(), "x-00003-of-00002.gguf")
    assert "no part of 2" in refusal(tmp_path / "x-00003-of-00002.gguf")
