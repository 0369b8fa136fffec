"""memcpy, memmove, memset and memcmp of the bare-metal ports, compiled for the host under other names."""

from __future__ import annotations

import ctypes
import random
import shutil
import subprocess

import pytest

from colibri.paths import data_folder

NAMES = ("memcpy", "memmove", "memset", "memcmp")


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    library = tmp_path_factory.mktemp("memory") / "memory.so"
    source = data_folder("runtime_c") / "ports" / "memory.c"
    renamed = [f"-D{name}=port_{name}" for name in NAMES]
    flags = ["-std=c11", "-O2", "-ffreestanding", "-shared", "-fPIC"]
    subprocess.run(["gcc", *flags, *renamed, "-o", str(library), str(source)], check=True)
    loaded = ctypes.CDLL(str(library))
    for name in NAMES:
        function = getattr(loaded, f"port_{name}")
        value = ctypes.c_int if name == "memset" else ctypes.c_void_p
        function.argtypes = [ctypes.c_void_p, value, ctypes.c_size_t]
        function.restype = ctypes.c_int if name == "memcmp" else ctypes.c_void_p
    return loaded


def buffer_of(content: bytes) -> tuple[ctypes.Array[ctypes.c_char], int]:
    """A buffer and its address, which is aligned to 16 bytes by the allocator."""
    buffer = ctypes.create_string_buffer(content, len(content))
    return buffer, ctypes.addressof(buffer)


@pytest.mark.parametrize("to", range(9))
@pytest.mark.parametrize("start", range(9))
def test_copies(memory: ctypes.CDLL, to: int, start: int) -> None:
    content = random.Random(0).randbytes(64)
    for n in (0, 1, 3, 4, 7, 8, 9, 16, 31, 40):
        source, source_at = buffer_of(content)
        target, target_at = buffer_of(b"." * 64)
        assert memory.port_memcpy(target_at + to, source_at + start, n) == target_at + to
        assert target.raw == b"." * to + content[start : start + n] + b"." * (64 - to - n)
        assert source.raw == content

        moved, moved_at = buffer_of(content)
        assert memory.port_memmove(moved_at + to, moved_at + start, n) == moved_at + to
        assert moved.raw == content[:to] + content[start : start + n] + content[to + n :]


@pytest.mark.parametrize("to", range(9))
@pytest.mark.parametrize("value", [0, 1, 0x80, 0xFF, 0x1234])
def test_memset(memory: ctypes.CDLL, to: int, value: int) -> None:
    for n in range(34):
        target, at = buffer_of(b"." * 48)
        assert memory.port_memset(at + to, value, n) == at + to
        assert target.raw == b"." * to + bytes([value & 0xFF]) * n + b"." * (48 - to - n)


@pytest.mark.parametrize(
    ("left", "right", "sign"),
    [(b"", b"", 0), (b"abc", b"abc", 0), (b"abc", b"abd", -1), (b"\x80", b"\x7f", 1), (b"b" + b"a", b"a" + b"b", 1)],
)
def test_memcmp(memory: ctypes.CDLL, left: bytes, right: bytes, sign: int) -> None:
    kept_left, left_at = buffer_of(left + b"x")
    kept_right, right_at = buffer_of(right + b"y")
    assert memory.port_memcmp(left_at, right_at, len(left)) == sign
    assert (kept_left.raw[:-1], kept_right.raw[:-1]) == (left, right)
