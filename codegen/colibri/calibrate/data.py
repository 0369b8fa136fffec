"""Calibration data: tokens in windows or samples, from a file of the user's, checked where it enters."""

from __future__ import annotations

import hashlib
import io
import zipfile
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from colibri.arrays import read_array, read_arrays, token_ids
from colibri.errors import BadInput, UsageError, shown
from colibri.evaluate.data import PADDING, read_labelled, read_pairs
from colibri.graph.float32 import Float
from colibri.graph.graph import Graph, ModelKind
from colibri.model_facts import model_facts

FILE_NAME = "calibration.npz"
OWN = "self"  # in place of a file: text that the model itself writes
COUNTED = ("calibration text", "calibration", "calibrated matrices")  # work that is no number of bytes
TOKENS = 16_384  # that are taken where the user says no number
SAMPLES = 4_096
LONGEST = 512  # tokens of a window: attention of the reference takes memory by its square
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the first date of zip: files do not say when they were made


class Rounding(StrEnum):
    """How weights become integers: each to the nearest one, or with the error of those before it handed on."""

    NEAREST = "nearest"
    GPTQ = "gptq"


@dataclass(frozen=True)
class Calibration:
    """What the user asks for.

    Attributes:
        file: of tokens or samples; None for text that the model itself writes.
        limit: most tokens or samples that are taken; None for `TOKENS` and `SAMPLES`.
        rounding: what the statistics are used for, beside the choice of scales.
        sha256: that the data must have, as a recipe says; empty for any.
    """

    file: Path | None = None
    limit: int | None = None
    rounding: Rounding = Rounding.GPTQ
    sha256: str = ""


@dataclass(frozen=True, eq=False)
class CalibrationData:
    """What goes through the model.

    Attributes:
        windows: int64 tokens ``[rows, length]``, each row from an empty context on; of models without an encoder.
        pairs: source and decoder's tokens, int64; of models with one.
        samples: fp32 ``[samples, inputs]``; of sensor models.
    """

    windows: NDArray[np.int64] | None = None
    pairs: tuple[tuple[NDArray[np.int64], NDArray[np.int64]], ...] = ()
    samples: Float | None = None

    @property
    def count(self) -> int:
        """Tokens that the decoder takes, or samples."""
        if self.samples is not None:
            return len(self.samples)
        if self.windows is not None:
            return int(self.windows.size)
        return sum(tokens.size for _, tokens in self.pairs)

    @property
    def sequences(self) -> int:
        """Windows, each of which has states of its own; 1 for samples."""
        return 1 if self.windows is None else len(self.windows)

    def packed(self) -> bytes:
        """As a ``.npz`` that `read_calibration` reads again: equal bytes for equal data, whatever numpy or machine."""
        if self.samples is not None:
            arrays: dict[str, NDArray[np.generic]] = {"x": self.samples.astype("<f4")}
        elif self.windows is not None:
            arrays = {"tokens": self.windows.astype(_narrowest(self.windows))}
        else:
            # Reading puts the model's start before all targets but the last, which calibration has no use for.
            targets = [np.concatenate([tokens[1:], tokens[:1]]) for _, tokens in self.pairs]
            arrays = {"input_ids": _padded([source for source, _ in self.pairs]), "labels": _padded(targets)}
        raw = io.BytesIO()
        with zipfile.ZipFile(raw, "w", zipfile.ZIP_STORED) as file:
            for name, array in arrays.items():
                entry = io.BytesIO()
                np.lib.format.write_array(entry, np.ascontiguousarray(array), version=(1, 0), allow_pickle=False)
                info = zipfile.ZipInfo(f"{name}.npy", _EPOCH)
                info.create_system = 3
                file.writestr(info, entry.getvalue())
        return raw.getvalue()


def sha256(packed: bytes) -> str:
    """Of packed data, as a recipe has it."""
    return hashlib.sha256(packed).hexdigest()


def read_calibration(path: Path, graph: Graph, limit: int | None = None) -> CalibrationData:
    """Read tokens or samples for this model, and cut them.

    Tokens are a ``.npy`` (or the first array of a ``.npz``) of integers, one text or a text a row, cut into windows of
    the context, at most `LONGEST`, that follow each other; what does not fill one is left out. With an encoder: a
    ``.npz`` of ``input_ids`` and ``labels``. Samples: ``x`` of a ``.npz``, a ``.npy``, or a ``.csv``.

    Args:
        limit: most tokens or samples, in whole windows, taken from the beginning; None for all.

    Raises:
        BadInput: unreadable, empty, of another shape or type, beyond the vocabulary, or not finite.
        UsageError: the limit is less than one window.
    """
    facts, where = model_facts(graph), shown(str(path), 300)
    if graph.kind is ModelKind.SAMPLES:
        return CalibrationData(samples=read_labelled(path, facts, limit).x)
    if graph.source:
        windows = read_pairs(read_arrays(path), facts, graph.context, where)
        pairs = [(window.source, window.inputs) for window in windows if window.source is not None]
        lengths = np.cumsum([tokens.size for _, tokens in pairs])
        kept = len(pairs) if limit is None else int(np.count_nonzero(lengths <= limit))
        return CalibrationData(pairs=tuple(pairs[: _some(kept, limit)]))
    rows = token_ids(read_array(path), facts.outputs, where)
    rows = rows.reshape(1, -1) if rows.ndim == 1 else rows
    length = min(graph.context, LONGEST, rows.shape[1] if limit is None else min(limit, rows.shape[1]))
    a_row = rows.shape[1] // length
    windows_ = np.ascontiguousarray(rows[:, : a_row * length]).reshape(-1, length)
    return CalibrationData(windows=windows_ if limit is None else windows_[: _some(limit // length, limit)])


def require_sha256(data: CalibrationData, wanted: str, where: str) -> None:
    """Compare with the hash of a recipe; an empty one asks for nothing.

    Raises:
        BadInput: the data is not what the recipe was made with.
    """
    if wanted and sha256(data.packed()) != wanted:
        raise BadInput(
            "is not the calibration data of this recipe", where=where, hint=f"keep {FILE_NAME} beside its recipe.json"
        )


def _some(kept: int, limit: int | None) -> int:
    if kept == 0:
        raise UsageError(f"{limit} tokens are less than the first text has", where="--calibrate-limit")
    return kept


def _narrowest(tokens: NDArray[np.int64]) -> str:
    return "<u2" if int(tokens.max()) < 1 << 16 else "<u4"


def _padded(rows: list[NDArray[np.int64]]) -> NDArray[np.int32]:
    made = np.full((len(rows), max(row.size for row in rows)), PADDING, "<i4")
    for index, row in enumerate(rows):
        made[index, : row.size] = row
    return made
