"""What is evaluated: a checkpoint in a recipe, or a package as it is; each with bits that its program must give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from colibri.emit.writer import write_package
from colibri.errors import CheckFailed, UsageError, shown
from colibri.evaluate.data import Window
from colibri.evaluate.native import PROGRAM, Answers, Host, answering, compile_program, foreign_kernels
from colibri.generate import prepare
from colibri.graph.graph import Graph, Op
from colibri.graph.interpret import Reference, Run
from colibri.graph.ops import Experts
from colibri.options import Options
from colibri.package import Package, load_package
from colibri.progress import Progress, unseen
from colibri.recipe import parse_recipe, recipe_text
from colibri.testing import read_cases

_WEIGHTS_IN_ALL = 1 << 31  # that the reference goes through for the check: about a second
_MOST_CHECKED = 512  # positions or samples
_SEQUENCES = 4

Routes = list[set[int]]  # experts that ran, position by position, layer by layer


@dataclass(frozen=True)
class Candidate:
    """One model, ready to be compiled.

    Attributes:
        name: the recipe, or the package's folder.
        package: with the facts of the model.
        program: of this machine, once it is compiled.
        graph: for the numpy reference; None of a package, which has golden vectors instead.
        folder: of the C and the weights.
        golden: package whose golden vectors it must give, where there is no graph.
    """

    name: str
    package: Package
    program: Path
    graph: Graph | None
    folder: Path
    golden: Path

    @property
    def weight_bytes(self) -> int:
        """Of all files of weights."""
        return sum(size for _, size, _ in self.package.weight_files())

    def compile(self, host: Host) -> None:
        """Make the program.

        Raises:
            BuildFailed: the compiler or the linker failed.
        """
        compile_program(host, self.folder, self.package, self.program)

    def answering(self, requests: bytes, name: str) -> AbstractContextManager[Answers]:
        """The program at work on requests; ``name`` is of its files."""
        return answering(self.program, self.folder, self.package, requests, name)


def of_checkpoint(
    checkpoint: Path, options: Options, host: Host, scratch: Path, progress: Progress = unseen
) -> Candidate:
    """The checkpoint in a recipe, generated for this machine.

    Raises:
        BadInput: the checkpoint cannot be used.
        UsageError: options that cannot be meant.
    """
    scratch.mkdir()
    folder = scratch / "package"
    contents = prepare(checkpoint, host.board, options, folder, host.installed.compiler, progress, proven=False)
    write_package(folder, contents, progress)
    return Candidate(recipe_text(options), contents.package, scratch / PROGRAM, contents.graph, folder, folder)


def of_package(
    folder: Path, checkpoint: Path | None, host: Host, scratch: Path, progress: Progress = unseen
) -> Candidate:
    """A package: its own C and weights where this machine has the instructions of its kernels, else its recipe.

    Args:
        checkpoint: that it was made of; only needed for the recipe.

    Raises:
        BadInput: not a package, or the checkpoint cannot be used.
        UsageError: the checkpoint is needed, or another one than it was made of.
    """
    package = load_package(folder)
    name = folder.name or str(folder)
    foreign = foreign_kernels(folder, host)
    if not foreign:
        scratch.mkdir()
        return Candidate(name, package, scratch / PROGRAM, None, folder, folder)
    where = shown(str(folder), 300)
    if checkpoint is None:
        what = f"this machine cannot run its kernels: {', '.join(foreign)}"
        raise UsageError(what, where=where, hint="name the checkpoint with --original, to generate it anew for here")
    options = replace(parse_recipe(str(folder / "recipe.json")), checkpoint="")  # it is the hash that is compared
    made = of_checkpoint(checkpoint, options, host, scratch, progress)
    if (made.package.model, made.package.recipe_hash) != (package.model, package.recipe_hash):
        raise UsageError(f"is not the checkpoint of {where}", where=f"--original {shown(str(checkpoint), 300)}")
    return replace(made, name=name, graph=None, golden=folder)


@dataclass(frozen=True)
class Checked:
    """Bits that were compared, all equal.

    Attributes:
        count: positions or samples.
        against: with what.
        routes: of these; empty where only golden vectors are known.
    """

    count: int
    against: str
    routes: Routes


def check_tokens(candidate: Candidate, windows: Sequence[Window], most: int) -> Checked:
    """Compare a few positions of the data, or the package's golden vectors, bit for bit.

    Args:
        most: positions, as `affordable` says.

    Raises:
        CheckFailed: a bit differs.
        EmulatorFailed: the program failed.
    """
    if candidate.graph is None:
        return _check_golden(candidate)
    chosen = [windows[index] for index in sorted({*np.linspace(0, len(windows) - 1, _SEQUENCES).astype(int).tolist()})]
    length = max(1, most // len(chosen))
    routes: Routes = []
    reference = Reference(candidate.graph, watch=_watch(routes))
    asked, expected = [], []
    found: Routes = []
    for window in chosen:
        reference.reset()
        if window.source is not None:
            reference.encode(window.source)
        routes.clear()
        inputs = window.inputs[:length]
        asked.append(Window(inputs, inputs, 0, window.source))
        expected.append(reference.extend(inputs, all_rows=True)[0])
        found += routes
    _compare(candidate, token_requests(asked), expected)
    return Checked(sum(len(rows) for rows in expected), "the numpy reference", found)


def check_samples(candidate: Candidate, x: NDArray[np.float32], most: int) -> Checked:
    """The same for samples.

    Raises:
        CheckFailed: a bit differs.
        EmulatorFailed: the program failed.
    """
    if candidate.graph is None:
        return _check_golden(candidate)
    some = x[np.unique(np.linspace(0, len(x) - 1, min(len(x), most)).astype(int))]
    routes: Routes = []
    expected = Reference(candidate.graph, watch=_watch(routes)).forward(some)
    _compare(candidate, sample_requests(candidate.package, some), [expected])
    return Checked(len(some), "the numpy reference", routes)


def token_requests(windows: Sequence[Window]) -> bytes:
    """As ``score.c`` reads them."""
    parts = []
    for window in windows:
        source = window.source
        head = [window.inputs.size] if source is None else [source.size, window.inputs.size]
        parts += [np.array(head, np.uint32), *([] if source is None else [source.astype(np.uint32)])]
        parts.append(window.inputs.astype(np.uint32))
    return b"".join(part.tobytes() for part in parts)


def sample_requests(package: Package, x: NDArray[np.float32]) -> bytes:
    """The same for samples; the last call is filled up with zeros."""
    return x.tobytes() + bytes(-len(x) % package.batch * package.model.inputs * 4)


def routing_agreement(first: Routes, second: Routes) -> float | None:
    """Share of the places where the same experts ran; None where nothing is known, or not of the same places."""
    if not first or len(first) != len(second):
        return None
    return sum(one == other for one, other in zip(first, second, strict=True)) / len(first)


def affordable(candidates: Sequence[Candidate]) -> int:
    """How many positions or samples the reference can run of each, the same ones of all."""
    largest = max(1, *(one.package.model.parameters for one in candidates))
    return min(_MOST_CHECKED, max(_SEQUENCES, _WEIGHTS_IN_ALL // largest))


def _watch(routes: Routes) -> Callable[[Op, Run], None]:
    """Note the experts that run, by the checkpoint's numbers."""

    def note(op: Op, run: Run) -> None:
        if isinstance(op, Experts):
            routes.extend({op.kept[index].id for index in row} for row in run.routes[op.route].index.tolist())

    return note


def _check_golden(candidate: Candidate) -> Checked:
    """The package's golden vectors, as far as they are whole sequences or finite samples."""
    tokens = candidate.package.model.kind == "tokens"
    count = 0
    requests: list[bytes] = []
    expected: list[NDArray[np.float32]] = []
    wanted: dict[int, NDArray[np.float32]] = {}
    taken: list[int] = []
    source: NDArray[np.int64] | None = None

    def finish() -> None:
        nonlocal count
        if taken and wanted and count < _MOST_CHECKED:
            requests.append(token_requests([Window(np.array(taken), np.array(taken), 0, source)]))
            rows = np.full((len(taken), candidate.package.model.outputs), np.nan, np.float32)
            for position, row in wanted.items():
                rows[position] = row
            expected.append(rows)
            count += len(wanted)
        taken.clear()
        wanted.clear()

    for case in read_cases(candidate.golden):
        good = [answer for answer in case.answers if answer.status == 0]
        if case.op == "F" and good:
            requests.append(case.payload)
            expected.append(np.frombuffer(good[0].payload, "<f4").reshape(-1, candidate.package.model.outputs))
            count += len(expected[-1])
        elif case.op in "IRE":
            finish()
            if case.op == "E" and good:
                source = np.frombuffer(case.payload, "<u4").astype(np.int64)
        elif case.op in "PS" and len(good) == len(case.answers):
            taken += np.frombuffer(case.payload, "<u4").tolist()
            for back, answer in enumerate(reversed(good)):
                wanted[len(taken) - 1 - back] = np.frombuffer(answer.payload, "<f4")
    finish()
    _compare(candidate, b"".join(requests), expected, partly=tokens)
    return Checked(count, "its golden vectors", [])


def _compare(
    candidate: Candidate, requests: bytes, expected: Sequence[NDArray[np.float32]], *, partly: bool = False
) -> None:
    """Args: partly: rows that are not known hold no numbers."""
    with candidate.answering(requests, "check") as answers:
        for rows in expected:
            found = answers.rows(len(rows))
            known = ~np.isnan(rows).all(axis=1) if partly else np.ones(len(rows), bool)
            if not np.array_equal(found[known].view(np.uint32), rows[known].view(np.uint32)):
                what = "the program of this machine has other bits than the reference"
                raise CheckFailed(
                    what, where=candidate.name, hint="`colibri doctor --board x86-64-v3` tries the compiler"
                )
