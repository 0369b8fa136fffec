"""The data of an evaluation, read and cut; all of it is checked here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from colibri.arrays import Array, finite_rows, read_array, read_arrays, token_ids
from colibri.errors import BadInput, UsageError, shown
from colibri.package import ModelFacts
from colibri.samples import read_samples

_ENCODED, _DECODED = "input_ids", "labels"
PADDING = -100  # as transformers pads labels


@dataclass(frozen=True)
class Window:
    """Tokens from an empty context on.

    Attributes:
        inputs: ``[length]``.
        targets: ``[length]``, the token behind each input.
        skipped: positions at the beginning that only give context.
        source: what an encoder takes first; empty without one.
    """

    inputs: NDArray[np.int64]
    targets: NDArray[np.int64]
    skipped: int = 0
    source: NDArray[np.int64] | None = None

    @property
    def scored(self) -> int:
        """Positions that count."""
        return self.inputs.size - self.skipped


@dataclass(frozen=True)
class TokenData:
    """Windows, and how they were cut: ``window`` and ``stride`` in tokens, 0 where each is a row of the file."""

    windows: tuple[Window, ...]
    window: int
    stride: int
    left_out: int

    @property
    def count(self) -> int:
        """Tokens that are scored."""
        return sum(window.scored for window in self.windows)


@dataclass(frozen=True)
class SampleData:
    """Samples ``x [n, inputs]`` with what should come out.

    Attributes:
        values: ``[n, outputs]``; None without them.
        classes: ``[n]``; None without them.
    """

    x: NDArray[np.float32]
    values: NDArray[np.float64] | None
    classes: NDArray[np.int64] | None
    left_out: int

    def some(self, rows: slice | NDArray[np.intp]) -> SampleData:
        """These samples alone."""
        values, classes = self.values, self.classes
        return SampleData(
            self.x[rows], None if values is None else values[rows], None if classes is None else classes[rows], 0
        )


def read_rows(
    path: Path, facts: ModelFacts, context: int, window: int | None, stride: int | None, limit: int | None
) -> TokenData | SampleData:
    """What a model of this kind is evaluated on: see `read_tokens` and `read_labelled`.

    Raises:
        BadInput: unreadable, or not for this model.
        UsageError: window, stride and limit that cannot be meant.
    """
    if facts.kind == "tokens":
        return read_tokens(path, facts, context, window, stride, limit)
    if window is not None or stride is not None:
        raise UsageError("are for token models", where="--window, --stride")
    return read_labelled(path, facts, limit)


def read_tokens(
    path: Path, facts: ModelFacts, context: int, window: int | None, stride: int | None, limit: int | None
) -> TokenData:
    """Read tokens, flat or a sequence a row, and cut them into windows.

    A flat array is one text. The window defaults to the context, and the stride to the window; with a shorter stride
    only the tokens that no window before has scored count. What does not fill a window is left out.

    With an encoder the file is a ``.npz`` of ``input_ids [rows, length]`` and ``labels [rows, length]``, in which a row
    ends before its first -100.

    Args:
        limit: most tokens that are scored, in whole windows.

    Raises:
        BadInput: unreadable, of another shape, beyond the vocabulary, or too short for one window.
        UsageError: window, stride and limit that cannot be meant.
    """
    where = shown(str(path), 300)
    if facts.source:
        if window is not None or stride is not None:
            raise UsageError("a model with an encoder takes each row of the data whole", where="--window, --stride")
        whole = read_pairs(read_arrays(path), facts, context, where)
        return _limited(TokenData(whole, 0, 0, 0), limit)
    array = token_ids(read_array(path), facts.outputs, where)
    rows = array.reshape(1, -1) if array.ndim == 1 else array
    length = window or (context if array.ndim == 1 else min(context, max(1, rows.shape[1] - 1)))
    step = stride or length
    if length > context:
        raise UsageError(f"{length} is more than the context of {context}", where="--window")
    if step > length:
        raise UsageError(f"{step} is more than the window of {length}: tokens would be left out", where="--stride")
    if rows.shape[1] < length + 1:
        what = f"has {rows.shape[1]} tokens{'' if array.ndim == 1 else ' a row'}; one window takes {length + 1}"
        raise BadInput(what, where=where, hint="ask for a smaller --window, or give more tokens")
    windows = [
        Window(
            row[start : start + length], row[start + 1 : start + length + 1], 0 if start == 0 else length - step
        )
        for row in rows
        for start in range(0, rows.shape[1] - length, step)
    ]  # fmt: skip
    cut = TokenData(tuple(windows), length, step, 0)
    left = rows.size - len(rows) - cut.count
    return _limited(TokenData(cut.windows, length, step, left), limit)


def read_pairs(arrays: dict[str, Array], facts: ModelFacts, context: int, where: str) -> tuple[Window, ...]:
    """A window for each row of a source and its translation: decoding begins with the model's start.

    Raises:
        BadInput: arrays that are missing, of another shape, beyond the vocabulary, or longer than the model takes.
    """
    for name in (_ENCODED, _DECODED):
        if name not in arrays:
            what = f"has no {name}"
            raise BadInput(what, where=where, hint="a model with an encoder takes a .npz of input_ids and labels")
    sources = _ragged(arrays[_ENCODED], facts.outputs, facts.source, f"{where}: {_ENCODED}")
    targets = _ragged(arrays[_DECODED], facts.outputs, context, f"{where}: {_DECODED}")
    if len(sources) != len(targets):
        raise BadInput(f"has {len(sources)} rows in {_ENCODED} and {len(targets)} in {_DECODED}", where=where)
    return tuple(
        Window(np.concatenate([[facts.start], target[:-1]]), target, 0, source)
        for source, target in zip(sources, targets, strict=True)
    )


def read_labelled(path: Path, facts: ModelFacts, limit: int | None) -> SampleData:
    """Read samples: ``x`` and, if there is, ``y`` or else ``pred`` of a ``.npz``; or ``x`` alone, ``.npy`` or ``.csv``.

    ``y`` is ``[n, outputs]`` of numbers, or ``[n]`` of integers: the class of each.

    Raises:
        BadInput: unreadable, of another shape, not finite, or classes that the model has not.
    """
    where = shown(str(path), 300)
    values, classes = None, None
    if path.suffix not in (".npy", ".npz"):
        x = read_samples(path, facts.inputs, facts.labels.get("inputs", ()))
    else:
        arrays = read_arrays(path)
        name = "" if "" in arrays else "x"
        if name not in arrays:
            raise BadInput("has no x", where=where, hint="save x [samples, inputs] and y, see docs/quality.md")
        x = finite_rows(arrays[name], facts.inputs, f"{where}: x" if name else where)
        answers = next((key for key in ("y", "pred") if key in arrays), None)
        if answers is not None:
            values, classes = _answers(arrays[answers], len(x), facts.outputs, f"{where}: {answers}")
    kept = len(x) if limit is None else min(limit, len(x))
    return SampleData(
        x[:kept],
        None if values is None else values[:kept],
        None if classes is None else classes[:kept],
        len(x) - kept,
    )


def _answers(
    array: Array, count: int, outputs: int, where: str
) -> tuple[NDArray[np.float64] | None, NDArray[np.int64] | None]:
    """Values or classes."""
    if len(array.shape) == 0 or len(array) != count:
        shape = " × ".join(str(extent) for extent in array.shape)
        raise BadInput(f"holds {array.dtype} [{shape}] for {count} samples", where=where)
    if array.dtype.kind in "iu" and array.ndim == 1 and outputs > 1:
        if array.min() < 0 or array.max() >= outputs:
            raise BadInput(f"has classes beyond the {outputs} outputs", where=where)
        return None, array.astype(np.int64)
    shaped = array.reshape(count, 1) if array.ndim == 1 else array
    return finite_rows(shaped, outputs, where).astype(np.float64), None


def _limited(data: TokenData, limit: int | None) -> TokenData:
    """The first windows that score no more than ``limit`` tokens."""
    if limit is None:
        return data
    total, kept = 0, 0
    for window in data.windows:
        if total + window.scored > limit:
            break
        total += window.scored
        kept += 1
    if kept == 0:
        raise UsageError(f"{limit} tokens are less than the first window scores", where="--limit")
    return TokenData(data.windows[:kept], data.window, data.stride, data.left_out + data.count - total)


def _ragged(array: Array, vocabulary: int, most: int, where: str) -> Sequence[NDArray[np.int64]]:
    """Rows up to their padding."""
    if array.dtype.kind not in "iu" or array.ndim != 2 or not array.size:
        raise BadInput(f"holds {array.dtype} of {array.ndim} dimensions, not rows of tokens", where=where)
    rows = []
    for number, row in enumerate(array):  # not as int64, in which a huge id may become the padding
        padding = np.flatnonzero(row == PADDING)
        tokens = row[: padding[0]] if padding.size else row
        if not 0 < tokens.size <= most:
            raise BadInput(f"row {number} has {tokens.size} tokens, the model takes 1 to {most}", where=where)
        rows.append(token_ids(tokens, vocabulary, f"{where}, row {number}"))
    return rows
