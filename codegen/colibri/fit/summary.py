"""A search in figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from colibri.boards.profile import Board, Holds
from colibri.errors import printable
from colibri.evaluate.data import SampleData, TokenData
from colibri.fit.model import SCHEMA, Choice, Final, Fit, Move, Other, Region, Rows
from colibri.fit.search import Found, Search
from colibri.fit.sizes import Sizes
from colibri.fit.space import moved
from colibri.fit.split import Part
from colibri.fit.task import Data

if TYPE_CHECKING:
    from colibri.fit.fit import Request


def summary(
    request: Request,
    name: str,
    board: Board,
    data: Data,
    search: Search,
    best: Sequence[Found],
    rooms: Sequence[tuple[str, Sizes]],
    finals: Mapping[int, Final],
) -> Fit:
    """The whole of a search, with nothing built.

    Args:
        name: of the checkpoint.
        board: less the reserves.
        best: the front.
        rooms: of each its recipe and sizes with as much context as has room.
        finals: by number, figures on the final rows of some of them.
    """
    others = [one for one in search.ranked() if one not in best]
    measure, unit = _measure(data)
    return Fit(
        schema=SCHEMA,
        checkpoint=printable(name),
        board=board.id,
        title=board.title,
        data=printable(request.data.name),
        measure=measure,
        unit=unit,
        regions=_regions(request.board, board),
        rows=_rows(request, data),
        seed=request.seed,
        points=search.space.count,
        evaluated=search.evaluator.asked,
        known=search.evaluator.known,
        original=best[0].outcome.original,
        front=tuple(
            _choice(search, one, room, finals.get(number))
            for number, (one, room) in enumerate(zip(best, rooms, strict=True))
        ),
        others=tuple(
            Other(one.recipe, one.sizes.flash, one.sizes.memory, one.outcome.loss.mean, one.outcome.lost.mean)
            for one in others
        ),
        moves=_moves(search),
        chosen=0,
        max_instructions=request.max_instructions,
    )


def _choice(search: Search, one: Found, room: tuple[str, Sizes], final: Final | None) -> Choice:
    recipe, sizes = room
    return Choice(
        recipe=recipe,
        evaluated=one.recipe,
        weights=sizes.weights,
        code=sizes.code,
        flash=sizes.flash,
        memory=sizes.memory,
        context=sizes.context,
        prefill=sizes.prefill,
        loss=one.outcome.loss,
        lost=one.outcome.lost,
        final=final.lost if final else None,
        distance=one.outcome.distance,
        predicted=one.predicted,
        agreement=one.outcome.agreement,
        values={axis.name: search.space.value(one.point, index) for index, axis in enumerate(search.space.axes)},
        dropped={str(layer): ids for layer, ids in search.space.dropped(one.point).items()},
    )


def _measure(data: Data) -> tuple[str, str]:
    """What the loss is, in words, and its unit."""
    if isinstance(data.whole, TokenData):
        return "loss", "nats a token"
    if data.whole.classes is not None:
        return "wrong classes", "share of the samples"
    if data.whole.values is not None:
        return "mean absolute error", "units of the outputs"
    return "mean absolute difference from the original", "units of the outputs"


def _regions(before: Board, after: Board) -> tuple[Region, ...]:
    """Regions that hold something, with what is reserved in them."""
    data, found = after.region_for(Holds.DATA), []
    for old, new in zip(before.memory, after.memory, strict=True):
        if new.holds:
            reserve = old.limit - new.limit + (after.reserve if new == data else 0)
            found.append(Region(new.name, str(new.kind), old.limit, reserve))
    return tuple(found)


def _rows(request: Request, data: Data) -> Rows:
    split = data.split
    counts = {part: _count(data.part(part)) for part in (Part.LOOK, Part.SEARCH, Part.FINAL)}
    whole = data.whole
    return Rows(
        kind="tokens" if isinstance(whole, TokenData) else "samples",
        look=counts[Part.LOOK],
        search=counts[Part.SEARCH],
        final=counts[Part.FINAL],
        calibration=request.calibration or ("rows of the data of its own" if split.apart else "rows of the search"),
        fresh=split.fresh,
        window=whole.window if isinstance(whole, TokenData) else 0,
    )


def _count(data: TokenData | SampleData) -> int:
    return data.count if isinstance(data, TokenData) else len(data.x)


def _moves(search: Search) -> tuple[Move, ...]:
    """Every single move with its harm and what it saves."""
    widest = search.space.widest
    base, moves = search.sizes(widest), []
    for index, axis in enumerate(search.space.axes):
        for value in range(1, len(axis.values)):
            sizes = search.sizes(moved(widest, index, value))
            if sizes is None or base is None:
                continue
            measured = (index, value) in search.harms.measured
            harm, saved = search.harms.of(index, value), base.weights - sizes.weights
            less = base.memory - sizes.memory
            moves.append(Move(axis.name, axis.values[value], harm, saved, less, measured))
    return tuple(moves)
