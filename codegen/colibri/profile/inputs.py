"""What the profile runs on: the user's data, or pseudo-random inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from colibri.arrays import finite_rows, read_array, token_ids
from colibri.emulate.protocol import Request
from colibri.errors import BadInput
from colibri.package import Package

MOST = 1024  # tokens or calls of a file that are run, if nothing else is said
_SEED = 7
_CALLS = 60  # of a sample model, built-in inputs
_EXTREMES = (0.0, 1e-41, 1e-30, 1e6)  # times the first call's samples: zeros, denormals, very small, very large
_SEQUENCES, _POSITIONS = 4, 24  # of a token model, built-in inputs for the spread


@dataclass(frozen=True)
class Inputs:
    """Sequences of tokens ``[length] uint32``, or calls of forward ``[batch, inputs] float32``.

    Attributes:
        what: for people, e.g. ``64 pseudo-random calls``.
        pieces: one sequence each, which starts at position 0, or one call each.
        whole: a sequence over the whole context (token models), else None.
        source: what a model with an encoder is asked first.
    """

    what: str
    pieces: tuple[NDArray[np.generic], ...]
    whole: NDArray[np.generic] | None = None
    source: tuple[Request, ...] = ()

    def requests(self, tokens: bool) -> list[Request]:
        """One request for each piece, after its reset."""
        requests = [Request("I"), *self.source]
        for piece in self.pieces:
            requests += _sequence(piece) if tokens else [Request("F", piece.astype("<f4").tobytes())]
        return requests

    def whole_requests(self) -> list[Request]:
        """Step through the whole context."""
        assert self.whole is not None
        return [Request("I"), *self.source, *_sequence(self.whole)]


def _sequence(tokens: NDArray[np.generic]) -> list[Request]:
    return [Request("R"), Request("S", tokens.astype("<u4").tobytes())]


def source_requests(package: Package) -> tuple[Request, ...]:
    """Encode pseudo-random tokens, as many as it takes; nothing where there is no encoder."""
    if not package.model.source:
        return ()
    random = np.random.Generator(np.random.PCG64(_SEED))
    tokens = random.integers(0, package.model.outputs, package.model.source)
    return (Request("E", tokens.astype("<u4").tobytes()),)


def built_in(package: Package) -> Inputs:
    """The same pseudo-random inputs on every machine: uniform tokens, or normal samples."""
    random = np.random.Generator(np.random.PCG64(_SEED))
    if package.model.kind == "samples":
        shape = (_CALLS, package.batch, package.model.inputs)
        calls = random.standard_normal(shape)
        extremes = [calls[0] * factor for factor in _EXTREMES]
        what = f"{_CALLS} pseudo-random calls, and zeros, denormal, very small and very large samples"
        return Inputs(what, tuple(call.astype(np.float32) for call in [*calls, *extremes]))
    length = min(_POSITIONS, package.context)
    tokens = random.integers(0, package.model.outputs, (_SEQUENCES, length)).astype(np.uint32)
    whole = random.integers(0, package.model.outputs, package.context).astype(np.uint32)
    what = f"{_SEQUENCES} pseudo-random sequences of {length} tokens"
    if package.model.source:
        what += f" behind a source of {package.model.source}"
    return Inputs(what, tuple(tokens), whole, source_requests(package))


def read_inputs(path: Path, package: Package, most: int) -> Inputs:
    """Read tokens (``.npy`` of integers) or samples (``.csv``; ``.npy`` or the first array of a ``.npz``).

    A flat array of tokens is cut into sequences as long as the context; rows are sequences of their own. Samples
    fill whole calls; what is left over is not run.

    Args:
        most: tokens or calls that are run; the file may hold more.

    Raises:
        BadInput: unreadable, of another kind, of a wrong shape, or with values that the model refuses.
    """
    if package.model.kind == "tokens":
        return _tokens(path, package, most)
    samples = _samples(path, package.model.inputs, package.model.labels.get("inputs", ()))
    calls = min(len(samples) // package.batch, most)
    if calls == 0:
        raise BadInput(f"{len(samples)} samples do not fill a call of {package.batch}", where=str(path))
    shaped = samples[: calls * package.batch].reshape(calls, package.batch, -1)
    return Inputs(f"{calls} calls from {path.name}", tuple(shaped))


def _tokens(path: Path, package: Package, most: int) -> Inputs:
    array = token_ids(read_array(path), package.model.outputs, str(path))
    context = package.context
    flat = array.reshape(1, -1) if array.ndim == 1 else array
    pieces, left = [], most
    for row in flat:
        for start in range(0, len(row), context):
            piece = row[start : min(start + context, len(row))][:left]
            left -= len(piece)
            if len(piece):
                pieces.append(piece.astype(np.uint32))
    whole = np.resize(array.reshape(-1), context).astype(np.uint32)
    total = sum(len(piece) for piece in pieces)
    return Inputs(
        f"{total:,} tokens in {len(pieces)} sequences from {path.name}", tuple(pieces), whole, source_requests(package)
    )


def _samples(path: Path, width: int, labels: Sequence[str]) -> NDArray[np.float32]:
    if path.suffix not in (".npy", ".npz"):
        from colibri.samples import read_samples

        return read_samples(path, width, labels)
    return finite_rows(read_array(path), width, str(path))
