"""`colibri fit`: from a checkpoint, a board and data to the recipes that fit, and what each loses."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from colibri.boards.profile import Board, Holds, MemoryKind
from colibri.checkpoint.checkpoint import Checkpoint
from colibri.checkpoint.families import ImportOptions, import_graph
from colibri.checkpoint.remote import url_of
from colibri.errors import UsageError
from colibri.evaluate.native import find_host
from colibri.fit.calibration import calibration_file, given_calibration, nameable
from colibri.fit.content import checkpoint_digest, readable_again
from colibri.fit.dropping import dropping_order
from colibri.fit.evaluator import Evaluator
from colibri.fit.journal import key_of, opened
from colibri.fit.lacking import does_not_fit
from colibri.fit.model import Final, Fit
from colibri.fit.original import keep_outputs, make_original
from colibri.fit.search import Search, front, timed
from colibri.fit.sizes import Planner, Sizes, reserved
from colibri.fit.space import Point, Space, make_space, narrowed
from colibri.fit.split import Part
from colibri.fit.summary import summary
from colibri.fit.task import Data, Source
from colibri.fit.workers import workers
from colibri.graph.graph import Graph, ModelKind
from colibri.model_facts import model_facts
from colibri.optimise import Optimise
from colibri.options import Options
from colibri.paths import generator_digest
from colibri.profile.profile import default_emulator
from colibri.progress import Progress, unseen
from colibri.scratch import scratch_folder

_TRIED = 2  # points of the front whose code may turn out larger than predicted
_COUNTED = 8  # the same, where instructions are limited
_PREFILLS = (8, 4, 2)  # that spare RAM may go to


@dataclass(frozen=True)
class Request:
    """What the user asks for.

    Attributes:
        board: as its file has it.
        out: folder of the package.
        journal: None puts it beside ``out``.
        calibration: a file, ``self``, ``none``, or empty for rows of the data.
        reserve_flash, reserve_ram: bytes for the application; None for what the board file says.
        context: positions that there must be at least; None for the checkpoint's.
        prefill: tokens at once; None for what spare RAM allows.
        window, limit: as `colibri eval` has them.
        only: see `narrowed`.
        budget: evaluations; ``minutes`` bounds the time besides.
        executor, jobs: see `workers`.
        optimise: what the code is made for.
        choose: number of the point that is built, from 1; None for the first that can be.
    """

    checkpoint: Path
    board: Board
    data: Path
    out: Path
    journal: Path | None = None
    calibration: str = ""
    reserve_flash: int | None = None
    reserve_ram: int | None = None
    context: int | None = None
    prefill: int | None = None
    batch: int | None = None
    window: int | None = None
    limit: int | None = None
    only: tuple[str, ...] = ()
    max_instructions: int | None = None
    budget: int = 96
    minutes: float | None = None
    seed: int = 0
    executor: str = "processes"
    jobs: int = 0
    choose: int | None = None
    optimise: Optimise = Optimise.SPEED


@dataclass(frozen=True)
class Searched:
    """A search that is over.

    Attributes:
        fit: with nothing built yet.
        finals: figures on the final rows, of the points of the front that may be built.
        board: less the reserves.
    """

    fit: Fit
    finals: dict[int, Final]
    board: Board


class Planning:
    """Sizes of points, and the recipes as they are built: with a context and a prefill width."""

    def __init__(self, request: Request, space: Space, graph: Graph, board: Board) -> None:
        self._request, self._space, self.board = request, space, board
        self._tokens = graph.kind is ModelKind.TOKENS
        self._least = graph.context
        self._most = graph.context
        self._planner = Planner(request.checkpoint, board, request.out)

    def evaluated(self, point: Point) -> str:
        """The recipe without what no output depends on."""
        return self._space.recipe(point, context=self._least) if self._tokens else self._space.recipe(point)

    def recipe(self, point: Point, context: int | None = None, prefill: int | None = None) -> str:
        """The recipe of a package."""
        code = ":optimise=size" if self._request.optimise is Optimise.SIZE else ""
        if not self._tokens:
            return self._space.recipe(point, batch=self._request.batch) + code
        rows = prefill or self._request.prefill
        return self._space.recipe(point, context=context or self._least, prefill=rows) + code

    def sizes(self, point: Point) -> Sizes | None:
        """With the least context."""
        return self._planner.sizes(self.recipe(point))

    def roomy(self, point: Point, most: int, suffix: str) -> tuple[str, Sizes]:
        """The recipe with as long a context as has room, and then the widest prefill that has.

        Args:
            most: positions that the checkpoint has.
            suffix: of the recipe, which changes no size.
        """
        recipe = self.recipe(point)
        found = self._planner.sizes(recipe)
        assert found is not None
        if not self._tokens:
            return recipe + suffix, found
        low, high = self._least, most + 1  # the first has room, the second has not
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._has_room(point, middle, None) else (low, middle)
        prefill = self._request.prefill
        if prefill is None:
            prefill = next((width for width in _PREFILLS if self._has_room(point, low, width)), None)
        recipe = self.recipe(point, low, prefill)
        sizes = self._planner.sizes(recipe)
        assert sizes is not None
        return recipe + suffix, sizes

    def longest(self, point: Point) -> int:
        """Positions that have room in RAM although the least context has not; 0 where none have."""
        low, high = 0, self._least
        while high - low > 1:
            middle = (low + high) // 2
            sizes = self._planner.sizes(self.recipe(point, middle))
            low, high = (middle, high) if sizes is not None and not sizes.ram_over else (low, middle)
        return low

    def _has_room(self, point: Point, context: int, prefill: int | None) -> bool:
        sizes = self._planner.sizes(self.recipe(point, context, prefill))
        return sizes is not None and sizes.fits


@dataclass(frozen=True)
class Work:
    """A search that may begin.

    Attributes:
        name: of the checkpoint.
        board: less the reserves.
        most: positions that the checkpoint has; 0 for samples.
    """

    search: Search
    planning: Planning
    data: Data
    name: str
    board: Board
    most: int


@contextlib.contextmanager
def at_work(request: Request, progress: Progress = unseen) -> Iterator[Work]:
    """All that a search needs, for a block: workers, the journal, data, the original in fp32.

    Raises:
        BadInput: checkpoint, data, or a journal of another checkpoint.
        UsageError: options that cannot be meant.
        DoesNotFit: nothing in the space has room on the board, as planned.
        ColibriError: as `run_task`.
    """
    ends = None if request.minutes is None else time.monotonic() + 60 * request.minutes
    board = reserved(request.board, request.reserve_flash, request.reserve_ram)
    checkpoint = Checkpoint.open(request.checkpoint)
    graph, most = _graph(request, checkpoint)
    find_host()  # before long work
    if request.max_instructions is not None:
        default_emulator(board)
    nameable(calibration := beside(request.out, ".calibration.npz"), request.calibration)
    jobs = request.jobs or len(os.sched_getaffinity(0))
    with contextlib.ExitStack() as stack:
        executor = stack.enter_context(workers(request.executor, jobs))
        scratch = stack.enter_context(scratch_folder("fit"))
        space = narrowed(make_space(graph), request.only)
        _refuse_what_never_fits(space, Planning(request, space, graph, board))  # whichever experts go
        path, digest = readable_again(request.data, scratch)
        source = Source(
            checkpoint=str(request.checkpoint if url_of(request.checkpoint) else request.checkpoint.absolute()),
            data=str(path),
            window=request.window or 0,
            limit=request.limit or 0,
            apart=not request.calibration,
            seed=request.seed,
        )
        data = Data.read(source, model_facts(graph), graph.context)
        given = given_calibration(request.calibration, graph)
        identity = checkpoint_digest(request.checkpoint)
        content = key_of(identity, digest, generator_digest())
        lines = stack.enter_context(opened(request.journal or beside(request.out, ".fit.jsonl"), identity))
        of_data = key_of(content, source.limit, source.window, source.apart, source.seed)
        watched = progress if ends is None else timed(progress, ends)  # what comes before evaluations takes a while
        context, look = graph.context or None, data.part(Part.LOOK)
        order = dropping_order(space, request.checkpoint, look, context, lines, of_data, watched)
        space = replace(space, worst_first=order)
        named = calibration_file(request.calibration, given, graph, data, calibration, lines, of_data, watched)
        if named:
            content = key_of(content, hashlib.sha256(calibration.read_bytes()).hexdigest())
        original = scratch / "original"
        keep_outputs(make_original(request.checkpoint, Options(context=context), original), data.whole, original)
        evaluator = Evaluator(
            source,
            executor,
            lines,
            content,
            original=str(original),
            calibration=named,
            budget=request.budget,
            ends=ends,
            progress=progress,
        )
        planning = Planning(request, space, graph, board)
        suffix = f":calibrate={named}" if named else ""
        work = Search(space, evaluator, planning.sizes, planning.evaluated, _flash(board), calibration=suffix)
        yield Work(work, planning, data, checkpoint.name, board, most)


def search(request: Request, progress: Progress = unseen) -> Searched:
    """Search, and measure nothing twice.

    Raises:
        DoesNotFit: nothing in the space has room on the board.
        ColibriError: as `at_work`.
    """
    with at_work(request, progress) as work:
        space, planning, board = work.search.space, work.planning, work.board
        best = front(work.search.run())
        if not best:
            raise does_not_fit(space, planning.sizes, board, lambda: planning.longest(space.smallest))
        if not 1 <= (request.choose or 1) <= len(best):
            raise UsageError(f"{request.choose} is none of the {len(best)} on the front", where="--choose")
        rooms = [
            planning.roomy(one.point, work.most, work.search.calibration if one.calibrated else "") for one in best
        ]
        tried = tries(request, len(best))
        recipes = [best[number].recipe for number in tried]
        outcomes = work.search.evaluator.measure("final figures", recipes, Part.FINAL, beyond=True)
        finals = {
            number: Final(one.loss, one.original, one.lost, one.agreement)
            for number, one in zip(tried, outcomes, strict=True)
        }
        found = summary(request, work.name, board, work.data, work.search, best, rooms, finals)
        return Searched(found, finals, board)


def beside(out: Path, ending: str) -> Path:
    """A file beside the package's folder."""
    return out.with_name(f"{out.name}{ending}")


def tries(request: Request, count: int) -> list[int]:
    """Points of the front that are built until one has room in earnest, and keeps to the limit of instructions."""
    if request.choose is not None:
        return [request.choose - 1]
    return list(range(min(count, _TRIED if request.max_instructions is None else _COUNTED)))


def _refuse_what_never_fits(space: Space, planning: Planning) -> None:
    """Before anything is measured.

    Raises:
        DoesNotFit: not even the smallest recipe has room.
    """
    sizes = planning.sizes(space.smallest)
    if sizes is not None and not sizes.fits:
        raise does_not_fit(space, planning.sizes, planning.board, lambda: planning.longest(space.smallest))


def _graph(request: Request, checkpoint: Checkpoint) -> tuple[Graph, int]:
    """The model in fp32 with the context that it must have at least, and the positions of the checkpoint.

    Raises:
        UsageError: options that cannot be meant.
    """
    whole = import_graph(checkpoint, ImportOptions())
    if whole.kind is not ModelKind.TOKENS:
        for option, value in (
            ("--context-at-least", request.context),
            ("--prefill", request.prefill),
            ("--window", request.window),
        ):
            if value is not None:
                raise UsageError("is for token models", where=option)
        return whole, 0
    if request.batch is not None:
        raise UsageError("is for sensor models; a token model has --prefill", where="--batch")
    most, least = whole.context, request.context or whole.context
    if least > most:
        raise UsageError(f"{least} is more than the {most} of the checkpoint", where="--context-at-least")
    if (request.window or 0) > least:
        what = f"{request.window} is more than --context-at-least {least}"
        raise UsageError(what, where="--window", hint="what the board may not have room for cannot be measured")
    if (request.prefill or 0) > least:
        raise UsageError(f"{request.prefill} is more than the context of {least}", where="--prefill")
    again = Checkpoint.open(request.checkpoint)
    return import_graph(again, ImportOptions(least)), most


def _flash(board: Board) -> int | None:
    """Bytes for code and weights in all regions; None where one has no limit."""
    held = {Holds.CODE, Holds.WEIGHTS}
    regions = [one for one in board.memory if one.kind is MemoryKind.FLASH and held & {*one.holds}]
    return sum(one.limit for one in regions) if all(one.limit for one in regions) and regions else None
