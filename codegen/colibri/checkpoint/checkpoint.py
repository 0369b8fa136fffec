"""A checkpoint as importers see it: config, and tensors of which each must be taken, or dropped with a reason."""

from __future__ import annotations

import bisect
import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from colibri.checkpoint.config import FILE_NAME
from colibri.checkpoint.files import read_whole
from colibri.checkpoint.forms import open_form
from colibri.checkpoint.leaves import SCALES, leaf
from colibri.checkpoint.licence import find_licence
from colibri.checkpoint.origin import find_origin
from colibri.checkpoint.quantised import block_of_scales, refuse_packed
from colibri.checkpoint.source import FP8, MXFP4, Opened, format_shape
from colibri.checkpoint.text_part import text_part
from colibri.checkpoint.tokenizer import FILE_NAME as TOKENIZER_NAME
from colibri.errors import BadInput, ColibriError, shown

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from colibri.checkpoint.lazy import Lazy
    from colibri.checkpoint.mxfp4 import StoredBlocks

_NAMED = 3  # names that an error lists before it only counts
_NEIGHBOURS = 24
_TOKENIZER_BYTES = 64 << 20
_PACKED, _PACKED_SCALES = "_blocks", "_scales"  # of a tensor that is stored as MXFP4, which these two make up
_NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")  # a whole component of a dotted name


@dataclass(frozen=True)
class Dropped:
    """Something that was stored but is not part of the model.

    Attributes:
        name: of the tensor, or of the file that was set aside.
        reason: one clause for the user.
        size: bytes that it takes in its file; 0 where the reason says it.
    """

    name: str
    reason: str
    size: int = 0


class Checkpoint:
    """An opened checkpoint, whatever its form.

    Attributes:
        name: of the model, as its folder or file is called.
        where: how errors name the checkpoint.
        config: its config.json, or what says the same.
        warnings: what the user may not expect of it.
    """

    def __init__(self, opened: Opened) -> None:
        """Wrap what a form read; `open` is the usual way in.

        Raises:
            BadInput: the config says that weights are quantised in a way that is not read, or a tensor is stored twice.
        """
        self.name = opened.name
        self.where = opened.folder.where
        self.config = opened.config
        self.warnings = opened.warnings
        self._opened = opened
        self._tensors = tensors = opened.tensors
        self._fingerprint = ""
        self._block = block_of_scales(opened.config)
        refuse_packed(tensors.names(), self.where)
        scales = {f"{name}{SCALES}" for name in tensors.names() if tensors.dtype(name) == FP8}
        self._packed = self._find_packed()
        parts = {*scales, *(f"{name}{end}" for name in self._packed for end in (_PACKED, _PACKED_SCALES))}
        self._names = tuple(sorted({*tensors.names()} - parts | self._packed))
        self._known = frozenset(self._names)
        self._left = dict.fromkeys(self._names)
        self._dropped = [Dropped(name, reason) for name, reason in opened.set_aside.items()]

    @classmethod
    def open(cls, path: str | Path) -> Checkpoint:
        """Open a folder, or a file that is a checkpoint: read config and headers, no weights.

        Raises:
            BadInput: anything that is not a complete, plain, unquantised checkpoint in a form that is read.
        """
        return cls(text_part(open_form(Path(path))))

    def names(self) -> tuple[str, ...]:
        """Return the names of all tensors, sorted, taken ones too; scales of 8- and 4-bit floats are part of theirs."""
        return self._names

    def left(self) -> tuple[str, ...]:
        """Return the names that are neither taken nor dropped yet, sorted."""
        return tuple(self._left)

    def has(self, name: str) -> bool:
        """Return whether the checkpoint stores a tensor of this name."""
        return name in self._known

    def shape(self, name: str) -> tuple[int, ...]:
        """Return a tensor's extents without reading or taking it.

        Raises:
            BadInput: no such tensor.
        """
        if not self.has(name):
            raise self._missing(name)
        return self._blocks(name).shape if name in self._packed else self._tensors.shape(name)

    def dtype(self, name: str) -> str:
        """Return the dtype as stored, in safetensors' words (``BF16``) or ``MXFP4``, without taking the tensor.

        Raises:
            BadInput: no such tensor.
        """
        if not self.has(name):
            raise self._missing(name)
        return MXFP4 if name in self._packed else self._tensors.dtype(name)

    def claim(self, name: str, shape: tuple[int, ...], why: str = "") -> Lazy:
        """Return a tensor that is read as fp32 when it is asked for. Each tensor can be claimed once.

        Args:
            name: of the tensor.
            shape: extents that the config asks for.
            why: config keys behind `shape`, e.g. ``num_local_experts × hidden_size``; for the error.

        Raises:
            BadInput: no such tensor, another shape, or not a float dtype.
            ColibriError: claimed or dropped before (a mistake of the importer).
        """
        from colibri.checkpoint.lazy import stored

        self._claim_shape(name, shape, why)
        return stored(self._blocks(name) if name in self._packed else leaf(self._tensors, name, self._block))

    def claim_blocks(self, name: str, shape: tuple[int, ...], why: str = "") -> StoredBlocks:
        """As `claim`, of a tensor whose `dtype` is MXFP4: its blocks, to be made matrices of."""
        self._claim_shape(name, shape, why)
        return self._blocks(name)

    def _claim_shape(self, name: str, shape: tuple[int, ...], why: str) -> None:
        found = self.shape(name)
        if found != shape:
            raise BadInput(
                f"shape {format_shape(found)}, expected {format_shape(shape)}" + (f" ({why})" if why else ""),
                where=self._tensors.where(name if name in self._tensors else f"{name}{_PACKED}"),
                hint=f"{FILE_NAME} and the weights disagree",
            )
        self._claim(name)

    def _find_packed(self) -> set[str]:
        """Names of the tensors that are stored as MXFP4."""
        found = {name.removesuffix(_PACKED) for name in self._tensors.names() if name.endswith(_PACKED)}
        found = {name for name in found if self._tensors.dtype(f"{name}{_PACKED}") == "U8"}
        for name in sorted(found):
            if name in self._tensors:
                what = f"'{shown(name)}' is stored twice, as it is and in MXFP4 blocks"
                raise BadInput(what, where=self.where, hint="remove whichever is not part of the model")
        return found

    def _blocks(self, name: str) -> StoredBlocks:
        from colibri.checkpoint.mxfp4 import StoredBlocks

        return StoredBlocks(self._tensors, f"{name}{_PACKED}", f"{name}{_PACKED_SCALES}")

    def take(self, name: str, shape: tuple[int, ...], why: str = "") -> NDArray[np.float32]:
        """Claim a tensor and read it at once: C-contiguous and owned by the caller.

        Raises:
            BadInput: as `claim`, or values that are not finite.
            ColibriError: as `claim`.
        """
        return self.claim(name, shape, why).read()

    def take_optional(self, name: str, shape: tuple[int, ...], why: str = "") -> NDArray[np.float32] | None:
        """As `take`, or None where the checkpoint does not store the tensor."""
        return self.take(name, shape, why) if self.has(name) else None

    def drop(self, name: str, reason: str) -> int:
        """Set aside a tensor, or all under a dotted prefix (``model.layers.4`` covers ``model.layers.4.x``, not 40).

        ``*`` stands for any one component: ``model.layers.*.self_attn.rotary_emb``. What was dropped before stays so.

        Returns:
            How many tensors this call dropped; 0 is no error.

        Raises:
            ColibriError: one of them was taken (a mistake of the importer).
        """
        parts = name.rstrip(".").split(".")
        pattern = r"\.".join("[^.]+" if part == "*" else re.escape(part) for part in parts)
        covers = re.compile(pattern + r"(\..*)?", re.DOTALL)
        covered = [stored for stored in self.names() if covers.fullmatch(stored)]
        before = {dropped.name for dropped in self._dropped}
        fresh = [stored for stored in covered if stored not in before]
        for stored in fresh:
            self._claim(stored)
            self._dropped.append(Dropped(stored, reason, self._tensors.nbytes(stored)))
        return len(fresh)

    def finish(self) -> list[Dropped]:
        """Return what was set aside, once every tensor is accounted for.

        Raises:
            BadInput: tensors that were neither taken nor dropped: their first names and how many.
        """
        if self._left:
            names = sorted(self._left, key=natural_order)
            listed = ", ".join(f"'{shown(name)}'" for name in names[:_NAMED])
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            raise BadInput(
                f"{len(names)} tensor(s) that this model does not have: {listed}{more}",
                where=self.where,
                hint=f"{FILE_NAME} and the weights disagree, or the model is a variant that is not supported",
            )
        return list(self._dropped)

    def parameters(self) -> int:
        """Return the number of stored values, dropped ones included."""
        return self._tensors.parameters()

    def fingerprint(self) -> str:
        """Return what tells it from other checkpoints, whatever its files are called. BadInput: an unreadable file."""
        if not self._fingerprint:
            self._fingerprint = self._tensors.fingerprint()
        return self._fingerprint

    def licence(self) -> str | None:
        """Return the licence that the checkpoint states of itself, one line, or None where it states none."""
        return find_licence(self._opened.folder, self.config, self._tensors.metadata)

    def origin(self) -> str | None:
        """Return where the checkpoint says that it comes from, one line, or None where it does not say it."""
        return find_origin(self._opened.folder, self.config, self._tensors.metadata)

    def tokenizer(self) -> bytes | None:
        """Return what its tokenizer.json holds, or None where there is no tokenizer. BadInput: it cannot be read."""
        folder, own = self._opened.folder, self._opened.tokenizer()
        if own is None and folder.has(TOKENIZER_NAME):
            return read_whole(folder.file(TOKENIZER_NAME), _TOKENIZER_BYTES)
        return own

    def _claim(self, name: str) -> None:
        if name not in self._left:
            raise ColibriError(f"importer uses tensor '{shown(name)}' twice", where=self.where)
        del self._left[name]

    def _missing(self, name: str) -> BadInput:
        near = nearest_name(name, self._left or self.names())
        return BadInput(
            f"no tensor '{shown(name)}'",
            where=self.where,
            hint=f"the nearest name is '{shown(near)}'" if near else "",
        )


def natural_order(name: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key that puts ``layers.2`` before ``layers.10``."""
    return tuple(
        (0, int(part), "") if part.isascii() and part.isdigit() and len(part) < 20 else (1, 0, part)
        for part in name.split(".")
    )


def nearest_name(name: str, names: Iterable[str]) -> str | None:
    """Return the name most like `name`, or None where nothing is near.

    Names with the same layer and expert numbers come first; the same tensor of another layer is no help. Only
    neighbours in alphabetical order, from either end of the name, are compared in full, so that a hundred thousand
    names cost no more than a sort.
    """
    candidates = {other for other in names if len(other) < 256}
    numbers = _NUMBER.findall(name)
    alike = {other for other in candidates if _NUMBER.findall(other) == numbers}
    twins = {other for other in candidates if _NUMBER.sub("#", other) == _NUMBER.sub("#", name)}
    for pool in (alike, candidates - twins):
        near = difflib.get_close_matches(name, _neighbours(name, pool), n=1, cutoff=0.6)
        if near:
            return near[0]
    return None


def _neighbours(name: str, pool: set[str]) -> set[str]:
    forward = sorted(pool)
    backward = sorted(other[::-1] for other in pool)
    at, back = bisect.bisect(forward, name), bisect.bisect(backward, name[::-1])
    near = forward[max(0, at - _NEIGHBOURS) : at + _NEIGHBOURS]
    return {*near, *(other[::-1] for other in backward[max(0, back - _NEIGHBOURS) : back + _NEIGHBOURS])}
