"""Write `model.bin` piece by piece: what is in memory is a few blocks of rows, whatever the checkpoint's size.

Blocks are converted and packed side by side in threads (numpy lets go of the interpreter's lock in its loops) and are
written at their places in any order. The bytes do not depend on how many threads there are.
"""

from __future__ import annotations

import os
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from threading import Event

from colibri.checksum import combined
from colibri.emit.model_bin import ModelBin, header_and_table
from colibri.graph.graph import Graph
from colibri.graph.weights import AnyMatrix, Vector
from colibri.passes.pack import Layouts, MatrixLayout, pack_matrix, pack_rows, pack_vector
from colibri.progress import Advance

_BLOCK = 1 << 17  # weights that are converted together: their floats stay in a processor's second cache
_TASK = 1 << 23  # weights that a thread takes at once
_MOST_THREADS = 8  # each holds some blocks, and of a matrix stored transposed all of it


def write_model_bin(path: Path, made: ModelBin, graph: Graph, layouts: Layouts, advance: Advance) -> None:
    """Write the file.

    Args:
        path: where nothing is yet.
        advance: is told how many bytes were written, whenever it is called.

    Raises:
        BadInput: a weight cannot be read, or holds values that cannot be used.
        OSError: the file cannot be written.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        os.truncate(descriptor, made.length)
        written: dict[str, list[_Run]] = {}
        tasks = (task for part in made.parts for name in part.weights for task in _tasks(graph, layouts, made, name))
        for name, runs in _side_by_side(tasks, descriptor):
            written.setdefault(name, []).extend(runs)
            advance(sum(run.length for run in runs))
        manifest = made.sections[-1].offset
        _write(descriptor, made.manifest, manifest)
        bounds = [*(made.offsets[part.weights[0]] for part in made.parts), manifest]
        checksums = [
            _checksum([run for name in part.weights for run in written.pop(name)], start, end)
            for part, (start, end) in zip(made.parts, pairwise(bounds), strict=True)
        ]
        _write(descriptor, header_and_table(made, checksums), 0)
    finally:
        os.close(descriptor)


@dataclass
class _Run:
    """Bytes that were written one behind the other."""

    offset: int
    length: int
    checksum: int


@dataclass(frozen=True)
class _Task:
    """Some rows of a weight, as pieces with their places in the file."""

    name: str
    pieces: Callable[[], Iterator[tuple[int, bytes]]]


@dataclass
class _Runs:
    """Puts pieces into the file, and together where they follow each other."""

    descriptor: int
    stop: Event
    found: list[_Run] = field(default_factory=list)

    def take(self, pieces: Callable[[], Iterator[tuple[int, bytes]]]) -> list[_Run]:
        for offset, raw in pieces():
            if self.stop.is_set():
                break
            _write(self.descriptor, raw, offset)
            before = next((run for run in self.found if run.offset + run.length == offset), None)
            if before is None:
                self.found.append(_Run(offset, len(raw), zlib.crc32(raw)))
            else:
                before.length += len(raw)
                before.checksum = zlib.crc32(raw, before.checksum)
        return self.found


def _tasks(graph: Graph, layouts: Layouts, made: ModelBin, name: str) -> Iterator[_Task]:
    weight, offset = graph.weights[name], made.offsets[name]
    if isinstance(weight, Vector):
        yield _Task(name, lambda: iter([(offset, pack_vector(weight))]))
        return
    layout = layouts.matrices[name]
    n, k = weight.shape
    if n * k <= _BLOCK:
        yield _Task(name, lambda: iter([(offset, pack_matrix(graph.loaded(name).load(), layout))]))
        return
    step = layout.n if layout.parts > 1 else max(1, _BLOCK // k // layout.tile_rows) * layout.tile_rows
    each = max(1, _TASK // (step * k)) * step if weight.in_order else n
    for begin in range(0, n, each):
        yield _Task(name, partial(_pieces, weight, layout, offset, range(begin, min(begin + each, n), step)))


def _pieces(weight: AnyMatrix, layout: MatrixLayout, offset: int, begins: range) -> Iterator[tuple[int, bytes]]:
    if len(begins) * begins.step >= weight.shape[0]:
        blocks = weight.blocks(begins.step)
    else:
        blocks = (weight.rows(begin, min(begin + begins.step, begins.stop)) for begin in begins)
    for begin, rows in zip(begins, blocks, strict=True):
        for place, raw in pack_rows(rows, begin, layout):
            yield offset + place, raw


def _side_by_side(tasks: Iterator[_Task], descriptor: int) -> Iterator[tuple[str, list[_Run]]]:
    """Results in the order of the tasks, of which only a few wait."""
    stop, threads = Event(), min(_MOST_THREADS, len(os.sched_getaffinity(0)))
    pool = ThreadPoolExecutor(threads)
    try:
        waiting: deque[tuple[str, Future[list[_Run]]]] = deque()
        for task in tasks:
            waiting.append((task.name, pool.submit(_Runs(descriptor, stop).take, task.pieces)))
            if len(waiting) > 2 * threads:
                name, future = waiting.popleft()
                yield name, future.result()
        for name, future in waiting:
            yield name, future.result()
    finally:
        stop.set()
        pool.shutdown(cancel_futures=True)


def _checksum(runs: list[_Run], start: int, end: int) -> int:
    """CRC-32 of a section, in which what was not written is zeros."""
    checksum, place = 0, start
    for run in sorted(runs, key=lambda run: run.offset):
        if run.offset > place:
            checksum = zlib.crc32(bytes(run.offset - place), checksum)
        checksum, place = combined(checksum, run.checksum, run.length), run.offset + run.length
    return zlib.crc32(bytes(end - place), checksum)


def _write(descriptor: int, raw: bytes, offset: int) -> None:
    view = memoryview(raw)
    while view:
        done = os.pwrite(descriptor, view, offset)
        view, offset = view[done:], offset + done
