"""Host side of the test protocol: requests to a device, and the framed answers on its console.

``runtime_c/ports/frames.h`` describes both formats and is the device's side.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from colibri.errors import EmulatorFailed

MAGIC = 0x434C4252

_HEAD = re.compile(rb"@ ([0-9a-f]{8}) ")
_FRAME = re.compile(rb"@ ([0-9a-f]{8}) ([A-Za-z]) (-?\d+) (\d+)((?: [0-9a-f]{8})*) ([0-9a-f]{8})\r?\n")


@dataclass(frozen=True)
class Request:
    """One thing to do.

    Attributes:
        op: one ASCII letter.
        payload: little-endian 32-bit words, e.g. ``numpy_array.astype("<f4").tobytes()``.
    """

    op: str
    payload: bytes = b""


@dataclass(frozen=True)
class Response:
    """One checked answer.

    Attributes:
        op: one ASCII letter.
        status: the device's status code; 0 is success.
        payload: little-endian 32-bit words, e.g. for ``numpy.frombuffer(payload, "<f4")``.
    """

    op: str
    status: int
    payload: bytes

    @property
    def words(self) -> tuple[int, ...]:
        """The payload as unsigned words."""
        return struct.unpack(f"<{len(self.payload) // 4}I", self.payload)


def encode_requests(requests: Sequence[Request]) -> bytes:
    """Return the request stream.

    Raises:
        ValueError: an op is not one ASCII letter, or a payload is not whole words.
    """
    stream = [struct.pack("<I", MAGIC)]
    for request in requests:
        if len(request.op) != 1 or not (request.op.isascii() and request.op.isalpha()):
            raise ValueError(f"op {request.op!r} is not one ASCII letter")
        if len(request.payload) % 4:
            raise ValueError(f"payload of {len(request.payload)} bytes is not whole words")
        record = struct.pack("<II", ord(request.op), len(request.payload) // 4) + request.payload
        stream += [record, struct.pack("<I", zlib.crc32(record))]
    return b"".join(stream)


def parse_responses(output: bytes, expected: int | None = None) -> list[Response]:
    """Find the frames in console output; other text between them is skipped.

    Args:
        output: everything the device wrote.
        expected: number of frames that must be there, if known.

    Raises:
        EmulatorFailed: a frame is damaged, cut off or missing.
    """
    responses: list[Response] = []
    for head in _HEAD.finditer(output):
        where = f"frame {len(responses)}"
        frame = _FRAME.match(output, head.start())
        if frame is None:
            line = output[head.start() : head.start() + 80].split(b"\n")[0].decode("latin-1")
            raise EmulatorFailed("damaged or cut off answer", where=where, hint=f"it begins {line!r}")
        responses.append(_checked(frame, len(responses), where))
    if expected is not None and len(responses) != expected:
        raise EmulatorFailed(f"{len(responses)} answers instead of {expected}")
    return responses


def _checked(frame: re.Match[bytes], sequence: int, where: str) -> Response:
    op, status, count = frame[2], int(frame[3]), int(frame[4])
    words = [int(word, 16) for word in frame[5].split()]
    if not -(2**31) <= status < 2**31 or count != len(words):
        raise EmulatorFailed(f"{len(words)} words where {count} are announced, status {status}", where=where)
    payload = struct.pack(f"<{len(words)}I", *words)
    raw = struct.pack("<IIiI", int(frame[1], 16), ord(op), status, count) + payload
    if zlib.crc32(raw) != int(frame[6], 16):
        raise EmulatorFailed("checksum does not match", where=where, hint="the answer was damaged on its way")
    if int(frame[1], 16) != sequence:
        raise EmulatorFailed(f"answer number {int(frame[1], 16)} comes where {sequence} is due", where=where)
    return Response(op.decode(), status, payload)
