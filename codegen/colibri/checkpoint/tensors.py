"""Named tensors of a checkpoint, read one at a time as fp32."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colibri.checkpoint.header import HEADER_LENGTH, Entry, format_shape, read_header
from colibri.checkpoint.layout import INDEX, WeightFiles
from colibri.errors import BadInput, shown

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FP8 = "F8_E4M3"  # means nothing without its scales, which the caller multiplies in
_FLOATS = ("F32", "F16", "BF16", "F64", FP8)
_NARROW_FLOATS = ("F8", "F6", "F4")  # beginnings of their names, once F64 is ruled out


@dataclass(frozen=True)
class _Stored:
    file: Path
    entry: Entry


class Tensors:
    """All tensors of a checkpoint. Opening reads the headers; `read` reads one tensor's data."""

    def __init__(self, weights: WeightFiles) -> None:
        """Read and check every header, and that index and shards agree.

        Raises:
            BadInput: a damaged header, a tensor in two shards, in another shard than the index says, or in none.
        """
        self._stored: dict[str, _Stored] = {}
        self._open: dict[Path, Any] = {}
        self.metadata: dict[str, str] = {}
        shard_of: dict[str, str] = {}
        for shard, file in weights.files.items():
            header = read_header(file)
            self.metadata.update(header.metadata)
            for name, entry in header.tensors.items():
                if name in shard_of:
                    raise BadInput(
                        f"tensor '{shown(name)}' is in '{shown(shard_of[name])}' and in '{shown(shard)}'",
                        where=shown(str(weights.folder)),
                    )
                shard_of[name] = shard
                self._stored[name] = _Stored(file, entry)
        if weights.weight_map is not None:
            _check_index(weights.folder / INDEX, weights.weight_map, shard_of)
        self._names = tuple(sorted(self._stored))

    def names(self) -> tuple[str, ...]:
        """Return all names, sorted."""
        return self._names

    def __contains__(self, name: str) -> bool:
        return name in self._stored

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the extents of a tensor, outermost first. KeyError: no such tensor."""
        return self._stored[name].entry.shape

    def dtype(self, name: str) -> str:
        """Return the dtype as stored, in safetensors' words (``BF16``). KeyError: no such tensor."""
        return self._stored[name].entry.dtype

    def where(self, name: str) -> str:
        """Return file and tensor for an error message. KeyError: no such tensor."""
        return f"{shown(str(self._stored[name].file))}: {shown(name)}"

    def read(self, name: str) -> NDArray[np.float32]:
        """Return one tensor as fp32, C-contiguous and owned by the caller; fp64 is rounded to nearest even.

        Raises:
            KeyError: no such tensor.
            BadInput: a dtype that is not a float weight, a value that is not finite in fp32, or an unreadable file.
        """
        import numpy as np

        dtype = self.dtype(name)
        if dtype not in _FLOATS:
            narrow = dtype[:2] in _NARROW_FLOATS
            raise BadInput(
                f"dtype {dtype} is {'not read yet' if narrow else 'not a float weight'}",
                where=self.where(name),
                hint="store the weights as BF16" if narrow else f"expected {', '.join(_FLOATS[:-1])}",
            )
        stored = self._load(name)
        with np.errstate(over="ignore", invalid="ignore"):
            values = np.asarray(stored, dtype=np.float32, order="C")
        finite = np.isfinite(values)
        if not finite.all():
            nans, bad = int(np.isnan(values).sum()), int(values.size - finite.sum())
            raise BadInput(
                f"{bad} of {values.size} values are not finite ({nans} NaN, {bad - nans} infinite"
                + (" in fp32)" if dtype == "F64" else ")"),
                where=self.where(name),
            )
        return values

    def _load(self, name: str) -> NDArray[np.generic]:
        """Return the tensor in its own dtype, by the safetensors library."""
        import ml_dtypes  # noqa: F401  (gives numpy the name bfloat16, which safetensors looks up)
        from safetensors import SafetensorError, safe_open

        stored = self._stored[name]
        if stored.entry.dtype == FP8:
            return self._load_fp8(name)
        try:
            if stored.file not in self._open:  # opening parses the whole header, so once a file
                self._open[stored.file] = safe_open(stored.file, framework="numpy")
            values: NDArray[np.generic] = self._open[stored.file].get_tensor(name)
        except (SafetensorError, OSError) as error:
            raise BadInput(f"cannot be read: {shown(str(error))}", where=self.where(name)) from None
        if values.shape != stored.entry.shape:
            raise BadInput(
                f"is {format_shape(values.shape)} now, was {format_shape(stored.entry.shape)} when it was opened",
                where=self.where(name),
            )
        return values

    def _load_fp8(self, name: str) -> NDArray[np.generic]:
        """The library has no numpy type for 8-bit floats, so these are read by their range in the file."""
        import ml_dtypes
        import numpy as np

        stored = self._stored[name]
        entry = stored.entry
        try:
            with stored.file.open("rb") as file:
                (length,) = HEADER_LENGTH.unpack(file.read(HEADER_LENGTH.size))
                file.seek(HEADER_LENGTH.size + length + entry.begin)
                raw = file.read(entry.end - entry.begin)
        except (OSError, struct.error, OverflowError) as error:
            raise BadInput(f"cannot be read: {shown(str(error))}", where=self.where(name)) from None
        if len(raw) != entry.end - entry.begin:
            raise BadInput("the file is shorter now than when it was opened", where=self.where(name))
        return np.frombuffer(raw, ml_dtypes.float8_e4m3fn).reshape(entry.shape)

    def parameters(self) -> int:
        """Return the number of values in all tensors."""
        return sum(math.prod(stored.entry.shape) for stored in self._stored.values())


def _check_index(index: Path, weight_map: dict[str, str], shard_of: dict[str, str]) -> None:
    where = shown(str(index))
    for name, shard in weight_map.items():
        if shard_of.get(name) != shard:
            there = f"it is in '{shown(shard_of[name])}'" if name in shard_of else "no shard has it"
            what = f"puts tensor '{shown(name)}' in '{shown(shard)}', which has not got it"
            raise BadInput(what, where=where, hint=there)
    unlisted = [name for name in shard_of if name not in weight_map]
    if unlisted:
        raise BadInput(
            f"does not list tensor '{shown(unlisted[0])}' of '{shown(shard_of[unlisted[0]])}'"
            + (f" and {len(unlisted) - 1} more" if len(unlisted) > 1 else ""),
            where=where,
        )
