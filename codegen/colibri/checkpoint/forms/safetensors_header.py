"""The header of one safetensors file, checked before anything else reads the file.

A safetensors file is a u64 (little-endian) header length, a JSON header that gives each tensor a dtype, a shape and a
byte range, then the data. The ranges must cover the data exactly, without hole or overlap.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Any

from colibri.checkpoint.files import Bytes
from colibri.checkpoint.source import BITS, format_shape
from colibri.checkpoint.untrusted import json_kind, parse_object
from colibri.errors import BadInput, shown

_HEADER_LENGTH = struct.Struct("<Q")
_MAX_HEADER_BYTES = 100_000_000  # what the format's own library reads
_MAX_RANK = 8
_METADATA = "__metadata__"
_LFS_POINTER = b"version https://git-lfs"
_AGAIN = "download the file again"


@dataclass(frozen=True)
class Entry:
    """One tensor as the header describes it.

    Attributes:
        dtype: the format's name, such as ``F32`` or ``BF16``.
        shape: extents, outermost first; empty for a scalar.
        begin: first byte, from the start of the data section.
        end: byte after the last.
    """

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


@dataclass(frozen=True)
class Header:
    """Attributes:
    tensors: entries by name, in file order.
    metadata: free text that the writer left.
    begin: first byte of the data section in the file.
    """

    tensors: dict[str, Entry]
    metadata: dict[str, str]
    begin: int


def read_header(file: Bytes) -> Header:
    """Read and check the header of a safetensors file.

    Raises:
        BadInput: not safetensors, a name twice, a tensor whose shape × dtype is not its byte range, ranges with a hole
            or an overlap, a data section shorter or longer than the ranges say.
    """
    where = file.where
    raw = _read_raw(file)
    begin = _HEADER_LENGTH.size + len(raw)
    table = parse_object(raw, where=f"{where}: header", noun="name", hint=_AGAIN)
    metadata = _metadata(table.pop(_METADATA, {}), where)
    tensors = {name: _entry(name, fields, where) for name, fields in table.items()}
    _check_cover(tensors, file.size - begin, where)
    return Header(dict(sorted(tensors.items(), key=lambda item: item[1].begin)), metadata, begin)


def _read_raw(file: Bytes) -> bytes:
    where = file.where
    start = bytes(file.read(0, min(file.size, len(_LFS_POINTER))))
    if start == _LFS_POINTER:
        raise BadInput("is a Git LFS pointer, not the weights", where=where, hint="run `git lfs pull` there")
    if len(start) < _HEADER_LENGTH.size:
        raise BadInput(f"is too short for safetensors: {file.size} bytes", where=where, hint=_AGAIN)
    (length,) = _HEADER_LENGTH.unpack_from(start)
    rest = file.size - _HEADER_LENGTH.size
    if length > rest:
        raise BadInput(
            f"header longer than the file: it says {length} bytes, {rest} are there", where=where, hint=_AGAIN
        )
    if length > _MAX_HEADER_BYTES:
        raise BadInput(f"header of {length} bytes, more than {_MAX_HEADER_BYTES}", where=where)
    return bytes(file.read(_HEADER_LENGTH.size, length))


def _metadata(value: object, where: str) -> dict[str, str]:
    if not isinstance(value, dict):
        raise BadInput(f"header: {_METADATA} is a {json_kind(value)}, expected an object", where=where)
    for key, text in value.items():
        if not isinstance(text, str):
            raise BadInput(f"header: {_METADATA}.{shown(key)} is a {json_kind(text)}, expected a string", where=where)
    return value


def _entry(name: str, fields: Any, where: str) -> Entry:
    def refuse(what: str) -> BadInput:
        return BadInput(f"tensor '{shown(name)}' {what}", where=where)

    if not isinstance(fields, dict):
        raise refuse(f"is a {json_kind(fields)} in the header, expected an object")
    dtype, shape, offsets = fields.get("dtype"), _sizes(fields.get("shape")), _sizes(fields.get("data_offsets"))
    if not isinstance(dtype, str):
        raise refuse("has no dtype")
    if dtype not in BITS:
        raise refuse(f"has the unknown dtype '{shown(dtype)}'")
    if shape is None or len(shape) > _MAX_RANK:
        raise refuse(f"has a shape that is not a list of at most {_MAX_RANK} sizes")
    if offsets is None or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise refuse("has data_offsets that are not [begin, end]")
    bits, span = math.prod(shape) * BITS[dtype], offsets[1] - offsets[0]
    if bits != span * 8:
        raise refuse(f"has {span} bytes, but its shape {format_shape(shape)} in {dtype} takes {-(-bits // 8)}")
    return Entry(dtype, shape, offsets[0], offsets[1])


def _sizes(value: object) -> tuple[int, ...] | None:
    if isinstance(value, list) and all(type(item) is int and item >= 0 for item in value):
        return tuple(value)
    return None


def _check_cover(tensors: dict[str, Entry], data_bytes: int, where: str) -> None:
    end, before = 0, ""
    for name, entry in sorted(tensors.items(), key=lambda item: (item[1].begin, item[1].end)):
        if entry.begin < end:
            raise BadInput(f"tensors '{shown(before)}' and '{shown(name)}' overlap", where=where)
        if entry.begin > end:
            raise BadInput(f"{entry.begin - end} bytes before tensor '{shown(name)}' belong to no tensor", where=where)
        if entry.end > data_bytes:
            last = max(item.end for item in tensors.values())
            raise BadInput(
                f"truncated: the data has {data_bytes} bytes, the header says {last}; "
                f"tensor '{shown(name)}' is the first cut off",
                where=where,
                hint=_AGAIN,
            )
        end, before = entry.end, name
    if end != data_bytes:
        raise BadInput(f"{data_bytes - end} bytes after the last tensor belong to no tensor", where=where, hint=_AGAIN)
