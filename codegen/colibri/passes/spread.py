"""Spread weights over two kinds of flash: model.bin into the large one, the hottest tensors into the fast one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from colibri.boards.profile import Board, Holds
from colibri.errors import BadInput
from colibri.graph.graph import Graph, Op
from colibri.graph.ops import Embedding, Experts, Rope
from colibri.graph.weights import Vector
from colibri.passes.pack import Layouts, aligned
from colibri.passes.sharing import Demand, Room, share

_FILE_BYTES = 1024  # header, section table and manifest of a second file, and padding between its parts; rounded up
_ENTRY_BYTES = 32  # of each part in that table


def hot_weights(graph: Graph, layouts: Layouts, board: Board, code: int, pins: Mapping[str, str]) -> frozenset[str]:
    """Names of the weights that go into the region for hot tensors.

    The experts of a layer stay together, as do weights that several steps read. Of weights that all move the same bytes
    a token, as many go as fit.

    Args:
        code: bytes that the region has to keep for code and constants, when it holds these.
        pins: weight to region, as the user wants it; what is said of one expert holds for its layer.

    Raises:
        BadInput: pins that part the experts of a layer.
    """
    name = board.hot_region
    if not name:
        return frozenset()
    main = board.region_for(Holds.WEIGHTS)
    region = next(one for one in board.memory if one.name == name)
    members, moved = _units(graph, layouts)
    room = region.limit - _FILE_BYTES - _ENTRY_BYTES * len(members) - (code if Holds.CODE in region.holds else 0)
    items = [
        Demand(
            unit,
            sum(aligned(_bytes(graph, layouts, weight)) for weight in weights),
            (),
            moved[unit],
            _wanted(weights, pins),
        )
        for unit, weights in members.items()
    ]
    rooms = [Room(main.name, main.limit or None, main.cost), Room(region.name, max(0, room), region.cost)]
    homes = share(items, rooms).homes
    return frozenset(weight for unit, weights in members.items() if homes[unit] == name for weight in weights)


def bytes_read(graph: Graph, layouts: Layouts) -> int:
    """Bytes of weights that one step, or one sample alone, reads: of experts those that run, of tables one entry."""
    _, moved = _units(graph, layouts, first=graph.encoder)
    return sum(moved.values())


def _units(graph: Graph, layouts: Layouts, first: int = 0) -> tuple[dict[str, list[str]], dict[str, int]]:
    """Weights that stay together, and the bytes of them that one token or sample reads, from the op ``first`` on."""
    members: dict[str, list[str]] = {}
    moved: dict[str, int] = defaultdict(int)
    for op in graph.ops[first:]:
        for weight in op.weights().values():
            members[weight] = [weight]
            moved[weight] += _read(op, _bytes(graph, layouts, weight), graph)
        if isinstance(op, Experts):
            weights = [weight for slots in op.experts() for weight in slots.values()]
            members[weights[0]] = weights
            size = sum(_bytes(graph, layouts, weight) for weight in weights)
            moved[weights[0]] += size * op.top_k // len(op.kept)
    return members, moved


def _wanted(weights: Sequence[str], pins: Mapping[str, str]) -> str:
    """Where weights that stay together are pinned to; empty for nowhere."""
    first = next((weight for weight in weights if weight in pins), "")
    for weight in weights:
        if pins.get(weight, pins.get(first)) != pins.get(first):
            what = f"{first!r} is to be in {pins[first]!r} and {weight!r} in {pins[weight]!r}"
            raise BadInput(what, where="pins of weights", hint="the experts of a layer stay together")
    return pins.get(first, "")


def _read(op: Op, size: int, graph: Graph) -> int:
    """Bytes that one row reads of a weight: of a table, one entry."""
    if isinstance(op, Embedding):
        return size // graph.output_width
    return min(size, 4 * op.head_dim) if isinstance(op, Rope) else size


def _bytes(graph: Graph, layouts: Layouts, name: str) -> int:
    weight = graph.weights[name]
    return 4 * weight.values.size if isinstance(weight, Vector) else layouts.matrices[name].bytes
