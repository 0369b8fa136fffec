"""Arrays of numpy from files of the user's, which are untrusted: no pickles, nothing larger than said."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from colibri.checkpoint.untrusted import read_bounded
from colibri.errors import BadInput, shown

_MOST_BYTES = 512 << 20  # of a file, and of all arrays in it
_MOST_TOKENS = _MOST_BYTES // 8
_SUFFIX = ".npy"
_MAGIC = b"\x93NUMPY"
_LARGEST = float(np.finfo(np.float32).max)
Array = NDArray[np.generic]


def read_array(path: Path) -> Array:
    """The array of a ``.npy``, or the first one of a ``.npz``; a pipe serves as well.

    Raises:
        BadInput: unreadable, damaged, too large, or without an array.
    """
    arrays = _read(path, first=True)
    return next(iter(arrays.values()))


def read_arrays(path: Path) -> dict[str, Array]:
    """All arrays of a ``.npz`` by name; of a ``.npy`` the only one, by an empty name.

    Raises:
        BadInput: as `read_array`.
    """
    return _read(path, first=False)


def token_ids(array: Array, vocabulary: int, where: str) -> NDArray[np.int64]:
    """The array as token ids ``[tokens]`` or ``[sequences, tokens]``.

    Raises:
        BadInput: no integers, of another shape, empty, too many, or beyond the vocabulary.
    """
    if array.dtype.kind not in "iu" or array.ndim not in (1, 2) or not array.size:
        shape = " × ".join(str(extent) for extent in array.shape)
        hint = "save integers, [tokens] or [sequences, tokens]"
        raise BadInput(f"holds {array.dtype} [{shape}], not tokens", where=where, hint=hint)
    if array.size > _MOST_TOKENS:  # eight bytes each from here on, although a file may pack one into a few bits
        what = f"has {array.size:,} tokens, at most {_MOST_TOKENS:,} are read"
        raise BadInput(what, where=where, hint="save the first of them")
    if array.min() < 0 or array.max() >= vocabulary:
        raise BadInput(f"has tokens beyond the vocabulary of {vocabulary}", where=where)
    return array.astype(np.int64)


def finite_rows(array: Array, width: int, where: str) -> NDArray[np.float32]:
    """The array as fp32 rows of ``width`` numbers.

    Raises:
        BadInput: no numbers, of another shape, empty, or not finite in fp32.
    """
    if array.dtype.kind not in "fiu" or array.ndim != 2 or array.shape[1] != width or not len(array):
        shape = " × ".join(str(extent) for extent in array.shape)
        raise BadInput(f"holds {array.dtype} [{shape}], not numbers [samples, {width}]", where=where)
    wide = array.astype(np.float64)
    if not np.all(np.abs(wide) <= _LARGEST):
        raise BadInput("holds numbers that are not finite in fp32", where=where)
    return wide.astype(np.float32)


def _unpacked(file: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Array:
    """Piece by piece, so that it is in memory once."""
    with file.open(entry) as stream:
        array: Array = np.lib.format.read_array(stream, allow_pickle=False)
        return array


def _read(path: Path, *, first: bool) -> dict[str, Array]:
    raw = read_bounded(path, _MOST_BYTES, pipe=True)
    where = shown(str(path), 300)
    try:
        if not zipfile.is_zipfile(io.BytesIO(raw)):
            if not raw.startswith(_MAGIC):  # numpy would propose to read it unsafely
                raise BadInput("no array of numpy: neither .npy nor .npz", where=where)
            return {"": np.load(io.BytesIO(raw), allow_pickle=False)}
        with zipfile.ZipFile(io.BytesIO(raw)) as file:
            entries = [entry for entry in file.infolist() if entry.filename.endswith(_SUFFIX)]
            if not entries:
                raise BadInput("holds no array", where=where)
            entries = entries[:1] if first else entries
            if sum(entry.file_size for entry in entries) > _MOST_BYTES:
                raise BadInput(f"holds arrays of more than {_MOST_BYTES} bytes", where=where)
            return {entry.filename.removesuffix(_SUFFIX): _unpacked(file, entry) for entry in entries}
    except BadInput:
        raise
    except Exception as error:  # numpy and zipfile have a dozen kinds for damaged bytes
        raise BadInput(f"no array of numpy: {error}", where=where) from None
