"""PyTorch's own files (``.bin``, ``.pt``, ``.pth``), of which nothing is executed: a zip of a pickle and of storages.

Source: torch 2.14, `torch/serialization.py` and `torch/_utils.py`. The pickle is read by a machine that can call
nothing (`pickle_values.py`); it says which tensors are views of which storage, and those are read where they lie.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from colibri.checkpoint.config import Config
from colibri.checkpoint.files import Bytes, Folder
from colibri.checkpoint.forms.pickle_values import CONVERT, Global, Make, read_pickle
from colibri.checkpoint.forms.shards import join, read_index
from colibri.checkpoint.forms.zip_entries import Entry, data_begin, read_entries
from colibri.checkpoint.source import BITS, Opened, Plain, Stored, Tensors
from colibri.errors import BadInput, shown

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

INDEX = ".bin.index.json"
SUFFIXES = (".bin", ".pt", ".pth")
_WIDEST_SPREAD, _SMALL = 64, 1 << 20  # elements of a storage for each that a view has, and those that nobody minds
_MAX_PICKLE_BYTES = 32 << 20
_MAX_RANK = 8
_STORAGES = {
    "Float": "F32", "Half": "F16", "BFloat16": "BF16", "Double": "F64", "Long": "I64", "Int": "I32", "Short": "I16",
    "Char": "I8", "Byte": "U8", "Bool": "BOOL",
}  # fmt: skip
_DTYPES = {
    "float32": "F32", "float16": "F16", "bfloat16": "BF16", "float64": "F64", "int64": "I64", "int32": "I32",
    "int16": "I16", "int8": "I8", "uint8": "U8", "bool": "BOOL", "uint16": "U16", "uint32": "U32", "uint64": "U64",
    "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "float8_e8m0fnu": "F8_E8M0",
}  # fmt: skip
_UNTYPED = "torch.storage.UntypedStorage"
_WEIGHTS = ("state_dict", "model_state_dict", "model")  # where training scripts keep the weights among other things
_WRAPPERS = ("module.", "_orig_mod.")  # what parallel and compiled modules put before every name


@dataclass(frozen=True)
class _Storage:
    """Attributes:
    key: its name in the archive.
    dtype: of its elements, in safetensors' words; empty where the tensors say it.
    count: elements, or bytes where it has no dtype.
    """

    key: str
    dtype: str
    count: int


@dataclass(frozen=True)
class _View:
    """A tensor as the pickle describes it: sizes and steps in elements."""

    storage: _Storage
    dtype: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True)
class Strided:
    """Elements of one type at steps that are not those of a plain array.

    Attributes:
        file: that holds them.
        dtype: a key of `BITS`.
        shape: extents, outermost first.
        begin: first byte in the file.
        strides: elements from an entry of each axis to the next.
    """

    file: Bytes
    dtype: str
    shape: tuple[int, ...]
    begin: int
    strides: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of its values."""
        return math.prod(self.shape) * BITS[self.dtype] // 8

    @property
    def where(self) -> str:
        """Name of the file."""
        return self.file.where

    @property
    def in_order(self) -> bool:
        """Not where the view is transposed."""
        return self.strides[0] == max(self.strides)

    def rows(self, begin: int, end: int) -> NDArray[np.generic]:
        """As `Stored.rows`; what lies between the elements of these rows is read too."""
        import numpy as np

        shape = (end - begin, *self.shape[1:])
        size = BITS[self.dtype] // 8
        at = self.begin + begin * self.strides[0] * size
        span = Plain(self.file, self.dtype, (_span(shape, self.strides),), at)
        flat = span.rows(0, span.shape[0])
        steps = tuple(step * size for step in self.strides)
        return np.ascontiguousarray(np.lib.stride_tricks.as_strided(flat, shape, steps))


def open_torch(folder: Folder, name: str, model: str, config: Config) -> Opened:
    """Open a file, or the index of several.

    Args:
        folder: of the file.
        name: of the file.
        model: name of the model.
        config: of the folder.

    Raises:
        BadInput: not such a file, damaged, or it asks for anything but tensors.
    """
    index = name if name.endswith(INDEX) else None
    shard_of = read_index(folder, name, ".bin") if index else {}
    set_aside: dict[str, str] = {}
    shards = {}
    for shard in sorted(set(shard_of.values())) or [name]:
        shards[shard], beside = _read(folder.file(shard))
        set_aside |= beside
    return Opened(model, folder, config, Tensors(join(folder, index, shard_of, shards)), set_aside)


def _read(file: Bytes) -> tuple[dict[str, Stored], dict[str, str]]:
    """Tensors by name, and what else is in the file, each with the reason for which it is left."""
    if bytes(file.read(0, min(file.size, 4))) != b"PK\3\4":
        legacy = "is a pickle of PyTorch before 1.6, which is not read" if _is_pickle(file) else "is no file of PyTorch"
        raise BadInput(legacy, where=file.where, hint=CONVERT if _is_pickle(file) else "download the file again")
    entries = read_entries(file)
    found = [name for name in entries if name.endswith("/data.pkl") and name.count("/") == 1]
    prefix = found[0].removesuffix("data.pkl") if len(found) == 1 else ""
    if not prefix or f"{prefix}constants.pkl" in entries:
        what = "is a program of TorchScript" if prefix else "has no data.pkl: it was not written by torch.save"
        raise BadInput(what, where=file.where, hint="save the state_dict() of the model")
    if f"{prefix}byteorder" in entries and _content(file, entries[f"{prefix}byteorder"]) != b"little":
        raise BadInput("was written on a big-endian machine", where=file.where, hint=CONVERT)
    value = read_pickle(_content(file, entries[found[0]]), _makers(file.where), _storage(file.where), file.where)
    views, set_aside = _weights(value, file.where)
    return {name: _stored(name, view, file, entries, prefix) for name, view in views.items()}, set_aside


def _is_pickle(file: Bytes) -> bool:
    return bytes(file.read(0, min(file.size, 1))) == b"\x80"


def _content(file: Bytes, entry: Entry) -> bytes:
    if entry.size > _MAX_PICKLE_BYTES:
        what = f"entry '{shown(entry.name)}' has {entry.size} bytes, more than {_MAX_PICKLE_BYTES}"
        raise BadInput(what, where=file.where)
    raw = bytes(file.read(data_begin(file, entry), entry.size))
    if zlib.crc32(raw) != entry.crc:
        raise BadInput(f"entry '{shown(entry.name)}' is damaged", where=file.where, hint="download the file again")
    return raw


def _makers(where: str) -> dict[str, Make | None]:
    """The globals that may stand in weights, and what is made of their arguments: only tables, tuples and views."""

    def view(arguments: tuple[Any, ...], dtype: Global | None = None) -> _View:
        storage, offset, shape, strides, *_ = arguments
        if not isinstance(storage, _Storage) or type(offset) is not int:
            raise TypeError
        if not (_are_sizes(shape) and _are_sizes(strides) and len(shape) == len(strides) and offset >= 0):
            raise BadInput("a tensor in it has sizes or strides that are no natural numbers, or too many", where=where)
        kind = storage.dtype if dtype is None else _DTYPES[dtype.name.removeprefix("torch.")]
        if not kind or kind != (storage.dtype or kind):
            raise TypeError
        return _View(storage, kind, offset, shape, strides)

    def typed(arguments: tuple[Any, ...]) -> _View:
        dtype = arguments[6]
        if not isinstance(dtype, Global):
            raise TypeError
        return view(arguments[:6], dtype)

    def ordered(arguments: tuple[Any, ...]) -> dict[Any, Any]:
        if arguments:
            raise TypeError
        return {}

    def size(arguments: tuple[Any, ...]) -> tuple[int, ...]:
        (extents,) = arguments
        if not _are_sizes(extents):
            raise TypeError
        return extents  # type: ignore[no-any-return]

    makers: dict[str, Make | None] = {
        "collections.OrderedDict": ordered,
        "torch._utils._rebuild_tensor_v2": view,
        "torch._utils._rebuild_tensor_v3": typed,
        "torch._utils._rebuild_parameter": lambda arguments: arguments[0],
        "torch.Size": size,
        _UNTYPED: None,
    }
    makers |= dict.fromkeys(f"torch.{name}Storage" for name in _STORAGES)
    makers |= dict.fromkeys(f"torch.{name}" for name in _DTYPES)
    return makers


def _are_sizes(value: object) -> bool:
    return (
        isinstance(value, tuple) and len(value) <= _MAX_RANK and all(type(item) is int and item >= 0 for item in value)
    )


def _storage(where: str) -> Make:
    def make(arguments: tuple[Any, ...]) -> _Storage:
        word, kind, key, _, count = arguments
        if word != "storage" or not isinstance(kind, Global) or not isinstance(key, str) or type(count) is not int:
            raise TypeError
        if count < 0:
            raise BadInput(f"storage '{shown(key)}' is said to have {count} elements", where=where)
        name = kind.name.removeprefix("torch.").removesuffix("Storage")
        if kind.name != _UNTYPED and name not in _STORAGES:
            raise TypeError
        return _Storage(key, _STORAGES.get(name, ""), count)

    return make


def _weights(value: Any, where: str) -> tuple[dict[str, _View], dict[str, str]]:
    """The table of tensors, at the top or one level below it; what lies beside it is named."""
    if not isinstance(value, dict):
        raise BadInput("holds no table of tensors", where=where, hint="save the state_dict() of the model")
    tables = [name for name in _WEIGHTS if isinstance(value.get(name), dict) and _has_tensors(value[name])]
    set_aside: dict[str, str] = {}
    if len(tables) == 1:
        set_aside = {
            str(name): f"lies beside '{tables[0]}', which holds the weights" for name in value if name != tables[0]
        }
        value = value[tables[0]]
    views: dict[str, _View] = {}
    for name, item in value.items():
        if isinstance(name, str) and isinstance(item, _View):
            views[name] = item
        elif isinstance(item, (dict, list, tuple)) and item:
            what = f"'{shown(str(name))}' is neither a tensor nor a plain value"
            raise BadInput(what, where=where, hint="save the state_dict() of the model")
        else:
            set_aside[str(name)] = "is no tensor"
    if not views:
        raise BadInput("holds no table of tensors", where=where, hint="save the state_dict() of the model")
    for wrapper in _WRAPPERS:
        if all(name.startswith(wrapper) for name in views):
            views = {name.removeprefix(wrapper): view for name, view in views.items()}
    return views, set_aside


def _has_tensors(table: Mapping[Any, Any]) -> bool:
    return any(isinstance(item, _View) for item in table.values())


def _stored(name: str, view: _View, file: Bytes, entries: Mapping[str, Entry], prefix: str) -> Stored:
    """Check that a view lies in its storage, and the storage in the file."""

    def refuse(what: str) -> BadInput:
        return BadInput(f"tensor '{shown(name)}' {what}", where=file.where)

    storage, size = view.storage, BITS[view.dtype] // 8
    entry = entries.get(f"{prefix}data/{storage.key}")
    if entry is None:
        raise refuse(f"is in storage '{shown(storage.key)}', which is not in the file")
    count = storage.count if storage.dtype else storage.count // size
    if count * size > entry.size:
        raise refuse(f"is in storage '{shown(storage.key)}', which has {entry.size} bytes and not {count * size}")
    if math.prod(view.shape) > count or view.offset + _span(view.shape, view.strides) > count:
        raise refuse(f"reaches beyond the {count} elements of its storage")
    span, values = _span(view.shape, view.strides), math.prod(view.shape)
    if span > _WIDEST_SPREAD * values + _SMALL:
        what = f"has {values:,} values, spread over {span:,} elements, and all of these would be read"
        raise BadInput(f"tensor '{shown(name)}' {what}", where=file.where, hint="save it with .contiguous()")
    begin = data_begin(file, entry) + view.offset * size
    steps = [math.prod(view.shape[axis + 1 :]) for axis in range(len(view.shape))]
    plain = all(extent <= 1 or step == own for extent, step, own in zip(view.shape, view.strides, steps, strict=True))
    if plain or not math.prod(view.shape):
        return Plain(file, view.dtype, view.shape, begin)
    return Strided(file, view.dtype, view.shape, begin, view.strides)


def _span(shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """Elements from the first of a view to its last."""
    if not math.prod(shape):
        return 0
    return 1 + sum((extent - 1) * step for extent, step in zip(shape, strides, strict=True))
