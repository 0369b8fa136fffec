"""Read the file that the plugin wrote."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from colibri.emulate.symbols import Symbols
from colibri.errors import EmulatorFailed

# `struct header` of records.h, all 64-bit words: nine of its own, two findings of five, one.
_HEADER = struct.Struct("<9Q5Q5QQ")
_RECORD = struct.Struct("<II")
_MAGIC = 0x52455652455342
_VERSION = 4
_BLOCK, _MARK, _RANGE, _SNAPSHOT, _WATCH, _CALL = 1, 2, 3, 4, 5, 6
_NONE = 2**64 - 1
_PAGE_BITS = 12


@dataclass(frozen=True)
class Finding:
    """Accesses that should not have been: how many, and where the first one was.

    Attributes:
        count: number of them; the rest is 0 when there were none.
        pc: address of the first one's instruction.
        address: what it accessed.
        size: in bytes.
        store: whether it wrote.
    """

    count: int
    pc: int
    address: int
    size: int
    store: bool


@dataclass(frozen=True)
class Traffic:
    """Accesses and their bytes."""

    loads: int
    load_bytes: int
    stores: int
    store_bytes: int

    def since(self, earlier: Traffic) -> Traffic:
        """What came after an earlier look at the same counters."""
        return Traffic(
            self.loads - earlier.loads,
            self.load_bytes - earlier.load_bytes,
            self.stores - earlier.stores,
            self.store_bytes - earlier.store_bytes,
        )


@dataclass(frozen=True)
class Touched:
    """What was touched of a watched range.

    Attributes:
        range: the addresses watched, ``low`` up to, not including, ``high``.
        low: lowest address touched.
        high: end of the highest; equal to ``low`` when nothing was touched.
        pages: pages of 4,096 bytes of which something was touched.
    """

    range: tuple[int, int]
    low: int
    high: int
    pages: int

    @property
    def of_pages(self) -> int:
        """All pages in which the range lies."""
        start, end = self.range
        return (end - 1 >> _PAGE_BITS) - (start >> _PAGE_BITS) + 1


@dataclass(frozen=True)
class CallUse:
    """The stack in calls of one function.

    Attributes:
        start: of the function.
        times: that it was called by the one that was named.
        lowest_stack_store: lowest address written in the stack meanwhile, or None.
    """

    start: int
    times: int
    lowest_stack_store: int | None


@dataclass(frozen=True)
class MemoryUse:
    """What the check saw. Counts are accesses and bytes.

    Attributes:
        unaligned: accesses that are not aligned.
        outside: accesses outside the given memory, writes to read-only memory included.
        lowest_stack_store: lowest address written in the stack, or None.
        watched: for each of `Plugin.watched`, what was touched.
        calls: for each of `Plugin.calls`, what it did.
    """

    loads: int
    load_bytes: int
    stores: int
    store_bytes: int
    unaligned: Finding
    outside: Finding
    lowest_stack_store: int | None
    watched: tuple[Touched, ...] = ()
    calls: tuple[CallUse, ...] = ()

    def touched(self, start: int) -> Touched | None:
        """Of the watched range that begins at an address; None when there is none."""
        return next((one for one in self.watched if one.range[0] == start), None)


@dataclass(frozen=True)
class Mark:
    """A marked instruction was reached after ``instructions`` of the selected ones."""

    address: int
    instructions: int


@dataclass(frozen=True)
class Snapshot:
    """All counters at the moment when a function was entered; its first instruction is not counted yet.

    Attributes:
        address: start of the function.
        instructions: of the selected ones that ran so far.
        traffic: accesses that the check saw so far.
        unaligned: accesses so far that are not aligned.
        outside: accesses so far outside the given memory.
        ranges: traffic so far in each of `Plugin.counted`.
        executions: how often each of the first blocks of `Observation.blocks` ran so far.
    """

    address: int
    instructions: int
    traffic: Traffic
    unaligned: int
    outside: int
    ranges: tuple[Traffic, ...]
    executions: tuple[int, ...]


@dataclass(frozen=True)
class Observation:
    """The plugin's results.

    Attributes:
        counts: executions by address of the instruction. An x86 ``rep`` instruction counts once per repetition.
        marks: in the order in which they were reached.
        memory: what the check saw, or None when it was not asked for.
        blocks: addresses of each translated block's instructions; an address may be in several blocks.
        snapshots: in the order in which they were taken.
        moments: marks and snapshots together, in their order.
    """

    counts: dict[int, int]
    marks: tuple[Mark, ...]
    memory: MemoryUse | None
    blocks: tuple[tuple[int, ...], ...] = ()
    snapshots: tuple[Snapshot, ...] = ()
    moments: tuple[Mark | Snapshot, ...] = ()

    @property
    def total(self) -> int:
        """All executed instructions."""
        return sum(self.counts.values())

    def instructions_by_function(self, image: Path) -> dict[str, int]:
        """Executed instructions per function of the image, the most expensive first.

        What belongs to no function of the symbol table is under ``?``.
        """
        return dict(sorted(self._by_function(Symbols.of(image)).items(), key=lambda item: (-item[1], item[0])))

    def _by_function(self, symbols: Symbols) -> dict[str, int]:
        functions: dict[str, int] = {}
        for address, count in self.counts.items():
            name = symbols.function_at(address) or "?"
            functions[name] = functions.get(name, 0) + count
        return functions


def read_observation(path: Path, *, checked: bool) -> Observation:
    """Read the plugin's file; also while QEMU still runs.

    Args:
        checked: whether the plugin was asked to check memory accesses.

    Raises:
        EmulatorFailed: no such file, not the plugin's, or the plugin ran out of room.
    """
    hint = "does this QEMU load plugins? Debian's qemu-user-static does not, qemu-user does"
    try:
        with path.open("rb") as file:
            head = file.read(_HEADER.size)
            if len(head) != _HEADER.size:
                raise EmulatorFailed("the plugin wrote no results", where=str(path), hint=hint)
            fields = _HEADER.unpack(head)
            if fields[:2] != (_MAGIC, _VERSION):
                raise EmulatorFailed("not results of this plugin", where=str(path))
            used, dropped = fields[2:4]
            records = file.read(used - _HEADER.size)
    except FileNotFoundError:
        raise EmulatorFailed("the plugin wrote no results", where=str(path), hint=hint) from None
    if dropped:
        raise EmulatorFailed(
            f"the plugin had no room for {dropped} records", where=str(path), hint="run less at a time"
        )

    counts: dict[int, int] = {}
    moments: list[Mark | Snapshot] = []
    blocks: list[tuple[int, ...]] = []
    watched: list[Touched] = []
    calls: list[CallUse] = []
    n_ranges = 0
    for kind, words in _records(records):
        if kind == _BLOCK:
            blocks.append(words[1:])
            for address in words[1:] if words[0] else ():
                counts[address] = counts.get(address, 0) + words[0]
        elif kind == _MARK:
            moments.append(Mark(*words))
        elif kind == _RANGE:
            n_ranges += 1
        elif kind == _WATCH:
            watched.append(_touched(words))
        elif kind == _CALL:
            calls.append(CallUse(words[0], words[1], _address(words[2])))
        elif kind == _SNAPSHOT:
            moments.append(_snapshot(words, n_ranges))
    return Observation(
        counts=counts,
        marks=tuple(moment for moment in moments if isinstance(moment, Mark)),
        memory=_memory_use(fields, tuple(watched), tuple(calls)) if checked else None,
        blocks=tuple(blocks),
        snapshots=tuple(moment for moment in moments if isinstance(moment, Snapshot)),
        moments=tuple(moments),
    )


def _snapshot(words: tuple[int, ...], n_ranges: int) -> Snapshot:
    ranges = tuple(Traffic(*words[at : at + 4]) for at in range(8, 8 + 4 * n_ranges, 4))
    return Snapshot(words[0], words[1], Traffic(*words[2:6]), words[6], words[7], ranges, words[8 + 4 * n_ranges :])


def _records(raw: bytes) -> Iterator[tuple[int, tuple[int, ...]]]:
    at = 0
    while at < len(raw):
        kind, n_words = _RECORD.unpack_from(raw, at)
        at += _RECORD.size
        yield kind, struct.unpack_from(f"<{n_words}Q", raw, at)
        at += 8 * n_words


def _touched(words: tuple[int, ...]) -> Touched:
    start, end, low, high, *bits = words
    pages = sum(word.bit_count() for word in bits)
    return Touched((start, end), low, high, pages) if pages else Touched((start, end), start, start, 0)


def _address(word: int) -> int | None:
    return None if word == _NONE else word


def _memory_use(fields: tuple[int, ...], watched: tuple[Touched, ...], calls: tuple[CallUse, ...]) -> MemoryUse:
    loads, load_bytes, stores, store_bytes = fields[5:9]
    return MemoryUse(
        loads=loads,
        load_bytes=load_bytes,
        stores=stores,
        store_bytes=store_bytes,
        unaligned=_finding(fields[9:14]),
        outside=_finding(fields[14:19]),
        lowest_stack_store=_address(fields[19]),
        watched=watched,
        calls=calls,
    )


def _finding(fields: tuple[int, ...]) -> Finding:
    count, pc, address, size, store = fields
    return Finding(count, pc, address, size, bool(store))
