"""The QEMU plugin counts exactly and sees what an access does."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from device_images import is_bare, is_qemu, is_small, targets

from colibri.boards.profile import Board, BoardKind, Emulator, EmulatorKind, Holds
from colibri.emulate.plugin import AddressRange, MemoryUse, Observation, Plugin, WatchedCall, memory_check
from colibri.emulate.protocol import Request, encode_requests
from colibri.emulate.runner import RunFailed, run
from colibri.emulate.symbols import Symbols
from colibri.errors import BadInput, EmulatorFailed, UsageError

DeviceBuilder = Callable[[Board, Emulator], Path]


def count(times: int) -> Request:
    return Request("C", struct.pack("<I", times))


def observe(image: Path, board: Board, emulator: Emulator, plugin: Plugin, *requests: Request) -> Observation:
    outcome = run(image, board, emulator, request=encode_requests(requests), timeout=20, plugin=plugin)
    assert outcome.exit_code == 42
    assert outcome.observation is not None
    return outcome.observation


def memory_use(image: Path, board: Board, emulator: Emulator, *requests: Request) -> MemoryUse:
    functions = () if board.kind is BoardKind.BARE else ("answer_requests", "access_at", "vector_at", "frame_word")
    observation = observe(image, board, emulator, memory_check(image, functions), *requests)
    assert observation.memory is not None
    return observation.memory


@targets(is_qemu)
def test_loop_is_counted_exactly(board: Board, emulator: Emulator, device_image: DeviceBuilder) -> None:
    image = device_image(board, emulator)
    observation = observe(image, board, emulator, Plugin(), count(1000), count(234))
    low, high = Symbols.of(image).range_of("counted_loop")
    within = [times for address, times in observation.counts.items() if low <= address < high]
    assert within.count(1234) == 2
    assert max(within) == 1234
    functions = observation.instructions_by_function(image)
    assert functions["counted_loop"] == sum(within)
    assert sum(functions.values()) == observation.total


@targets(is_qemu)
def test_marks_measure_between_two_calls(board: Board, emulator: Emulator, device_image: DeviceBuilder) -> None:
    image = device_image(board, emulator)
    symbols = Symbols.of(image)
    marker = symbols.range_of("marker")[0]
    plugin = Plugin(marks=(marker,), within=(AddressRange(*symbols.range_of("counted_loop")),))
    marks = observe(image, board, emulator, plugin, count(1000), count(1500)).marks
    assert [mark.address for mark in marks] == [marker] * 4
    before, after, again, last = (mark.instructions for mark in marks)
    assert before == 0
    assert after == again
    assert (last - again) - (after - before) == 2 * 500


@targets(is_qemu)
def test_two_runs_count_the_same(board: Board, emulator: Emulator, device_image: DeviceBuilder) -> None:
    image = device_image(board, emulator)
    first = observe(image, board, emulator, Plugin(), count(77))
    second = observe(image, board, emulator, Plugin(), count(77))
    names = ("main", "counted_loop", "port_read", "request_next")
    for name in names:
        assert first.instructions_by_function(image)[name] == second.instructions_by_function(image)[name]
    if board.kind is BoardKind.BARE:
        assert first.counts == second.counts


@targets(is_qemu)
def test_good_program_has_no_finding(board: Board, emulator: Emulator, device_image: DeviceBuilder) -> None:
    use = memory_use(device_image(board, emulator), board, emulator, Request("V"), Request("E", bytes(400)))
    assert (use.unaligned.count, use.outside.count) == (0, 0)
    assert use.loads > 0
    assert use.stores > 0
    assert use.store_bytes >= use.stores


@targets(lambda board, emulator: is_qemu(board, emulator) and not is_small(board))  # there it is a fault
def test_unaligned_access_is_found(board: Board, emulator: Emulator, device_image: DeviceBuilder) -> None:
    image = device_image(board, emulator)
    found = memory_use(image, board, emulator, Request("M")).unaligned
    assert found.count == 1
    assert Symbols.of(image).function_at(found.pc) == "access_at"
    assert (found.address % 4, found.size, found.store) == (1, 4, False)


# These machines have the board's memory and no more, and notice by themselves.
EXACT = ("microbit", "stm32vldiscovery")


@targets(lambda board, emulator: emulator.kind is EmulatorKind.QEMU_SYSTEM)
def test_access_outside_memory_is_found(board: Board, emulator: Emulator, device_image: DeviceBuilder) -> None:
    image = device_image(board, emulator)
    # the first word behind the board's memory; the emulated board has more
    values = Symbols.of(image).values
    region = board.region_for(Holds.STACK).name
    behind = values[f"colibri_region_{region}_origin"] + values[f"colibri_region_{region}_length"]
    access = Request("A", struct.pack("<2I", behind, 0))
    if emulator.name in EXACT:
        with pytest.raises(RunFailed, match="in access_at"):
            memory_use(image, board, emulator, access)
        return
    found = memory_use(image, board, emulator, access).outside
    assert found.count == 1
    assert found.address == behind
    assert Symbols.of(image).function_at(found.pc) == "access_at"


@targets(is_qemu)
def test_the_stack_is_watched(board: Board, emulator: Emulator, device_image: DeviceBuilder) -> None:
    image = device_image(board, emulator)
    use = memory_use(image, board, emulator, Request("V"))
    values = Symbols.of(image).values
    assert use.lowest_stack_store is not None
    assert values["port_stack_top"] - 4096 < use.lowest_stack_store < values["port_stack_top"]


@targets(is_qemu)
def test_the_stack_of_calls_is_watched(board: Board, emulator: Emulator, device_image: DeviceBuilder) -> None:
    image = device_image(board, emulator)
    symbols = Symbols.of(image)

    def named(name: str, caller: str = "") -> WatchedCall:
        code = (AddressRange(*symbols.range_of(name)),)
        return WatchedCall(code, symbols.range_of(caller)[0] if caller else 0)

    loop = "main" if board.kind is BoardKind.BARE else "answer_requests"
    calls = (named(loop), named("frame_word", loop), named("counted_loop", loop), named("frame_word", "counted_loop"))
    plugin = replace(memory_check(image), calls=calls)
    use = observe(image, board, emulator, plugin, Request("E", bytes(40)), count(3), count(4)).memory
    assert use is not None
    assert [call.start for call in use.calls] == [call.start for call in calls]
    assert [call.times for call in use.calls] == [0, 10, 2, 0]
    top, lowest = symbols.values["port_stack_top"], use.lowest_stack_store
    of_loop, of_word, of_count, of_nobody = (call.lowest_stack_store for call in use.calls)
    assert (of_loop, of_nobody) == (None, None)
    assert lowest is not None and of_word is not None
    assert top - 4096 < lowest <= of_word < top
    assert of_count is None or of_count > of_word  # it takes none, but in a build without optimisation


@targets(is_bare)
def test_nothing_is_watched_in_the_calls_of_a_function(
    board: Board, emulator: Emulator, device_image: DeviceBuilder
) -> None:
    image = device_image(board, emulator)
    symbols = Symbols.of(image)
    memory = AddressRange(symbols.values["port_stack_limit"], symbols.values["port_stack_top"])
    main, word = (AddressRange(*symbols.range_of(name)) for name in ("main", "frame_word"))
    plugin = replace(
        memory_check(image), watched=(memory,), calls=(WatchedCall((main,)), WatchedCall((word,), main.low))
    )
    requests = Request("E", bytes(40)), Request("V")
    whole = observe(image, board, emulator, plugin, *requests).memory
    apart = observe(image, board, emulator, replace(plugin, apart=word.low), *requests).memory
    assert whole is not None and apart is not None
    assert whole.watched[0].low == whole.lowest_stack_store == apart.lowest_stack_store
    assert apart.calls == whole.calls
    assert (apart.loads, apart.stores) == (whole.loads, whole.stores)


@targets(is_bare)
def test_memory_is_watched(board: Board, emulator: Emulator, device_image: DeviceBuilder) -> None:
    image = device_image(board, emulator)
    use = memory_use(image, board, emulator, Request("V"))
    values = Symbols.of(image).values
    (block,) = use.watched
    assert (block.low, block.high) == (values["arena"] + 4 * 255, values["arena"] + 4 * 256)
    assert (block.pages, block.of_pages) == (1, 1 + (values["arena"] % 4096 + 4 * 256 > 4096))


@targets(lambda board, emulator: not is_qemu(board, emulator))
def test_native_run_takes_no_plugin(board: Board, emulator: Emulator, device_image: DeviceBuilder) -> None:
    with pytest.raises(UsageError):
        run(device_image(board, emulator), board, emulator, plugin=Plugin())


@targets(is_qemu)
def test_check_of_an_unknown_function(board: Board, emulator: Emulator, device_image: DeviceBuilder) -> None:
    with pytest.raises(BadInput, match="nobody"):
        memory_check(device_image(board, emulator), ["nobody"])


@targets(is_qemu)
def test_snapshots_hold_the_counts_of_their_moment(
    board: Board, emulator: Emulator, device_image: DeviceBuilder
) -> None:
    image = device_image(board, emulator)
    symbols = Symbols.of(image)
    low, high = symbols.range_of("counted_loop")
    marker = symbols.range_of("marker")[0]
    plugin = Plugin(snapshots=(marker,), marks=(marker,), within=(AddressRange(low, high),))
    seen = observe(image, board, emulator, plugin, count(1000), count(1500))
    assert [snapshot.instructions for snapshot in seen.snapshots] == [mark.instructions for mark in seen.marks]

    def executions(taken: int) -> dict[int, int]:
        counts: dict[int, int] = {}
        for block, times in zip(seen.blocks, seen.snapshots[taken].executions, strict=False):
            for address in block if times else ():
                counts[address] = counts.get(address, 0) + times
        return counts

    before, after, again, last = (executions(taken) for taken in range(4))
    assert marker not in before  # it is just being entered
    assert [counts[marker] for counts in (after, again, last)] == [1, 2, 3]
    loop = [after[address] - before.get(address, 0) for address in after if low <= address < high]
    assert max(loop) == 1000
    assert sum(loop) == seen.snapshots[1].instructions
    assert {address: again[address] for address in after if low <= address < high} == {
        address: after[address] for address in after if low <= address < high
    }
    assert max(last[address] - again[address] for address in last if low <= address < high) == 1500


@targets(is_bare)
def test_ranges_have_counters_of_their_own(board: Board, emulator: Emulator, device_image: DeviceBuilder) -> None:
    image = device_image(board, emulator)
    values = Symbols.of(image).values
    arena = AddressRange(values["arena"], values["arena"] + 4 * 256)
    stack = AddressRange(values["port_stack_limit"], values["port_stack_top"])
    plugin = replace(memory_check(image), counted=tuple(sorted((arena, stack))), snapshots=(values["frame_end"] & ~1,))
    seen = observe(image, board, emulator, plugin, Request("V"))
    last = dict(zip(plugin.counted, seen.snapshots[-1].ranges, strict=True))
    assert (last[arena].loads, last[arena].load_bytes) == (1, 4)
    assert (last[arena].stores, last[arena].store_bytes) == (1, 4)
    assert last[stack].stores > 0
    assert seen.memory is not None
    assert last[stack].load_bytes < seen.memory.load_bytes


@targets(is_bare)
def test_ranges_must_not_overlap(board: Board, emulator: Emulator, device_image: DeviceBuilder) -> None:
    image = device_image(board, emulator)
    plugin = Plugin(check=True, counted=(AddressRange(16, 32), AddressRange(24, 40)))
    with pytest.raises(EmulatorFailed, match="not ascending: 18-28"):
        observe(image, board, emulator, plugin, Request("V"))
