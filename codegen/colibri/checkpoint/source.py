"""Named tensors of a checkpoint in any form, read one at a time, or a part of one, as fp32.

A form (`forms/`) lists what is stored, as `Stored` tensors; everything behind this seam is the same for all forms.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from colibri.checkpoint.config import Config
from colibri.checkpoint.files import Bytes, Folder
from colibri.errors import BadInput, shown

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FP8 = "F8_E4M3"  # means nothing without its scales, which the caller multiplies in
MXFP4 = "MXFP4"  # 4-bit floats in blocks, see `mxfp4.py`
BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "U16": 16, "I16": 16, "U32": 32, "I32": 32, "U64": 64, "I64": 64,
    "F16": 16, "BF16": 16, "F32": 32, "F64": 64, "C64": 64,
    "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "F6_E2M3": 6, "F6_E3M2": 6, "F4": 4,
}  # fmt: skip
_FLOATS = ("F32", "F16", "BF16", "F64", FP8)
_NUMPY = {
    "BOOL": "?", "U8": "u1", "I8": "i1", "U16": "<u2", "I16": "<i2", "U32": "<u4", "I32": "<i4", "U64": "<u8",
    "I64": "<i8", "F16": "<f2", "F32": "<f4", "F64": "<f8", "BF16": "bfloat16", FP8: "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2", "F8_E8M0": "u1",
}  # fmt: skip


class Stored(Protocol):
    """One tensor where it lies.

    Attributes:
        dtype: of the elements, in the form's own words, such as ``BF16`` or ``Q8_0``.
        shape: extents, outermost first; empty for a scalar.
        nbytes: what it takes in its file.
        where: how errors name its file.
        in_order: whether a few entries of the outermost axis cost no more than their share.
    """

    @property
    def dtype(self) -> str: ...

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def nbytes(self) -> int: ...

    @property
    def where(self) -> str: ...

    @property
    def in_order(self) -> bool: ...

    def rows(self, begin: int, end: int) -> NDArray[np.generic]:
        """Return entries ``begin..end`` of the outermost axis (a scalar is one row), reading no others.

        Values are of the stored type, or fp32 where numpy has no such type; ``[end - begin, …]``, C-contiguous.

        Raises:
            BadInput: the file cannot be read, or the dtype has no meaning alone.
        """
        ...


@dataclass(frozen=True)
class Plain:
    """Elements of one of the types in `BITS`, one after the other, little-endian.

    Attributes:
        file: that holds them.
        dtype: a key of `BITS`.
        shape: extents, outermost first.
        begin: first byte in the file.
    """

    file: Bytes
    dtype: str
    shape: tuple[int, ...]
    begin: int

    @property
    def nbytes(self) -> int:
        """Bytes in the file."""
        return -(-math.prod(self.shape) * BITS[self.dtype] // 8)

    @property
    def where(self) -> str:
        """Name of the file."""
        return self.file.where

    @property
    def in_order(self) -> bool:
        """Entries lie one behind the other."""
        return True

    def rows(self, begin: int, end: int) -> NDArray[np.generic]:
        """As `Stored.rows`."""
        import ml_dtypes  # noqa: F401  (gives numpy the names bfloat16 and float8_e4m3fn)
        import numpy as np

        if self.dtype not in _NUMPY:
            raise BadInput(f"dtype {self.dtype} is not read yet", where=self.where, hint=_AS_BF16)
        kind = np.dtype(_NUMPY[self.dtype])
        inner = self.shape[1:]
        row = math.prod(inner) * kind.itemsize
        raw = self.file.read(self.begin + begin * row, (end - begin) * row)
        return np.frombuffer(raw, kind).reshape(end - begin, *inner)


_AS_BF16 = "store the weights as BF16"
_PIECE = 1 << 20  # values that are looked at together
_SAMPLED = 1024  # rows of all tensors together that a fingerprint has, or one of each where there are more tensors


@dataclass(frozen=True)
class Opened:
    """What a form makes of a path.

    Attributes:
        name: of the model, as its folder or file is called.
        folder: where the files beside the weights are (licence, tokenizer).
        config: `config.json`, or what says the same.
        tensors: all of them; none is read yet.
        set_aside: names of files that are not part of the model, each with the reason.
        tokenizer: makes what ``tokenizer.json`` would hold, where a form brings a tokenizer of its own, when it is
            asked; None means that it may lie in the folder.
        warnings: what the user may not expect of this file, one clause each.
    """

    name: str
    folder: Folder
    config: Config
    tensors: Tensors
    set_aside: Mapping[str, str] = field(default_factory=dict)
    tokenizer: Callable[[], bytes | None] = lambda: None
    warnings: tuple[str, ...] = ()


class Tensors:
    """All tensors of a checkpoint."""

    def __init__(self, stored: Mapping[str, Stored], metadata: Mapping[str, str] | None = None) -> None:
        """Take what a form found.

        Args:
            stored: the tensors by name.
            metadata: free text that the writer left.
        """
        self._stored = stored
        self._names = tuple(sorted(stored))
        self.metadata = dict(metadata or {})

    def names(self) -> tuple[str, ...]:
        """Return all names, sorted."""
        return self._names

    def __contains__(self, name: str) -> bool:
        return name in self._stored

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the extents of a tensor, outermost first. KeyError: no such tensor."""
        return self._stored[name].shape

    def dtype(self, name: str) -> str:
        """Return the dtype as stored, in its form's words (``BF16``). KeyError: no such tensor."""
        return self._stored[name].dtype

    def stored(self, name: str) -> Stored:
        """Return a tensor where it lies. KeyError: no such tensor."""
        return self._stored[name]

    def nbytes(self, name: str) -> int:
        """Return what a tensor takes in its file, in bytes. KeyError: no such tensor."""
        return self._stored[name].nbytes

    def where(self, name: str) -> str:
        """Return file and tensor for an error message. KeyError: no such tensor."""
        return f"{self._stored[name].where}: {shown(name)}"

    def parameters(self) -> int:
        """Return the number of values in all tensors."""
        return sum(math.prod(stored.shape) for stored in self._stored.values())

    def refuse_unless_floats(self, name: str) -> None:
        """Do nothing, where a tensor holds floats. BadInput: it does not. KeyError: no such tensor."""
        dtype = self.dtype(name)
        if dtype in BITS and dtype not in _FLOATS:
            narrow = dtype[0] == "F"
            raise BadInput(
                f"dtype {dtype} is {'not read yet' if narrow else 'not a float weight'}",
                where=self.where(name),
                hint=_AS_BF16 if narrow else f"expected {', '.join(_FLOATS[:-1])}",
            )

    def has_rows(self, name: str) -> bool:
        """Return whether rows of the last axis can be read alone, not only entries of the outermost one."""
        stored = self._stored[name]
        return isinstance(stored, Plain) or (len(stored.shape) < 3 and stored.in_order)

    def rows(self, name: str, begin: int, end: int) -> NDArray[np.float32]:
        """Return rows of the last axis as fp32, C-contiguous and owned by the caller; fp64 is rounded to nearest even.

        Args:
            name: of the tensor.
            begin, end: numbers of rows, the leading axes taken as one; of a vector numbers of its values.

        Returns:
            ``[end - begin, shape[-1]]``, or ``[end - begin]`` of a vector.

        Raises:
            KeyError: no such tensor.
            BadInput: a value that is not finite in fp32, or an unreadable file.
        """
        import numpy as np

        found = self._stored_rows(self._stored[name], begin, end)
        with np.errstate(over="ignore", invalid="ignore"):
            values = np.asarray(found, dtype=np.float32, order="C")
        # The extremes of an array with a NaN are NaN.
        if values.size and not (np.isfinite(values.max()) and np.isfinite(values.min())):
            raise self._not_finite(name)
        return values

    def byte_rows(self, name: str, begin: int, end: int) -> NDArray[np.uint8]:
        """As `rows`, of bytes. KeyError: no such tensor. BadInput: an unreadable file."""
        import numpy as np

        return self._stored_rows(self._stored[name], begin, end).astype(np.uint8)

    @staticmethod
    def _stored_rows(stored: Stored, begin: int, end: int) -> NDArray[np.generic]:
        """As `rows`, in the stored type; whole entries of the outermost axis are read where it must be."""
        shape = stored.shape
        if len(shape) < 3:
            return stored.rows(begin, end)
        if isinstance(stored, Plain):
            return replace(stored, shape=(math.prod(shape[:-1]), shape[-1])).rows(begin, end)
        each = max(1, math.prod(shape[1:-1]))
        first, last = begin // each, -(-end // each)
        entries = stored.rows(first, last).reshape((last - first) * each, shape[-1])
        return entries[begin - first * each : end - first * each]

    def _not_finite(self, name: str) -> BadInput:
        """What is wrong with the whole of a tensor, some row of which is not finite."""
        import numpy as np

        stored, nans, bad = self._stored[name], 0, 0
        count, step = stored.shape[0] if stored.shape else 1, max(1, _PIECE // max(1, math.prod(stored.shape[1:])))
        for begin in range(0, count, step):
            with np.errstate(over="ignore", invalid="ignore"):
                values = stored.rows(begin, min(begin + step, count)).astype(np.float32)
            nans += int(np.isnan(values).sum())
            bad += int(values.size - np.isfinite(values).sum())
        return BadInput(
            f"{bad} of {math.prod(stored.shape)} values are not finite ({nans} NaN, {bad - nans} infinite"
            + (" in fp32)" if self.dtype(name) == "F64" else ")"),
            where=self.where(name),
        )

    def fingerprint(self) -> str:
        """SHA-256, in hexadecimal, over names, types and shapes of all tensors, and rows of each from first to last.

        Some 1,000 rows in all, or one of each tensor: gigabytes are not read for it.

        Raises:
            BadInput: an unreadable file.
        """
        import numpy as np

        digest = hashlib.sha256()
        for name in self._names:
            stored = self._stored[name]
            digest.update(f"{name}\n{stored.dtype} {format_shape(stored.shape)}\n".encode())
            count = math.prod(stored.shape[:-1] or stored.shape)
            if not math.prod(stored.shape) or (isinstance(stored, Plain) and stored.dtype not in _NUMPY):
                continue
            most = max(1, _SAMPLED // len(self._names)) if stored.in_order else 1
            for row in np.unique(np.linspace(0, count - 1, min(count, most)).astype(int)).tolist():
                digest.update(self._stored_rows(stored, row, row + 1).tobytes())
        return digest.hexdigest()

    def read_stored(self, name: str, rows: slice | None = None) -> NDArray[np.generic]:
        """Return a tensor, or some rows of it, in its stored type, unchecked: bytes and integers too.

        Raises:
            KeyError: no such tensor.
            BadInput: an unreadable file, or a dtype that numpy has not.
        """
        stored = self._stored[name]
        begin, end, _ = (rows or slice(None)).indices(stored.shape[0] if stored.shape else 1)
        values = stored.rows(begin, max(begin, end))
        return values if stored.shape else values.reshape(())


def format_shape(shape: tuple[int, ...]) -> str:
    """Return a shape as people write it: ``8×32``, or ``scalar``."""
    return "×".join(str(size) for size in shape) or "scalar"
