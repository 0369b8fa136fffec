"""Run the test image under the plugin and cut what it saw into inferences."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from colibri.boards.profile import Emulator
from colibri.emulate.plugin import Mark, Observation, Snapshot, Traffic
from colibri.emulate.protocol import Request, encode_requests, parse_responses
from colibri.emulate.runner import run
from colibri.errors import EmulatorFailed
from colibri.package import Package
from colibri.profile.watch import Watch


@dataclass(frozen=True)
class KernelCall:
    """A kernel was entered after ``at`` instructions of the inference."""

    address: int
    at: int


@dataclass(frozen=True)
class Inference:
    """One token, one prompt or one call of forward, from the entry of the model's function to its return.

    Attributes:
        entry: ``step``, ``prefill``, ``encode`` or ``forward``.
        position: of the token (0 for samples).
        instructions: all of them, those of the compiler's helpers included.
        calls: kernels entered, in order.
        traffic: loads and stores in each of `Watch.areas`.
        elsewhere: loads and stores in none of them.
        unaligned: accesses that are not aligned.
        outside: accesses outside the board's memory.
    """

    entry: str
    position: int
    instructions: int
    calls: tuple[KernelCall, ...]
    traffic: tuple[Traffic, ...]
    elsewhere: Traffic
    unaligned: int
    outside: int


@dataclass(frozen=True)
class Measured:
    """Inferences of one run, and how often each instruction ran in each.

    Attributes:
        addresses: of the instructions, ascending; those of the test program are left out.
        executions: ``[inferences, addresses]`` int64.
    """

    inferences: tuple[Inference, ...]
    addresses: NDArray[np.uint64]
    executions: NDArray[np.int64]

    def of(self, entry: str) -> NDArray[np.intp]:
        """Rows of the inferences that entered there."""
        return np.array([i for i, one in enumerate(self.inferences) if one.entry == entry], np.intp)

    def split(self) -> tuple[Measured, Measured]:
        """The inferences, and the calls of encode before them."""
        encoded = self.of("encode")
        others = np.setdiff1d(np.arange(len(self.inferences)), encoded)
        first, second = (
            Measured(tuple(self.inferences[i] for i in rows), self.addresses, self.executions[rows])
            for rows in (others, encoded)
        )
        return first, second


def measure(
    image: Path, package: Package, emulator: Emulator, watch: Watch, requests: list[Request], timeout: float
) -> Measured:
    """Run the requests, which must all succeed.

    Raises:
        ToolMissing: no C compiler for the plugin, or no emulator.
        EmulatorFailed: a hang, a fault, or a status that is not ok.
    """
    outcome = run(
        image,
        package.board,
        emulator,
        request=encode_requests(requests),
        timeout=timeout,
        plugin=watch.plugin,
    )
    where = f"{package.board.id} on {emulator.name}"
    responses = parse_responses(outcome.output)
    if outcome.exit_code != 0:
        raise EmulatorFailed(f"the test program ended with code {outcome.exit_code}", where=where)
    if bad := [response for response in responses if response.status != 0]:
        raise EmulatorFailed(f"status {bad[0].status} in answer to {bad[0].op}", where=where)
    assert outcome.observation is not None
    return _cut(outcome.observation, watch)


def _cut(observation: Observation, watch: Watch) -> Measured:
    inferences: list[Inference] = []
    ends: list[tuple[Snapshot, Snapshot]] = []
    begin: Snapshot | None = None
    calls: list[KernelCall] = []
    position = 0
    for moment in observation.moments:
        if isinstance(moment, Mark):
            if begin is not None:
                calls.append(KernelCall(moment.address, moment.instructions - begin.instructions))
        elif moment.address != watch.answer:
            begin = begin or moment  # `step` calls `prefill`
        elif begin is None:
            position = 0  # the answer to a request that ran no model: initialise, reset
        else:
            inferences.append(_inference(begin, moment, watch.entries[begin.address], position, tuple(calls)))
            ends.append((begin, moment))
            position += begin.address in watch.entries and watch.entries[begin.address] == "step"
            begin, calls = None, []
    return _executions(observation, watch, tuple(inferences), ends)


def _inference(begin: Snapshot, end: Snapshot, entry: str, position: int, calls: tuple[KernelCall, ...]) -> Inference:
    traffic = tuple(late.since(early) for late, early in zip(end.ranges, begin.ranges, strict=True))
    whole = end.traffic.since(begin.traffic)
    known = [sum(column) for column in zip(*(_fields(part) for part in traffic), strict=True)] or [0, 0, 0, 0]
    return Inference(
        entry=entry,
        position=position,
        instructions=end.instructions - begin.instructions,
        calls=calls,
        traffic=traffic,
        elsewhere=whole.since(Traffic(*known)),
        unaligned=end.unaligned - begin.unaligned,
        outside=end.outside - begin.outside,
    )


def _fields(traffic: Traffic) -> tuple[int, int, int, int]:
    return traffic.loads, traffic.load_bytes, traffic.stores, traffic.store_bytes


def _executions(
    observation: Observation, watch: Watch, inferences: tuple[Inference, ...], ends: list[tuple[Snapshot, Snapshot]]
) -> Measured:
    blocks = np.zeros((len(ends), len(observation.blocks)), np.int64)
    for row, (begin, end) in enumerate(ends):
        blocks[row, : len(end.executions)] = end.executions
        blocks[row, : len(begin.executions)] -= begin.executions
    ran = np.flatnonzero(blocks.any(axis=0))
    everything = sorted({address for block in ran for address in observation.blocks[block]})
    addresses = [address for address in everything if watch.symbols.function_at(address) not in watch.harness]
    column = {address: i for i, address in enumerate(addresses)}
    executions = np.zeros((len(ends), len(addresses)), np.int64)
    for block in ran:
        for address in observation.blocks[block]:
            if address in column:
                executions[:, column[address]] += blocks[:, block]
    return Measured(inferences, np.array(addresses, np.uint64), executions)
