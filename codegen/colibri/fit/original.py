"""The original in fp32: it runs once, where its outputs have room, and every evaluation reads what it said."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from colibri.evaluate.candidate import Candidate, of_checkpoint, sample_requests, token_requests
from colibri.evaluate.data import SampleData, TokenData
from colibri.evaluate.native import PROGRAM, Answers, Host, find_host
from colibri.graph.float32 import Float
from colibri.graph.scheme import Scheme
from colibri.options import Options
from colibri.package import load_package
from colibri.scratch import write_scratch

_OUTPUTS = "outputs.f32"
_MOST_BYTES = 256 << 20  # of outputs that are kept
_PIECE = 1024  # rows


@dataclass(frozen=True)
class Known(Candidate):
    """A candidate that has run.

    Attributes:
        outputs: ``[rows, outputs]`` of what it is asked for.
    """

    outputs: Float

    def answering(self, requests: bytes, name: str) -> AbstractContextManager[Answers]:
        """What it said."""
        return nullcontext(_Read(self.outputs))


class _Read(Answers):
    """Outputs, in the order in which they are."""

    def __init__(self, outputs: Float) -> None:
        self._outputs, self._next = outputs, 0

    def rows(self, count: int) -> NDArray[np.float32]:
        """As `Answers.rows`."""
        self._next += count
        return self._outputs[self._next - count : self._next]


def make_original(checkpoint: Path, options: Options, folder: Path, host: Host | None = None) -> Candidate:
    """Generate and compile it in fp32.

    Args:
        options: whose context and source it has.

    Raises:
        ColibriError: as `of_checkpoint` and `Candidate.compile`.
    """
    host = host or find_host()
    made = of_checkpoint(checkpoint, Options(Scheme.F32, context=options.context, source=options.source), host, folder)
    made.compile(host)
    return made


def keep_outputs(original: Candidate, data: TokenData | SampleData, folder: Path) -> None:
    """Run it on all rows, unless its outputs are too large to keep.

    Raises:
        EmulatorFailed: the program failed.
    """
    rows = _sizes(data).sum()
    if rows * original.package.model.outputs * 4 > _MOST_BYTES:
        return
    if isinstance(data, SampleData):
        requests = sample_requests(original.package, data.x)
    else:
        requests = token_requests(data.windows)
    with original.answering(requests, "all") as answers:
        pieces = [answers.rows(int(min(_PIECE, rows - first))).tobytes() for first in range(0, rows, _PIECE)]
    write_scratch(folder / _OUTPUTS, b"".join(pieces))


def kept_original(folder: Path, data: TokenData | SampleData, rows: Sequence[int], scratch: Path) -> Candidate | None:
    """What the two before made, with a program of its own; None where the folder is not seen.

    Args:
        data: all of it.
        rows: windows or samples of it that are going to be asked for, in this order.
    """
    made, package, outputs = folder / PROGRAM, folder / "package", folder / _OUTPUTS
    if not made.is_file():
        return None
    facts = load_package(package)
    if outputs.is_file():
        kept = np.fromfile(outputs, np.float32).reshape(-1, facts.model.outputs)
        ends = np.cumsum(_sizes(data))
        wanted = [kept[(ends[row - 1] if row else 0) : ends[row]] for row in rows]
        return Known("original", facts, made, None, package, package, np.concatenate(wanted))
    program = scratch / PROGRAM
    shutil.copy2(made, program)  # requests lie beside it
    return Candidate("original", facts, program, None, package, package)


def _sizes(data: TokenData | SampleData) -> NDArray[np.int64]:
    """Rows of outputs of each window or sample."""
    if isinstance(data, SampleData):
        return np.ones(len(data.x), np.int64)
    return np.array([window.inputs.size for window in data.windows], np.int64)
