"""Broken and odd checkpoints, made from a tiny seeded Mixtral: `python make_bad.py FOLDER` writes them all."""

from __future__ import annotations

import json
import pickle
import struct
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]
Table = dict[str, Any]

INDEX = "model.safetensors.index.json"
CONFIG: Table = {
    "architectures": ["MixtralForCausalLM"],
    "hidden_act": "silu",
    "hidden_size": 16,
    "intermediate_size": 24,
    "max_position_embeddings": 64,
    "model_type": "mixtral",
    "num_attention_heads": 4,
    "num_experts_per_tok": 2,
    "num_hidden_layers": 2,
    "num_key_value_heads": 2,
    "num_local_experts": 4,
    "output_router_logits": False,
    "rms_norm_eps": 1e-05,
    "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
    "router_jitter_noise": 0.0,
    "sliding_window": None,
    "tie_word_embeddings": False,
    "vocab_size": 40,
}
_DTYPES = {
    "float8_e4m3fn": "F8_E4M3",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "float64": "F64",
    "int64": "I64",
    "uint8": "U8",
}
_EXPERT = "model.layers.0.block_sparse_moe.experts.3.w2.weight"


def tiny_mixtral(config: Mapping[str, Any] = CONFIG, seed: int = 20) -> Arrays:
    """Return fp32 tensors of a Mixtral of this config, one per matrix, in name order."""
    rng = np.random.default_rng(seed)
    hidden, inner, vocab = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    kv = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    shapes: dict[str, tuple[int, ...]] = {
        "lm_head.weight": (vocab, hidden),
        "model.embed_tokens.weight": (vocab, hidden),
        "model.norm.weight": (hidden,),
    }
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}"
        shapes |= {f"{prefix}.self_attn.{slot}_proj.weight": (hidden, hidden) for slot in "qo"}
        shapes |= {f"{prefix}.self_attn.{slot}_proj.weight": (kv, hidden) for slot in "kv"}
        shapes |= {f"{prefix}.{norm}_layernorm.weight": (hidden,) for norm in ("input", "post_attention")}
        shapes[f"{prefix}.block_sparse_moe.gate.weight"] = (config["num_local_experts"], hidden)
        for expert in range(config["num_local_experts"]):
            for part, shape in (("w1", (inner, hidden)), ("w2", (hidden, inner)), ("w3", (inner, hidden))):
                shapes[f"{prefix}.block_sparse_moe.experts.{expert}.{part}.weight"] = shape
    return {name: _values(rng, shapes[name]) for name in sorted(shapes)}


def _values(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float32]:
    scale, centre = (0.25, 0.0) if len(shape) > 1 else (0.1, 1.0)
    return (rng.standard_normal(shape) * scale + centre).astype(np.float32)


def header_of(arrays: Arrays) -> Table:
    """Return the header that describes `arrays` stored one after the other."""
    header: Table = {"__metadata__": {"format": "np"}}
    offset = 0
    for name, array in arrays.items():
        span = [offset, offset + array.nbytes]
        header[name] = {"dtype": _DTYPES[array.dtype.name], "shape": list(array.shape), "data_offsets": span}
        offset += array.nbytes
    return header


def data_of(arrays: Arrays) -> bytes:
    """Return the data section: each array's bytes, C order, little-endian."""
    return b"".join(np.ascontiguousarray(array).tobytes() for array in arrays.values())


def write_raw(file: Path, header: Table | str, data: bytes, length: int | None = None) -> None:
    """Write a safetensors file from its parts; `header` as text, or `length`, may be wrong on purpose."""
    text = (header if isinstance(header, str) else json.dumps(header)).encode()
    text += b" " * (-len(text) % 8)
    file.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)


def write_arrays(file: Path, arrays: Arrays) -> None:
    """Write a sound safetensors file."""
    write_raw(file, header_of(arrays), data_of(arrays))


def write_checkpoint(folder: Path, config: Table | None = None, arrays: Arrays | None = None) -> None:
    """Write a folder with config.json and model.safetensors, the tiny Mixtral where nothing else is given."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIG if config is None else config, indent=2))
    write_arrays(folder / "model.safetensors", tiny_mixtral() if arrays is None else arrays)


def write_shards(folder: Path, edit: Callable[[dict[str, str]], None] = lambda _: None) -> list[str]:
    """Write the tiny Mixtral in two shards; `edit` may change the index's weight_map. Returns the shard names."""
    arrays = tiny_mixtral()
    names = list(arrays)
    shards = [f"model-{part + 1:05}-of-00002.safetensors" for part in range(2)]
    parts = names[: len(names) // 2], names[len(names) // 2 :]
    write_checkpoint(folder)
    (folder / "model.safetensors").unlink()
    for shard, part in zip(shards, parts, strict=True):
        write_arrays(folder / shard, {name: arrays[name] for name in part})
    weight_map = {name: shard for shard, part in zip(shards, parts, strict=True) for name in part}
    edit(weight_map)
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return shards


class Stage(Enum):
    """Who decides on a case."""

    READER = auto()  # opening it, or reading the tensors, refuses
    IMPORTER = auto()  # sound files, but not a Mixtral of this config
    ACCEPTED = auto()


@dataclass(frozen=True)
class Case:
    """One checkpoint.

    Attributes:
        name: of its folder.
        stage: who refuses it.
        words: what the one-line error has to contain.
        build: writes it into a folder.
    """

    name: str
    stage: Stage
    words: tuple[str, ...]
    build: Callable[[Path], None]


def _with_config(**changes: object) -> Callable[[Path], None]:
    return lambda folder: write_checkpoint(folder, CONFIG | changes)


def _with_arrays(edit: Callable[[Arrays], None], **changes: object) -> Callable[[Path], None]:
    def build(folder: Path) -> None:
        arrays = tiny_mixtral()
        edit(arrays)
        write_checkpoint(folder, CONFIG | changes, dict(sorted(arrays.items())))

    return build


def _config_not_json(folder: Path) -> None:
    write_checkpoint(folder)
    file = folder / "config.json"
    file.write_text(file.read_text() + "\n}")


def _duplicate_name(folder: Path) -> None:
    write_checkpoint(folder)
    arrays = tiny_mixtral()
    text = json.dumps(header_of(arrays))
    again = json.dumps({"model.norm.weight": header_of(arrays)["model.norm.weight"]})
    write_raw(folder / "model.safetensors", text[:-1] + ", " + again[1:], data_of(arrays))


def _huge_header(folder: Path) -> None:
    write_checkpoint(folder)
    arrays = tiny_mixtral()
    write_raw(folder / "model.safetensors", header_of(arrays), data_of(arrays), length=2**63)


def _index_leaves_folder(folder: Path) -> None:
    def edit(weight_map: dict[str, str]) -> None:
        weight_map["lm_head.weight"] = f"../{folder.name}/{weight_map['lm_head.weight']}"

    write_shards(folder, edit)


def _nan(arrays: Arrays) -> None:
    arrays[_EXPERT][0, 1] = np.nan


def _native_names(arrays: Arrays) -> None:
    for name in list(arrays):
        native = name.replace("block_sparse_moe", "feed_forward").replace("self_attn", "attention")
        if native != name:
            arrays[native.removeprefix("model.")] = arrays.pop(name)


def _extra_expert(arrays: Arrays) -> None:
    for part in ("w1", "w2", "w3"):
        source = arrays[_EXPERT.replace("w2", part)]
        arrays[f"model.layers.1.block_sparse_moe.experts.4.{part}.weight"] = source.copy()


def _pickle_only(folder: Path) -> None:
    write_checkpoint(folder)
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(tiny_mixtral()))


def _shape_against_offsets(folder: Path) -> None:
    write_checkpoint(folder)
    arrays = tiny_mixtral()
    header = header_of(arrays)
    header[_EXPERT]["shape"] = [1000, 1000]
    write_raw(folder / "model.safetensors", header, data_of(arrays))


def _shard_missing(folder: Path) -> None:
    (folder / write_shards(folder)[1]).unlink()


def _truncated(folder: Path) -> None:
    write_checkpoint(folder)
    file = folder / "model.safetensors"
    raw = file.read_bytes()
    file.write_bytes(raw[: len(raw) * 3 // 4])


CASES = (
    Case("config-more-experts", Stage.IMPORTER, ("4×16", "10×16", "gate"), _with_config(num_local_experts=10)),
    Case("config-not-json", Stage.READER, ("config.json", "is not JSON", "line 26"), _config_not_json),
    Case("duplicate-key", Stage.READER, ("'model.norm.weight' stands twice",), _duplicate_name),
    Case("header-length-huge", Stage.READER, ("header longer than the file",), _huge_header),
    Case("index-path-escape", Stage.READER, ("'lm_head.weight'", "leaves the checkpoint folder"), _index_leaves_folder),
    Case(
        "lm-head-missing-untied",
        Stage.IMPORTER,
        ("lm_head", "tie_word_embeddings"),
        _with_arrays(lambda arrays: arrays.__delitem__("lm_head.weight")),
    ),
    Case(
        "lm-head-present-tied",
        Stage.IMPORTER,
        ("lm_head.weight", "tie_word_embeddings"),
        _with_config(tie_word_embeddings=True),
    ),
    Case("nan-weight", Stage.READER, (_EXPERT, "1 of 384 values are not finite"), _with_arrays(_nan)),
    Case("native-mistral-names", Stage.IMPORTER, ("layers.0.attention.k_proj.weight",), _with_arrays(_native_names)),
    Case(
        "one-expert-missing",
        Stage.IMPORTER,
        (_EXPERT,),
        _with_arrays(lambda arrays: arrays.__delitem__(_EXPERT)),
    ),
    Case("one-extra-expert", Stage.IMPORTER, ("experts.4.w1", "4 experts"), _with_arrays(_extra_expert)),
    Case("output-router-logits-true", Stage.ACCEPTED, (), _with_config(output_router_logits=True)),
    Case("pickle-only", Stage.READER, ("pytorch_model.bin", "pickle", "safetensors"), _pickle_only),
    Case(
        "quantized-config-gptq",
        Stage.READER,
        ("quantization_config gptq", "not readable as plain weights"),
        _with_config(quantization_config={"quant_method": "gptq", "bits": 4, "group_size": 32}),
    ),
    Case("shape-vs-offsets", Stage.READER, (_EXPERT, "1000×1000", "4000000"), _shape_against_offsets),
    Case("shard-missing", Stage.READER, ("model-00002-of-00002.safetensors", "absent"), _shard_missing),
    Case(
        "topk-greater-than-experts",
        Stage.IMPORTER,
        ("num_experts_per_tok", "5", "4 experts"),
        _with_config(num_experts_per_tok=5),
    ),
    Case("truncated", Stage.READER, ("truncated", "download"), _truncated),
    Case("unknown-model-type", Stage.IMPORTER, ("mixtralx", "mixtral, moe_mlp"), _with_config(model_type="mixtralx")),
)


if __name__ == "__main__":
    for case in CASES:
        case.build(Path(sys.argv[1]) / case.name)
        print(f"{case.name:28} {case.stage.name.lower():9} {'; '.join(case.words)}")
