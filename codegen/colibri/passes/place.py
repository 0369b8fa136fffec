"""Place every buffer in the caller's memory: which region, and where in the block that the region gives."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import msgspec

from colibri.boards.profile import Board, BoardKind, EmulatorKind, Holds, MemoryKind
from colibri.graph.graph import Buffer, BufferKind, Graph, ModelKind, StateType
from colibri.package import TYPE_BYTES, Block, Memory, Span, View
from colibri.passes.heat import CONTEXT, heat
from colibri.passes.pack import Layouts, aligned
from colibri.passes.share import jobs
from colibri.passes.sharing import Demand, Room, share
from colibri.passes.stacking import Stacking, lower_bound

CONTEXT_BYTES = 64
EXTERNAL = (Graph.INPUT, Graph.OUTPUT)

_PORT_BYTES = 1024  # variables of the port and of the test program, rounded up


_PAGE = 4096  # where variables begin behind the stack in an image for a user-mode emulator; also its stack for faults


@dataclass(frozen=True)
class Place:
    """Where a state or buffer is.

    Attributes:
        block: index into `Memory.blocks`.
        first: offset in the block, in bytes.
        second: offset of the scales or of the route's weights; -1 if there are none.
    """

    block: int
    first: int
    second: int = -1


@dataclass(frozen=True)
class Placement:
    """Where each state and buffer stands."""

    memory: Memory
    buffers: Mapping[str, Place]
    states: Mapping[str, Place]
    over: int = 0  # bytes that have no room

    def block_constant(self, index: int) -> str:
        """C name of a block's index."""
        return f"IN_{self.memory.blocks[index].region.upper()}"

    def memory_in(self, block: int | str) -> str:
        """C expression of a block's start: by its index here, or by an expression for it."""
        if len(self.memory.blocks) == 1:
            return "c->memory"
        return f"c->memory[{self.block_constant(block) if isinstance(block, int) else block}]"


_TYPES = {
    BufferKind.FLOAT: "f32",
    BufferKind.Q8: "int8",
    BufferKind.Q16: "int16",
    BufferKind.INT8: "int8",
    BufferKind.INT32: "int32",
    BufferKind.ROUTE: "index",
}


def buffer_views(buffer: Buffer, rows: int, layouts: Layouts, offset: int) -> tuple[View, ...]:
    """The arrays of a buffer at ``offset`` in its block: elements; scales or route weights. Each is padded to 16."""
    rows = (buffer.fixed_rows or rows) * buffer.pieces
    quantised = buffer.kind in (BufferKind.Q8, BufferKind.Q16)
    width = layouts.strides.get(buffer.name, buffer.width) if quantised else buffer.width
    kind = BufferKind.Q16 if quantised and layouts.wide_activations else buffer.kind
    first = View("", _TYPES[kind], (rows, width), offset)
    behind = offset + view_bytes(first)
    if buffer.kind in (BufferKind.FLOAT, BufferKind.INT8, BufferKind.INT32):
        return (first,)
    if buffer.kind is BufferKind.ROUTE:
        return first, View("weight", "f32", (rows, width), behind)
    return first, View("scale", "f32", (rows,), behind)


def view_bytes(view: View) -> int:
    """Bytes of an array with the padding behind it."""
    return aligned(TYPE_BYTES[view.type] * prod(view.shape))


def lifetimes(graph: Graph) -> dict[str, list[tuple[int, int]]]:
    """For each arena buffer, the intervals of op indices in which its rows matter, both ends included.

    Ops that one job does run at the same time, so that what one of them needs stays until the last one's end.
    """
    spans: dict[str, list[tuple[int, int]]] = defaultdict(list)
    first = 0
    for job in jobs(graph.ops):
        last = first + len(job) - 1
        for op in job:
            for scratch in op.scratch():
                spans[scratch.name].append((first, last))
            for name in op.reads():
                if name not in EXTERNAL:
                    start, _ = spans[name][-1]
                    spans[name][-1] = (start, last)
            for name in op.writes():
                if name not in EXTERNAL and name not in op.reads():
                    spans[name].append((first, last))
        first = last + 1
    return dict(spans)


def all_buffers(graph: Graph) -> dict[str, Buffer]:
    """Declared buffers and the ops' scratch; scratch of one name has room for each op that wants it."""
    found = {name: buffer for name, buffer in graph.buffers.items() if name not in EXTERNAL}
    for op in graph.ops:
        for scratch in op.scratch():
            found[scratch.name] = _room_for(found.get(scratch.name, scratch), scratch)
    return found


def _room_for(one: Buffer, other: Buffer) -> Buffer:
    """The larger in each respect: layers differ in what their kernels take at once. An entry has a row at least."""
    fixed = (one.fixed_rows, other.fixed_rows)
    return replace(
        one,
        width=max(one.width, other.width),
        fixed_rows=0 if 0 in fixed else max(fixed),
        pieces=max(one.pieces, other.pieces),
    )


def rooms(board: Board, graph: Graph, rows: int, pinned: Collection[str] = (), *, emulated: bool = True) -> list[Room]:
    """What each region of RAM has left for the model: without stack, reserve and the programs' variables.

    Args:
        pinned: regions that are open to what the user pinned there, although they do not hold the arena.
        emulated: leave room for what images for a user-mode emulator need besides.
    """
    tokens = graph.kind is ModelKind.TOKENS
    ours = (
        max(graph.context, graph.source) + 1 + graph.output_width
        if tokens
        else rows * (graph.input_width + graph.output_width)
    )
    paged = emulated and any(emulator.kind is EmulatorKind.QEMU_USER for emulator in board.emulators)
    found = []
    for region in board.memory:
        if region.kind is not MemoryKind.RAM or not (Holds.ARENA in region.holds or region.name in pinned):
            continue
        taken = -region.origin % 16  # before the block
        if board.kind is BoardKind.BARE and region == board.region_for(Holds.STACK):
            taken += aligned(board.stack, _PAGE if paged else 16)
        if region == board.region_for(Holds.DATA):
            # An emulator's image may use what is reserved for the application.
            taken += 4 * ours + _PORT_BYTES + max(board.reserve, _PAGE if paged and board.kind is BoardKind.BARE else 0)
        left = max(0, region.limit - taken) if region.limit else None
        found.append(Room(region.name, left, region.cost, closed=Holds.ARENA not in region.holds))
    return found


def names(graph: Graph) -> list[str]:
    """What a user may pin: context, states and buffers."""
    return [CONTEXT, *graph.states, *sorted(lifetimes(graph))]


def place_on(board: Board, graph: Graph, rows: int, layouts: Layouts, pins: Mapping[str, str]) -> Placement:
    """Plan the memory of a board; what only emulators need gives way when the product would not fit else."""
    pinned = set(pins.values())
    placement = place(graph, rows, layouts, rooms(board, graph, rows, pinned), pins)
    if placement.over:
        tight = place(graph, rows, layouts, rooms(board, graph, rows, pinned, emulated=False), pins)
        return tight if tight.over < placement.over else placement
    return placement


def place(
    graph: Graph, rows: int, layouts: Layouts, rooms: Sequence[Room], pins: Mapping[str, str] | None = None
) -> Placement:
    """Plan the memory for calls of ``rows`` rows.

    Args:
        rooms: regions for the blocks, the context's included.
        pins: state or buffer to the region that the user wants it in.
    """
    buffers = all_buffers(graph)
    lives = lifetimes(graph)
    views = {name: buffer_views(buffers[name], rows, layouts, 0) for name in sorted(lives)}
    moved = heat(graph, buffers, layouts)
    wanted = {CONTEXT: _fastest(rooms), **(pins or {})}
    items = [
        Demand(name, size, live, moved.get(name, 0), wanted.get(name, ""))
        for name, size, live in (
            (CONTEXT, CONTEXT_BYTES, ()),
            *((state.name, aligned(state.bytes), ()) for state in graph.states.values()),
            *((name, sum(map(view_bytes, some)), tuple(lives[name])) for name, some in views.items()),
        )
    ]
    sharing = share(items, rooms)
    # The context is the first thing in the first block.
    first = sharing.homes[CONTEXT]
    order = sorted(sharing.stackings, key=lambda name: name != first)
    blocks = tuple(
        _block(
            "memory" if len(order) == 1 else f"memory_{region}",
            region,
            [item for item in items if sharing.homes[item.name] == region],
            sharing.stackings[region],
            graph,
            views,
        )
        for region in order
    )
    at = {item.name: order.index(sharing.homes[item.name]) for item in items}
    offsets = {item.name: sharing.stackings[sharing.homes[item.name]].offsets[item.name] for item in items}
    return Placement(
        Memory(blocks, sum(block.total for block in blocks)),
        {
            name: Place(at[name], offsets[name], offsets[name] + some[1].offset if len(some) > 1 else -1)
            for name, some in views.items()
        },
        {name: Place(at[name], offsets[name]) for name in graph.states},
        sharing.price.over,
    )


def _fastest(rooms: Sequence[Room]) -> str:
    """The room for the context, which every call begins with."""
    able = [room for room in rooms if not room.closed and (room.bytes is None or room.bytes >= CONTEXT_BYTES)]
    return min(able, key=lambda room: room.cost).name if able else ""


def _block(
    name: str,
    region: str,
    items: list[Demand],
    stacking: Stacking,
    graph: Graph,
    views: Mapping[str, tuple[View, ...]],
) -> Block:
    context = sum(item.bytes for item in items if item.name == CONTEXT)
    states = sum(item.bytes for item in items if item.name in graph.states)
    passing = [item for item in items if not item.always]
    spans = [
        Span(
            item.name,
            "context" if item.name == CONTEXT else "state" if item.always else "arena",
            stacking.offsets[item.name],
            graph.states[item.name].bytes if item.name in graph.states else item.bytes,
            first=item.lives[0][0] if item.lives else -1,
            last=item.lives[-1][1] if item.lives else -1,
            heat=item.heat,
            live=item.lives,
            views=_views(item.name, stacking.offsets[item.name], graph, views),
        )
        for item in sorted(items, key=lambda item: (not item.always, stacking.offsets[item.name], item.name))
    ]
    return Block(
        name=name,
        region=region,
        context=context,
        states=states,
        arena=stacking.height - context - states,
        total=stacking.height,
        bound=lower_bound(passing),
        proven=stacking.proven,
        spans=tuple(spans),
    )


def _views(name: str, offset: int, graph: Graph, views: Mapping[str, tuple[View, ...]]) -> tuple[View, ...]:
    """The arrays of a buffer or state where it stands; none of the context."""
    if name in graph.states:
        state = graph.states[name]
        rows: tuple[int, ...] = (state.capacity, state.width)
        scales: tuple[int, ...] = (state.capacity, state.pieces)
        if state.apart:
            rows, scales = (state.pieces, state.capacity, state.width // state.pieces), (state.pieces, state.capacity)
        elements = View("", str(state.type), rows, offset)
        if state.type is not StateType.I8:
            return (elements,)
        return elements, View("scale", "bf16", scales, offset + state.scales_at)
    return tuple(msgspec.structs.replace(view, offset=offset + view.offset) for view in views.get(name, ()))
