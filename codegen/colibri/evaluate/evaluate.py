"""`colibri eval`: the original in fp32 and what becomes of it, on the same data."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypedDict

import msgspec

from colibri.calibrate.data import COUNTED as CALIBRATION
from colibri.errors import BadInput, shown
from colibri.evaluate.candidate import (
    Candidate,
    Checked,
    affordable,
    check_samples,
    check_tokens,
    of_checkpoint,
    of_package,
    routing_agreement,
)
from colibri.evaluate.data import SampleData, TokenData, read_rows
from colibri.evaluate.measure import blocks_of, measure_samples, measure_tokens
from colibri.evaluate.model import Evaluation, Row, SampleScores, TokenScores
from colibri.evaluate.native import Host, find_host
from colibri.graph.scheme import Scheme
from colibri.options import Options
from colibri.package import Package
from colibri.progress import Progress, unseen
from colibri.scratch import scratch_folder


@dataclass(frozen=True)
class Cut:
    """What of the data is used.

    Attributes:
        window, stride: in tokens; None for the context, and for the window.
        limit: most tokens or samples.
    """

    window: int | None = None
    stride: int | None = None
    limit: int | None = None


COUNTED = ("tokens", "samples", *CALIBRATION)  # work whose amount is a number of these

Maker = Callable[[Host, Path], Candidate]
"""Makes a candidate in a scratch folder that is not there yet."""


def evaluate_checkpoint(
    checkpoint: Path,
    data: Path,
    recipes: Sequence[Options],
    cut: Cut,
    *,
    original: Path | None = None,
    alone: bool = False,
    jobs: int = 0,
    progress: Progress = unseen,
) -> Evaluation:
    """A checkpoint in recipes, beside the original in fp32.

    Args:
        original: another checkpoint than this one.
        alone: without the original.
        jobs: programs at a time; 0 for as many as processors.
        progress: is told how far it is; what is `COUNTED` is no bytes.

    Raises:
        BadInput: checkpoint or data.
        UsageError: options that cannot be meant.
        ToolMissing: nothing here to compile and run programs with.
        BuildFailed, EmulatorFailed: a program does not build, or fails.
        CheckFailed: its bits are not those of the reference, or not finite.
    """
    makers: list[Maker] = [
        lambda host, scratch, options=options: of_checkpoint(checkpoint, options, host, scratch, progress)  # type: ignore[misc]
        for options in recipes
    ]
    first = recipes[0]
    wide = Options(Scheme.F32, context=first.context, source=first.source)
    base = None if alone else _original(original or checkpoint, wide, progress)
    return _evaluate(makers, base, data, cut, jobs, progress)


def evaluate_package(
    folder: Path,
    data: Path,
    cut: Cut,
    *,
    original: Path | None = None,
    alone: bool = False,
    jobs: int = 0,
    progress: Progress = unseen,
) -> Evaluation:
    """A package, beside the original in fp32 when its checkpoint is named; see `evaluate_checkpoint`.

    Raises:
        BadInput: not a package, or as `evaluate_checkpoint`.
    """
    from colibri.package import load_package

    package = load_package(folder)
    wide = Options(Scheme.F32)
    if package.model.kind == "tokens":
        wide = replace(wide, context=package.context, source=package.model.source or None)
    base = None if alone or original is None else _original(original, wide, progress)
    return _evaluate(
        [lambda host, scratch: of_package(folder, original, host, scratch, progress)], base, data, cut, jobs, progress
    )


def _original(checkpoint: Path, options: Options, progress: Progress) -> Maker:
    return lambda host, scratch: replace(of_checkpoint(checkpoint, options, host, scratch, progress), name="f32")


def _evaluate(
    makers: Sequence[Maker], base: Maker | None, data: Path, cut: Cut, jobs: int, progress: Progress
) -> Evaluation:
    host = find_host()
    wanted = [*([base] if base else []), *makers]
    with scratch_folder("eval") as scratch:
        candidates = [make(host, scratch / str(index)) for index, make in enumerate(wanted)]
        first = candidates[0].package
        for one in candidates[1:]:
            _refuse_another(first, one)
        jobs = max(1, (jobs or os.cpu_count() or 1) // len(candidates))
        measure = _tokens if first.model.kind == "tokens" else _samples
        found = measure(candidates, host, data, cut, base is not None, jobs, progress)
    return msgspec.structs.replace(found, board=host.board.id)


def _tokens(
    candidates: list[Candidate], host: Host, path: Path, cut: Cut, compared: bool, jobs: int, progress: Progress
) -> Evaluation:
    context = min(one.package.context for one in candidates)
    data = read_rows(path, candidates[0].package.model, context, cut.window, cut.stride, cut.limit)
    assert isinstance(data, TokenData)
    _compile(candidates, host, progress)
    checks = [check_tokens(one, data.windows, affordable(candidates)) for one in candidates]
    taken = sum(window.inputs.size for window in data.windows) * len(candidates)
    advance = progress("tokens", taken)
    scores, seconds = measure_tokens(candidates, data, compared=compared, jobs=jobs, advance=advance)
    return Evaluation(
        data=path.name,
        kind="tokens",
        count=data.count,
        left_out=data.left_out,
        window=data.window,
        stride=data.stride,
        blocks=len(data.windows),
        seconds=round(seconds, 3),
        per_second=round(taken / seconds, 1),
        **_rows(candidates, checks, scores, compared),
    )


def _samples(
    candidates: list[Candidate], host: Host, path: Path, cut: Cut, compared: bool, jobs: int, progress: Progress
) -> Evaluation:
    data = read_rows(path, candidates[0].package.model, 0, cut.window, cut.stride, cut.limit)
    assert isinstance(data, SampleData)
    if data.values is None and data.classes is None and not compared:
        what = "has neither y nor pred, and there is no original to compare with"
        raise BadInput(what, where=shown(str(path), 300), hint="save both x and y in a .npz, or name an original")
    _compile(candidates, host, progress)
    checks = [check_samples(one, data.x, affordable(candidates)) for one in candidates]
    taken = len(data.x) * len(candidates)
    advance = progress("samples", taken)
    scores, seconds = measure_samples(candidates, data, compared=compared, advance=advance)
    return Evaluation(
        data=path.name,
        kind="samples",
        count=len(data.x),
        left_out=data.left_out,
        blocks=blocks_of(len(data.x)),
        seconds=round(seconds, 3),
        per_second=round(taken / seconds, 1),
        **_rows(candidates, checks, scores, compared),
    )


def _compile(candidates: Sequence[Candidate], host: Host, progress: Progress) -> None:
    """All at once; the data has been read, so that what is wrong with it is said before."""
    progress("compiler", 0)
    with ThreadPoolExecutor(min(len(candidates), os.cpu_count() or 1)) as pool:
        list(pool.map(lambda one: one.compile(host), candidates))


class _Rows(TypedDict):
    original: Row | None
    rows: tuple[Row, ...]


def _rows(
    candidates: Sequence[Candidate],
    checks: Sequence[Checked],
    scores: Sequence[TokenScores | SampleScores],
    compared: bool,
) -> _Rows:
    rows: list[Row] = []
    for one, check, score in zip(candidates, checks, scores, strict=True):
        same = routing_agreement(checks[0].routes, check.routes) if compared and rows else None
        rows.append(Row(one.name, one.weight_bytes, check.count, check.against, score, same))
    return {"original": rows.pop(0) if compared else None, "rows": tuple(rows)}


def _refuse_another(first: Package, other: Candidate) -> None:
    """The original and what is compared with it must take and give the same."""
    mine, its = first.model, other.package.model
    if (mine.kind, mine.inputs, mine.outputs, bool(mine.source)) != (
        its.kind,
        its.inputs,
        its.outputs,
        bool(its.source),
    ):
        shape = f"{mine.kind} with {mine.inputs} inputs and {mine.outputs} outputs"
        what = f"is for {its.kind} with {its.inputs} inputs and {its.outputs} outputs, the original for {shape}"
        raise BadInput(what, where=shown(other.name, 300))
