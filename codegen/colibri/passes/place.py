"""Place every buffer in the caller's memory block: context, states, then the arena, where lifetimes may overlap."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from colibri.graph.graph import Buffer, BufferKind, Graph
from colibri.package import Memory, Span
from colibri.passes.pack import aligned

CONTEXT_BYTES = 64
EXTERNAL = (Graph.INPUT, Graph.OUTPUT)


@dataclass(frozen=True)
class BufferPlace:
    """Offsets from the start of the block, in bytes; ``second`` is the scale or the route's weights, -1 if none."""

    first: int
    second: int


@dataclass(frozen=True)
class Placement:
    """Where each state and buffer stands."""

    memory: Memory
    buffers: dict[str, BufferPlace]
    states: dict[str, int]


def buffer_parts(buffer: Buffer, rows: int, stride: int) -> tuple[int, int]:
    """Bytes of the two arrays of a buffer (elements; scales or route weights), each padded to 16."""
    rows = buffer.fixed_rows or rows
    if buffer.kind is BufferKind.FLOAT:
        return aligned(4 * rows * buffer.width), 0
    if buffer.kind is BufferKind.ROUTE:
        return aligned(4 * rows * buffer.width), aligned(4 * rows * buffer.width)
    element = 1 if buffer.kind is BufferKind.Q8 else 2
    return aligned(element * rows * stride), aligned(4 * rows)


def lifetimes(graph: Graph) -> dict[str, list[tuple[int, int]]]:
    """For each arena buffer, the intervals of op indices in which its rows matter, both ends included."""
    spans: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for index, op in enumerate(graph.ops):
        for scratch in op.scratch():
            spans[scratch.name].append((index, index))
        for name in op.reads():
            if name not in EXTERNAL:
                start, _ = spans[name][-1]
                spans[name][-1] = (start, index)
        for name in op.writes():
            if name not in EXTERNAL and name not in op.reads():
                spans[name].append((index, index))
    return dict(spans)


def _meet(a: list[tuple[int, int]], b: list[tuple[int, int]]) -> bool:
    return any(one[0] <= two[1] and two[0] <= one[1] for one in a for two in b)


def all_buffers(graph: Graph) -> dict[str, Buffer]:
    """Declared buffers and the ops' scratch; scratch of one name takes the largest width."""
    found = {name: buffer for name, buffer in graph.buffers.items() if name not in EXTERNAL}
    for op in graph.ops:
        for scratch in op.scratch():
            if scratch.name not in found or found[scratch.name].width < scratch.width:
                found[scratch.name] = scratch
    return found


def place(graph: Graph, rows: int, strides: dict[str, int]) -> Placement:
    """Plan the block for calls of ``rows`` rows.

    Largest buffers first, each at the lowest offset that no buffer alive at the same time covers.
    """
    spans: list[Span] = [Span("context", "context", 0, CONTEXT_BYTES)]
    at = CONTEXT_BYTES
    states: dict[str, int] = {}
    for state in graph.states.values():
        states[state.name] = at
        spans.append(Span(state.name, "state", at, state.bytes))
        at = aligned(at + state.bytes)
    arena = at

    lives = lifetimes(graph)
    parts = {
        name: buffer_parts(buffer, rows, strides.get(name, buffer.width))
        for name, buffer in all_buffers(graph).items()
        if name in lives
    }
    placed: dict[str, tuple[int, int]] = {}
    for name in sorted(parts, key=lambda name: (-sum(parts[name]), name)):
        size = sum(parts[name])
        busy = sorted(placed[other] for other in placed if _meet(lives[name], lives[other]))
        offset = arena
        for start, stop in busy:
            if offset + size <= start:
                break
            offset = max(offset, stop)
        placed[name] = (offset, offset + size)
    end = max((stop for _, stop in placed.values()), default=arena)
    for name, (start, stop) in sorted(placed.items(), key=lambda item: (item[1], item[0])):
        live = lives[name]
        spans.append(Span(name, "arena", start, stop - start, live[0][0], live[-1][1], tuple(live)))
    buffers = {
        name: BufferPlace(start, start + parts[name][0] if parts[name][1] else -1)
        for name, (start, _) in placed.items()
    }
    memory = Memory(CONTEXT_BYTES, arena - CONTEXT_BYTES, end - arena, end, tuple(spans))
    return Placement(memory, buffers, states)
