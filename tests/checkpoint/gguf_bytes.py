"""GGUF files made byte by byte, whole or wrong, and others by the `gguf` package."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import gguf as package
import numpy as np

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
_CODES = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "B", U64: "Q", I64: "q", F64: "d"}


def text(value: str | bytes) -> bytes:
    """A string: length and bytes."""
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(raw)) + raw


def value(kind: int, content: Any) -> bytes:
    """A value without its type."""
    if kind == STRING:
        return text(content)
    if kind == ARRAY:
        inner, items = content
        return struct.pack("<IQ", inner, len(items)) + b"".join(value(inner, item) for item in items)
    return struct.pack(f"<{_CODES[kind]}", content)


def key(name: str | bytes, kind: int, content: Any) -> bytes:
    """A key-value pair."""
    return text(name) + struct.pack("<I", kind) + value(kind, content)


def info(name: str | bytes, extents: tuple[int, ...], form: int, offset: int) -> bytes:
    """A tensor's line; extents innermost first, as in the file."""
    return text(name) + struct.pack(f"<I{len(extents)}QIQ", len(extents), *extents, form, offset)


def gguf(
    keys: list[bytes],
    infos: list[bytes],
    data: bytes = b"",
    *,
    magic: bytes = b"GGUF",
    version: int = 3,
    counts: tuple[int, int] | None = None,
    alignment: int = 32,
) -> bytes:
    """A file of these parts, whatever they say."""
    tensors, pairs = counts or (len(infos), len(keys))
    head = magic + struct.pack("<IQQ", version, tensors, pairs) + b"".join(keys) + b"".join(infos)
    return head + b"\0" * (-len(head) % alignment) + data


def small_llama(
    keys: dict[str, tuple[int, Any] | None] | None = None,
    drop: tuple[str, ...] = (),
    more: dict[str, tuple[int, ...]] | None = None,
) -> bytes:
    """A model of one layer, in fp32: 6 tokens, width 8, 2 heads.

    Args:
        keys: changes of keys, behind ``llama.`` or whole; None takes one away.
        drop: tensors that are left out.
        more: tensors that it has besides, and their shapes.
    """
    said: dict[str, tuple[int, Any] | None] = {
        "general.architecture": (STRING, "llama"),
        "llama.block_count": (U32, 1),
        "llama.context_length": (U32, 16),
        "llama.embedding_length": (U32, 8),
        "llama.feed_forward_length": (U32, 12),
        "llama.attention.head_count": (U32, 2),
        "llama.attention.head_count_kv": (U32, 1),
        "llama.attention.layer_norm_rms_epsilon": (F32, 1e-5),
    }
    whole = ("general.", "llama.", "split.", "tokenizer.")
    said |= {name if name.startswith(whole) else f"llama.{name}": what for name, what in (keys or {}).items()}
    shapes = {
        "token_embd.weight": (6, 8),
        "output_norm.weight": (8,),
        "blk.0.attn_norm.weight": (8,),
        "blk.0.attn_q.weight": (8, 8),
        "blk.0.attn_k.weight": (4, 8),
        "blk.0.attn_v.weight": (4, 8),
        "blk.0.attn_output.weight": (8, 8),
        "blk.0.ffn_norm.weight": (8,),
        "blk.0.ffn_gate.weight": (12, 8),
        "blk.0.ffn_up.weight": (12, 8),
        "blk.0.ffn_down.weight": (8, 12),
        **(more or {}),
    }
    rng = np.random.default_rng(3)
    infos, data = [], b""
    for name, shape in shapes.items():
        if name not in drop:
            infos.append(info(name, shape[::-1], 0, len(data)))
            raw = rng.normal(0, 0.4, shape).astype("<f4").tobytes()
            data += raw + b"\0" * (-len(raw) % 32)
    return gguf([key(name, *v) for name, v in said.items() if v is not None], infos, data)


Tensors = dict[str, tuple[np.ndarray, package.GGMLQuantizationType]]


def tensors_of(file: Path) -> Tensors:
    """The tensors of a file, as they are stored, by name."""
    return {tensor.name: (tensor.data, tensor.tensor_type) for tensor in package.GGUFReader(file).tensors}


def rewrite(source: Path, out: Path, tensors: Tensors | None = None, keys: dict[str, int | None] | None = None) -> Path:
    """Write another file with the keys of one.

    Args:
        tensors: None for its own.
        keys: integers that it has instead, or besides; None takes one away.
    """
    read, changed = package.GGUFReader(source), keys or {}
    write = package.GGUFWriter(out, read.fields["general.architecture"].contents())
    for name, field in read.fields.items():
        if not name.startswith("GGUF.") and name != "general.architecture" and name not in changed:
            write.add_key_value(name, field.contents(), field.types[0])
    for name, number in changed.items():
        if number is not None:
            write.add_uint32(name, number)
    for name, (data, kind) in (tensors or tensors_of(source)).items():
        write.add_tensor(name, data, raw_dtype=kind)
    write.write_header_to_file()
    write.write_kv_data_to_file()
    write.write_tensors_to_file()
    write.close()
    return out
