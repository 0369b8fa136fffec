"""Ask a running system emulator for the registers of its processor."""

from __future__ import annotations

import os
import re
import socket
import time
from pathlib import Path

SOCKET_NAME = "monitor"
OPTION = f"unix:{SOCKET_NAME},server=on,wait=off"

_PROMPT = b"(qemu) "
_REGISTER = re.compile(r"\b(R\d\d|XPSR|pc|x\d+/[a-z0-9]+)\s*[= ]\s*([0-9a-f]{8,16})\b")
_NAMES = {"R13": "sp", "R14": "lr", "R15": "pc", "x1/ra": "lr", "x2/sp": "sp", "XPSR": "xpsr"}


def parse_registers(text: str) -> dict[str, int]:
    """Registers by name from QEMU's dump (``info registers``, or what it prints when it gives up).

    The program counter is ``pc``, the stack pointer ``sp``, the return address ``lr`` on every processor.
    """
    return {
        _NAMES.get(name, name.partition("/")[2] or name.lower()): int(value, 16)
        for name, value in _REGISTER.findall(text)
    }


def ask_registers(folder: Path, timeout: float = 3.0) -> dict[str, int]:
    """Stop the emulator whose monitor listens in ``folder`` and return its registers.

    Returns an empty dict when it does not answer in time (seconds): then it hangs itself.
    """
    deadline = time.monotonic() + timeout
    # by way of the folder's descriptor: the path of a socket may have only some 100 characters.
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX) as channel:
            channel.settimeout(timeout)
            channel.connect(f"/proc/self/fd/{descriptor}/{SOCKET_NAME}")
            _until_prompt(channel, deadline)
            channel.sendall(b"stop\n")
            _until_prompt(channel, deadline)
            channel.sendall(b"info registers\n")
            return parse_registers(_until_prompt(channel, deadline))
    except (TimeoutError, ConnectionError, FileNotFoundError):
        return {}
    finally:
        os.close(descriptor)


def _until_prompt(channel: socket.socket, deadline: float) -> str:
    answer = b""
    while not answer.endswith(_PROMPT):
        channel.settimeout(max(0.01, deadline - time.monotonic()))
        piece = channel.recv(65536)
        if not piece:
            raise ConnectionResetError
        answer += piece
    return answer.decode("latin-1")
