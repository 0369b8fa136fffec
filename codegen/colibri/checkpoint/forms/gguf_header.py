"""The header of one GGUF file, checked before anything else reads the file.

Magic, version, counts, key-value pairs, then a table of tensors; the data follows at the next multiple of the
alignment, each tensor at a multiple of it as well. Source: `docs/gguf.md` of ggml and `gguf.cpp` of llama.cpp. Arrays
(a vocabulary has hundreds of thousands of strings) are stepped over, and read only when somebody asks for them.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from colibri.checkpoint.files import Bytes
from colibri.checkpoint.forms.gguf_blocks import FORMATS, BlockFormat
from colibri.errors import BadInput, shown

Scalar = int | float | bool | str
_MAGIC = b"GGUF"
_LFS_POINTER = b"version https://git-lfs"
_VERSIONS = (2, 3)
_MAX_KEYS, _MAX_TENSORS = 1 << 16, 1 << 17
_MAX_KEY_BYTES = 1 << 16  # the format's own limit
_MAX_STRING_BYTES = 16 << 20  # a chat template has some tens of thousands
_MAX_NAME_BYTES = 256
_MAX_ITEMS = 1 << 21  # of an array; the largest vocabularies have some 10^5 tokens and merges
_MAX_HEADER_BYTES = 256 << 20
_MAX_RANK = 4
_MAX_ALIGNMENT = 1 << 16
_WINDOW = 1 << 18
_STRING, _ARRAY, _BOOL = 8, 9, 7
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "B", 10: "Q", 11: "q", 12: "d"}
_LENGTH = struct.Struct("<Q")
_AGAIN = "download the file again"


@dataclass(frozen=True)
class Array:
    """An array of the header, where it lies.

    Attributes:
        kind: the format's number of its items' type.
        count: of items.
        begin: first byte of the first item.
    """

    kind: int
    count: int
    begin: int


@dataclass(frozen=True)
class TensorInfo:
    """One tensor as the table describes it.

    Attributes:
        form: of its blocks.
        shape: extents, outermost first (the file has them innermost first).
        begin: first byte in the file.
    """

    form: BlockFormat
    shape: tuple[int, ...]
    begin: int

    @property
    def nbytes(self) -> int:
        """What it takes in the file."""
        return math.prod(self.shape) // self.form.values * self.form.bytes


@dataclass(frozen=True)
class Header:
    """Attributes:
    file: that it was read from.
    values: scalars and strings by key, and where arrays are.
    tensors: by name, in the order of their bytes.
    """

    file: Bytes
    values: dict[str, Scalar | Array]
    tensors: dict[str, TensorInfo]

    def items(self, key: str) -> list[Scalar]:
        """Return the items of an array; empty where there is no such key.

        Raises:
            BadInput: it is no array, or its strings are not UTF-8.
        """
        found = self.values.get(key)
        if found is None:
            return []
        if not isinstance(found, Array):
            raise BadInput(f"{shown(key)} is {shown(str(found))!r}, expected an array", where=self.file.where)
        cursor = _Cursor(self.file, found.begin)
        if found.kind != _STRING:
            return [cursor.value(found.kind, key) for _ in range(found.count)]
        words: list[Scalar] = []
        for begin, length in cursor.strings(found.count, shown(key)):
            cursor.at = begin
            words.append(cursor.text(length, f"a string of {shown(key)}"))
        return words


class _Cursor:
    """Reads forward, in windows of the file."""

    def __init__(self, file: Bytes, at: int = 0) -> None:
        self.file = file
        self.at = at
        self._window = b""
        self._begin = at

    def error(self, what: str, hint: str = "") -> BadInput:
        return BadInput(f"header: {what}", where=self.file.where, hint=hint)

    def need(self, count: int, what: str) -> int:
        """See that so many bytes are left, and move behind them; returns where they begin."""
        begin, end = self.at, self.at + count
        if end > self.file.size:
            left = self.file.size - begin
            raise self.error(f"{what} needs {count} bytes, {left} are left in the file", _AGAIN)
        if end > _MAX_HEADER_BYTES:
            raise self.error(f"goes on behind {_MAX_HEADER_BYTES} bytes")
        self.at = end
        return begin

    def take(self, count: int, what: str) -> bytes:
        begin = self.need(count, what)
        if begin < self._begin or begin + count > self._begin + len(self._window):
            size = min(max(count, _WINDOW), self.file.size - begin)
            self._window, self._begin = bytes(self.file.read(begin, size)), begin
        offset = begin - self._begin
        return self._window[offset : offset + count]

    def number(self, code: str, what: str) -> int | float:
        form = struct.Struct(f"<{code}")
        found: int | float = form.unpack(self.take(form.size, what))[0]
        return found

    def count(self, code: str, what: str, most: int, least: int) -> int:
        """A count of things of at least `least` bytes each."""
        found = int(self.number(code, what))
        if found > most:
            raise self.error(f"{what} is {found}, more than {most}")
        if found * least > self.file.size - self.at:
            left = self.file.size - self.at
            raise self.error(f"{what} is {found}, but only {left} bytes are left in the file", _AGAIN)
        return found

    def string(self, what: str, most: int) -> str:
        length = int(self.number("Q", f"length of {what}"))
        if length > most:
            raise self.error(f"{what} has {length} bytes, more than {most}")
        return self.text(length, what)

    def text(self, length: int, what: str) -> str:
        try:
            return self.take(length, what).decode("utf-8")
        except UnicodeDecodeError:
            raise self.error(f"{what} is not UTF-8") from None

    def value(self, kind: int, key: str) -> Scalar:
        name = f"value of {shown(key)}"
        if kind == _STRING:
            return self.string(name, _MAX_STRING_BYTES)
        found = self.number(_SCALARS[kind], name)
        if kind == _BOOL and found not in (0, 1):
            raise self.error(f"{name} is {found}, expected a boolean")
        return bool(found) if kind == _BOOL else found

    def array(self, key: str) -> Array:
        """Step over an array."""
        name = shown(key)
        kind = int(self.number("I", f"type of {name}"))
        if kind == _ARRAY:
            raise self.error(f"{name} is an array of arrays, which no key of a model is")
        if kind != _STRING and kind not in _SCALARS:
            raise self.error(f"{name} has items of the unknown type {kind}")
        size = 8 if kind == _STRING else struct.calcsize(_SCALARS[kind])
        count = self.count("Q", f"number of items of {name}", _MAX_ITEMS, size)
        found = Array(kind, count, self.at)
        if kind != _STRING:
            self.need(count * size, name)
            return found
        for _ in self.strings(count, name):
            pass
        return found

    def strings(self, count: int, name: str) -> Iterator[tuple[int, int]]:
        """Step over strings, of which there are many; yields where each begins and how long it is."""
        unpack, at, end = _LENGTH.unpack_from, self.at, min(self.file.size, _MAX_HEADER_BYTES)
        for _ in range(count):
            if at + 8 > self._begin + len(self._window) or at < self._begin:
                self.at = at
                self.take(8, name)
            (length,) = unpack(self._window, at - self._begin)
            begin, at = at + 8, at + 8 + length
            if at > end:
                self.at = begin
                self.need(length, f"a string of {name}")
            yield begin, length
        self.at = at


def is_gguf(file: Bytes) -> bool:
    """Return whether a file begins as GGUF does."""
    return file.size >= len(_MAGIC) and file.read(0, len(_MAGIC)) == _MAGIC


def read_header(file: Bytes) -> Header:
    """Read and check the header of a GGUF file.

    Raises:
        BadInput: not GGUF, version 1, big-endian, a key or a tensor twice, a size that is not in the file, a number
            format that is not read, or tensors with a hole, an overlap or an offset that is not aligned.
    """
    cursor = _Cursor(file)
    _check_start(cursor)
    tensor_count = cursor.count("Q", "number of tensors", _MAX_TENSORS, 8 + 4 + 8 + 4 + 8)
    key_count = cursor.count("Q", "number of keys", _MAX_KEYS, 8 + 4 + 1)
    values: dict[str, Scalar | Array] = {}
    for _ in range(key_count):
        key = cursor.string("a key", _MAX_KEY_BYTES)
        if key in values:
            raise cursor.error(f"key {shown(key)} is there twice")
        kind = int(cursor.number("I", f"type of {shown(key)}"))
        if kind == _ARRAY:
            values[key] = cursor.array(key)
        elif kind == _STRING or kind in _SCALARS:
            values[key] = cursor.value(kind, key)
        else:
            raise cursor.error(f"key {shown(key)} has the unknown type {kind}")
    alignment = _alignment(cursor, values)
    tensors: dict[str, TensorInfo] = {}
    for _ in range(tensor_count):
        name = cursor.string("the name of a tensor", _MAX_NAME_BYTES)
        if name in tensors:
            raise cursor.error(f"tensor '{shown(name)}' is there twice")
        tensors[name] = _tensor(cursor, name, alignment)
    data = _aligned(cursor.at, alignment)
    placed = {name: TensorInfo(info.form, info.shape, data + info.begin) for name, info in tensors.items()}
    placed = dict(sorted(placed.items(), key=lambda item: item[1].begin))
    _check_cover(cursor, placed, data, alignment)
    return Header(file, values, placed)


def _check_start(cursor: _Cursor) -> None:
    start = cursor.file.read(0, min(len(_LFS_POINTER), cursor.file.size))
    if start == _LFS_POINTER:
        raise BadInput(
            "is a Git LFS pointer, not the weights", where=cursor.file.where, hint="run `git lfs pull` there"
        )
    if start[:4] != _MAGIC:
        raise BadInput("is not GGUF: it does not begin with those four letters", where=cursor.file.where, hint=_AGAIN)
    cursor.need(4, "magic")
    version = int(cursor.number("I", "version"))
    if version in _VERSIONS:
        return
    if int.from_bytes(version.to_bytes(4, "little"), "big") in (1, *_VERSIONS):
        raise BadInput(
            "is big-endian GGUF, which is not read",
            where=cursor.file.where,
            hint="convert it with gguf_convert_endian.py of llama.cpp",
        )
    hint = "convert the model anew with a current llama.cpp" if version == 1 else "versions 2 and 3 are read"
    raise BadInput(f"is GGUF of version {version}, which is not read", where=cursor.file.where, hint=hint)


def _alignment(cursor: _Cursor, values: dict[str, Scalar | Array]) -> int:
    found = values.get("general.alignment", 32)
    if not isinstance(found, int) or isinstance(found, bool) or not 8 <= found <= _MAX_ALIGNMENT or found & (found - 1):
        raise cursor.error(f"general.alignment is {shown(str(found))!r}, expected a power of two from 8 on")
    return found


def _aligned(at: int, alignment: int) -> int:
    return -(-at // alignment) * alignment


def _tensor(cursor: _Cursor, name: str, alignment: int) -> TensorInfo:
    what = f"tensor '{shown(name)}'"
    rank = int(cursor.number("I", what))
    if not 1 <= rank <= _MAX_RANK:
        raise cursor.error(f"{what} has {rank} dimensions, expected 1 to {_MAX_RANK}")
    extents = [int(cursor.number("Q", what)) for _ in range(rank)]
    number, begin = int(cursor.number("I", what)), int(cursor.number("Q", what))
    if number not in FORMATS:
        raise cursor.error(f"{what} has the unknown number format {number}")
    form = FORMATS[number]
    if form.layout is None:
        raise cursor.error(
            f"{what} is {form.name}, which is not read", "give the model in F16, Q8_0 or another of docs/checkpoints.md"
        )
    if min(extents) < 1 or math.prod(extents) // form.values * form.bytes > cursor.file.size:
        sizes = "×".join(map(str, reversed(extents)))
        raise cursor.error(f"{what} has the shape {sizes} in {form.name}, which is not in the file", _AGAIN)
    if extents[0] % form.values:
        raise cursor.error(f"{what} has rows of {extents[0]} values, no multiple of the {form.values} of {form.name}")
    if begin % alignment:
        raise cursor.error(f"{what} begins at {begin}, no multiple of the alignment {alignment}")
    return TensorInfo(form, tuple(reversed(extents)), begin)


def _check_cover(cursor: _Cursor, tensors: dict[str, TensorInfo], data: int, alignment: int) -> None:
    """Each tensor follows the one before, and the last one ends the file; only padding lies between."""
    end, before, size = data, "", cursor.file.size
    for name, info in tensors.items():
        if info.begin < end:
            raise cursor.error(f"tensors '{shown(before)}' and '{shown(name)}' overlap")
        if info.begin > end:
            raise cursor.error(f"{info.begin - end} bytes before tensor '{shown(name)}' belong to no tensor")
        if info.begin + info.nbytes > size:
            missing = info.begin + info.nbytes - size
            raise cursor.error(f"truncated: {missing} bytes of tensor '{shown(name)}' are missing", _AGAIN)
        end, before = _aligned(info.begin + info.nbytes, alignment), name
    if size > end and tensors:
        raise cursor.error(f"{size - end} bytes behind the last tensor belong to no tensor", _AGAIN)
