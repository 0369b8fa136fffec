"""The host side of the test protocol, without a device."""

from __future__ import annotations

import string
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colibri.emulate.protocol import MAGIC, Request, Response, encode_requests, parse_responses
from colibri.errors import EmulatorFailed


def frame(sequence: int, op: str = "R", status: int = 0, words: tuple[int, ...] = ()) -> bytes:
    """What a device writes, by the description in frames.h."""
    raw = struct.pack(f"<IIiI{len(words)}I", sequence, ord(op), status, len(words), *words)
    body = "".join(f"{word:08x} " for word in words)
    return f"@ {sequence:08x} {op} {status} {len(words)} {body}{zlib.crc32(raw):08x}\n".encode()


def test_request_stream_layout() -> None:
    stream = encode_requests([Request("S", struct.pack("<2I", 7, 8)), Request("Q")])
    magic, op, count, first, second, crc = struct.unpack_from("<6I", stream)
    assert (magic, op, count, first, second) == (MAGIC, ord("S"), 2, 7, 8)
    assert crc == zlib.crc32(stream[4:20])
    assert struct.unpack_from("<2I", stream, 24) == (ord("Q"), 0)
    assert len(stream) == 36


@pytest.mark.parametrize("request_", [Request("ab"), Request(""), Request("@"), Request("é"), Request("a", b"123")])
def test_impossible_requests(request_: Request) -> None:
    with pytest.raises(ValueError, match=r"ASCII|words"):
        encode_requests([request_])


@given(
    st.lists(
        st.tuples(
            st.sampled_from(string.ascii_letters),
            st.integers(-(2**31), 2**31 - 1),
            st.lists(st.integers(0, 2**32 - 1), max_size=20).map(tuple),
        )
    )
)
def test_answers_are_found_between_other_text(answers: list[tuple[str, int, tuple[int, ...]]]) -> None:
    output = b"hello @ all\n"
    for sequence, (op, status, words) in enumerate(answers):
        output += frame(sequence, op, status, words) + b"noise without an end of line "
    assert [(answer.op, answer.status, answer.words) for answer in parse_responses(output)] == answers


def test_carriage_returns_of_a_serial_line() -> None:
    assert parse_responses(frame(0, words=(5,)).replace(b"\n", b"\r\n")) == [Response("R", 0, struct.pack("<I", 5))]


GOOD = frame(0, words=(1, 2)) + frame(1, words=(3,))


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        pytest.param(GOOD.replace(b"00000002", b"00000003"), "checksum", id="flipped bit"),
        pytest.param(GOOD[:-1], "cut off", id="no end of line"),
        pytest.param(GOOD[:-12], "cut off", id="no checksum"),
        pytest.param(frame(1), "comes where 0", id="first is missing"),
        pytest.param(frame(0) + frame(2), "comes where 1", id="gap"),
        pytest.param(frame(0) + frame(0), "comes where 1", id="twice"),
        pytest.param(GOOD.replace(b" 2 0", b" 3 0"), "announced", id="too few words"),
        pytest.param(GOOD.replace(b"00000003", b"0000zz03"), "damaged", id="no hexadecimal"),
        pytest.param(frame(0), "1 answers instead of 2", id="too few answers"),
    ],
)
def test_damaged_answers(output: bytes, problem: str) -> None:
    with pytest.raises(EmulatorFailed, match=problem):
        parse_responses(output, 2)
