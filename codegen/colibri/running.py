"""`colibri run`: the product image in the emulator, with words or numbers going in and out."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from colibri.boards.profile import Emulator
from colibri.emulate.runner import run
from colibri.errors import BadInput, EmulatorFailed
from colibri.package import Package
from colibri.toolchain.build import build
from colibri.toolchain.buildfiles import image_name

_ANSWER = re.compile(rb"> ([0-9a-f]{8}(?: [0-9a-f]{8})*)\n")


class AnswerStream:
    """Collects console output and hands on each whole answer line as 32-bit words."""

    def __init__(self, on_words: Callable[[list[int]], None]) -> None:
        self._on_words = on_words
        self._pending = b""

    def push(self, piece: bytes) -> None:
        """Take in a piece of console output."""
        *lines, self._pending = (self._pending + piece).split(b"\n")
        for line in lines:
            if match := _ANSWER.fullmatch(line.rstrip(b"\r") + b"\n"):
                self._on_words([int(word, 16) for word in match[1].split()])


def _execute(
    folder: Path, package: Package, emulator: Emulator, request: bytes, timeout: float, stream: AnswerStream
) -> None:
    image = image_name(package.board, emulator, "product")
    if not build(folder, [image]):
        from colibri.errors import DoesNotFit

        raise DoesNotFit(
            "the product does not fit, so it cannot run", where=package.board.id, hint="see `colibri report`"
        )
    outcome = run(folder / image, package.board, emulator, request=request, timeout=timeout, on_output=stream.push)
    if outcome.exit_code != 0:
        text = [line for line in outcome.output.decode("ascii", "replace").splitlines() if line.startswith("! ")]
        what = text[-1][2:] if text else f"the program ended with code {outcome.exit_code}"
        raise EmulatorFailed(what, where=f"{package.board.id} on {emulator.name}")


def run_tokens(
    folder: Path,
    package: Package,
    emulator: Emulator,
    prompt: Sequence[int],
    count: int,
    timeout: float,
    on_token: Callable[[int], None],
) -> None:
    """Generate ``count`` tokens greedily after the prompt, or from it as the source where there is an encoder.

    ``on_token`` is called as they come.

    Raises:
        BadInput: an empty prompt, a token beyond the vocabulary, or more tokens than the context holds.
        EmulatorFailed: hang, fault, or a status that is not ok.
    """
    where = f"package {folder}"
    if not prompt:
        raise BadInput("the prompt has no tokens", where=where, hint="give at least one word")
    for token in prompt:
        if not 0 <= token < package.model.outputs:
            raise BadInput(f"token {token} is not in the vocabulary of {package.model.outputs}", where=where)
    source = package.model.source
    if source and len(prompt) > source:
        what = f"{len(prompt)} tokens are more than the source of {source}"
        raise BadInput(what, where=where, hint="build for more with --source")
    # The last token generated is not fed back, so it needs no position.
    before = 1 if source else len(prompt)
    if before + count - 1 > package.context:
        kind = "the start" if source else f"{before} prompt tokens"
        raise BadInput(
            f"{kind} and {count} more do not fit into a context of {package.context}",
            where=where,
            hint=f"ask for at most {max(package.context - before + 1, 0)} with -n, or build for more with --context",
        )
    request = np.array([count, len(prompt), *prompt], "<u4").tobytes()
    _execute(folder, package, emulator, request, timeout, AnswerStream(lambda words: on_token(words[0])))


def run_samples(
    folder: Path, package: Package, emulator: Emulator, samples: NDArray[np.float32], timeout: float
) -> NDArray[np.float32]:
    """Predict ``samples [n, inputs]``; the last batch is filled up with zeros. Returns ``[n, outputs]``.

    Raises:
        EmulatorFailed: hang, fault, or a status that is not ok.
    """
    calls = -(-len(samples) // package.batch)
    padded = np.zeros((calls * package.batch, package.model.inputs), "<f4")
    padded[: len(samples)] = samples
    rows: list[list[int]] = []
    request = np.array([calls], "<u4").tobytes() + padded.tobytes()
    _execute(folder, package, emulator, request, timeout, AnswerStream(rows.append))
    if len(rows) != len(padded) or any(len(row) != package.model.outputs for row in rows):
        raise EmulatorFailed(f"{len(rows)} answers for {len(padded)} samples", where=package.board.id)
    return np.array(rows, np.uint32).view(np.float32)[: len(samples)]
