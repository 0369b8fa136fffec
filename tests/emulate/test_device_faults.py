"""A program that dies or hangs is reported with its program counter and symbol, on every board and emulator."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from device_images import is_small, targets

from colibri.boards.profile import Board, Emulator, EmulatorKind
from colibri.emulate.faults import Fault
from colibri.emulate.protocol import Request, encode_requests
from colibri.emulate.runner import RunFailed, run

DeviceBuilder = Callable[[Board, Emulator], Path]

# Emulated boards that answer reads of unmapped addresses: there the plugin's memory check finds them.
LENIENT = ("mps2-an500",)
NOWHERE = 0x0F000000


def fault_of(image: Path, board: Board, emulator: Emulator, *requests: Request, timeout: float = 20) -> Fault:
    with pytest.raises(RunFailed) as caught:
        run(image, board, emulator, request=encode_requests(requests), timeout=timeout)
    assert caught.value.exit_code == 7
    fault = caught.value.outcome.fault
    assert fault is not None
    assert fault.symbol is not None
    assert fault.symbol in str(caught.value)
    return fault


@targets()
def test_undefined_instruction(board: Board, emulator: Emulator, device_image: DeviceBuilder) -> None:
    fault = fault_of(device_image(board, emulator), board, emulator, Request("U"))
    assert fault.reason == ("hard fault" if is_small(board) else "undefined instruction")
    assert fault.symbol is not None
    assert fault.symbol.startswith("undefined_instruction")
    assert fault.pc is not None
    assert {"pc", "sp"} <= fault.registers.keys()


@targets()
def test_stack_overflow(board: Board, emulator: Emulator, device_image: DeviceBuilder) -> None:
    fault = fault_of(device_image(board, emulator), board, emulator, Request("O"))
    assert fault.reason == "stack overflow"
    assert fault.symbol is not None
    assert fault.symbol.startswith("overflow_stack")


@targets()
def test_bad_access(board: Board, emulator: Emulator, device_image: DeviceBuilder) -> None:
    image = device_image(board, emulator)
    access = Request("A", struct.pack("<2I", NOWHERE, 0))
    if emulator.name in LENIENT:
        # not noticed here: the test fails, and the list above shrinks, when the emulator learns it
        assert run(image, board, emulator, request=encode_requests([access]), timeout=20).exit_code == 42
        return
    fault = fault_of(image, board, emulator, access)
    assert fault.address == (None if is_small(board) else NOWHERE)
    assert fault.symbol is not None
    assert fault.symbol.startswith("access_at")


def has_switch(board: Board, emulator: Emulator) -> bool:
    return board.cpu.arch == "arm" and emulator.kind is EmulatorKind.QEMU_SYSTEM and not is_small(board)


@targets(has_switch)
@pytest.mark.parametrize(("op", "reason"), [("D", "division by zero"), ("M", "unaligned access")])
def test_forgiven_until_the_program_is_strict(
    op: str, reason: str, board: Board, emulator: Emulator, device_image: DeviceBuilder
) -> None:
    image = device_image(board, emulator)
    assert run(image, board, emulator, request=encode_requests([Request(op)]), timeout=20).exit_code == 42
    assert fault_of(image, board, emulator, Request("S"), Request(op)).reason == reason


@targets(lambda board, emulator: not has_switch(board, emulator))
def test_ports_without_that_switch(board: Board, emulator: Emulator, device_image: DeviceBuilder) -> None:
    image = device_image(board, emulator)
    request = encode_requests([Request("S"), Request("E", b"1234")])
    assert run(image, board, emulator, request=request, timeout=20).exit_code == 42


@targets()
def test_endless_loop(board: Board, emulator: Emulator, device_image: DeviceBuilder) -> None:
    image = device_image(board, emulator)
    with pytest.raises(RunFailed, match=r"no end after 0\.5 s, stopped at 0x[0-9a-f]+ in endless_loop") as caught:
        run(image, board, emulator, request=encode_requests([Request("T"), Request("L")]), timeout=0.5)
    assert "last output: @ home, @ work: no frames" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.outcome.fault is not None
    assert caught.value.outcome.fault.pc is not None
