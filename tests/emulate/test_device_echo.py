"""A device that answers over the test protocol, on every board and emulator."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from device_images import targets

from colibri.boards.profile import Board, Emulator
from colibri.emulate.protocol import Request, encode_requests, parse_responses
from colibri.emulate.runner import run

DeviceBuilder = Callable[[Board, Emulator], Path]

EVERY_BYTE = bytes(range(256)) + b"\r\n\x1a\x00"


@targets()
def test_echo_returns_the_payload_and_the_status(board: Board, emulator: Emulator, device_image: DeviceBuilder) -> None:
    requests = [Request("E", EVERY_BYTE), Request("E"), Request("E", b"\xff" * 4)]
    outcome = run(device_image(board, emulator), board, emulator, request=encode_requests(requests), timeout=20)
    assert outcome.exit_code == 42
    answers = parse_responses(outcome.output, 3)
    assert [(answer.op, answer.status, answer.payload) for answer in answers] == [
        ("E", -7, request.payload) for request in requests
    ]


@targets()
def test_start_up_prepares_variables(board: Board, emulator: Emulator, device_image: DeviceBuilder) -> None:
    requests = encode_requests([Request("V"), Request("T"), Request("V")])
    outcome = run(device_image(board, emulator), board, emulator, request=requests, timeout=20)
    first, second = parse_responses(outcome.output, 2)
    assert first.words == (0x12345678, 0x9ABCDEF0, 0, 0xA0A0A0A0)
    assert second.words == (0x12345678, 0x9ABCDEF1, 0, 0xA0A0A0A0)
    assert b"@ home, @ work: no frames\n" in outcome.output


@targets()
def test_no_request_is_the_end_of_the_stream(board: Board, emulator: Emulator, device_image: DeviceBuilder) -> None:
    assert run(device_image(board, emulator), board, emulator, timeout=20).exit_code == 42


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        pytest.param(lambda raw: b"\0" + raw[1:], 43, id="magic"),
        pytest.param(lambda raw: raw[:-9] + b"\x80" + raw[-8:], 44, id="payload"),
        pytest.param(lambda raw: raw[:-1] + bytes([raw[-1] ^ 1]), 44, id="checksum"),
        pytest.param(lambda raw: raw[:-6], 44, id="cut off"),
    ],
)
@targets()
def test_device_notices_a_damaged_request(
    board: Board, emulator: Emulator, device_image: DeviceBuilder, damage: Callable[[bytes], bytes], code: int
) -> None:
    raw = encode_requests([Request("E", struct.pack("<3I", 1, 2, 3))])
    assert run(device_image(board, emulator), board, emulator, request=damage(raw), timeout=20).exit_code == code


@targets()
def test_output_is_streamed(board: Board, emulator: Emulator, device_image: DeviceBuilder) -> None:
    pieces: list[bytes] = []
    request = encode_requests([Request("T"), Request("E", EVERY_BYTE)])
    outcome = run(device_image(board, emulator), board, emulator, request=request, on_output=pieces.append)
    assert b"".join(pieces) == outcome.output != b""
