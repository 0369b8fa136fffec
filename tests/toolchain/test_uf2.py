"""UF2 files, read by a reader that was written from the specification (github.com/microsoft/uf2, README)."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from small_package import write_small

from colibri.boards.load import load_board
from colibri.boards.profile import Flash
from colibri.toolchain.build import build_product
from colibri.toolchain.uf2 import stored_pieces, uf2

RP2040 = 0xE48B_FF56


def read_uf2(raw: bytes, family: int) -> dict[int, int]:
    """What a bootloader of this family writes: address to byte."""
    assert len(raw) % 512 == 0
    written: dict[int, int] = {}
    for number in range(len(raw) // 512):
        block = raw[512 * number : 512 * (number + 1)]
        first, second, flags, address, size, own, total, kind = struct.unpack_from("<8I", block)
        assert (first, second) == (0x0A32_4655, 0x9E5D_5157)
        assert struct.unpack_from("<I", block, 508) == (0x0AB1_6F30,)
        assert flags == 0x2000 and kind == family
        assert (own, total) == (number, len(raw) // 512)
        assert size == 256 and address % 256 == 0
        assert not any(block[32 + size : 508])
        for index in range(size):
            assert address + index not in written
            written[address + index] = block[32 + index]
    return written


@pytest.mark.parametrize(
    "pieces",
    [
        [(0x1000_0000, b"x")],
        [(0x1000_0000, bytes(range(256)) * 40)],
        [(0x1000_0100, b"ab" * 500), (0x1000_1001, b"odd"), (0x1008_0000, b"far away" * 99)],
        [(0x1000_00FF, b"ab"), (0x1000_0101, b"in the same page")],
    ],
)
def test_every_byte_goes_to_its_address_and_the_rest_is_zero(pieces: list[tuple[int, bytes]]) -> None:
    written = read_uf2(uf2(pieces, RP2040), RP2040)
    wanted = {start + at: byte for start, raw in pieces for at, byte in enumerate(raw)}
    assert {address: byte for address, byte in written.items() if address in wanted} == wanted
    assert not any(byte for address, byte in written.items() if address not in wanted)


def test_a_touched_sector_has_no_gap_before_the_last_page() -> None:
    """RP2040-E14: the boot ROM may lose it."""
    written = read_uf2(uf2([(0x1000_0300, b"a"), (0x1000_2500, b"b")], RP2040), RP2040)
    pages = sorted({address & ~255 for address in written})
    assert pages == [*range(0x1000_0000, 0x1000_1000, 256), *range(0x1000_2000, 0x1000_2600, 256)]


def test_nothing_is_an_empty_file() -> None:
    assert uf2([], RP2040) == b""


def test_a_build_writes_what_the_elf_stores_and_only_for_boards_that_take_it(tmp_path: Path) -> None:
    board = load_board("stm32f405")
    write_small(tmp_path, board)
    product = tmp_path / "build/product.uf2"
    assert build_product(tmp_path, msgspec.structs.replace(board, flash=Flash(uf2=RP2040)))
    written = read_uf2(product.read_bytes(), RP2040)
    pieces = stored_pieces(tmp_path / "build/product.elf")
    assert pieces and all(written[start + at] == byte for start, raw in pieces for at, byte in enumerate(raw))
    image = (tmp_path / "build/product.bin").read_bytes()
    assert bytes(written[0x0800_0000 + at] for at in range(len(image))) == image
    assert converted(product) == image
    assert build_product(tmp_path, board)
    assert not product.exists()


def converted(product: Path) -> bytes:
    """The raw image that Microsoft's own converter makes of a file, up to the last byte that is not padding."""
    raw = product.with_suffix(".raw")
    command = [sys.executable, "-m", "adafruit_uf2.uf2conv", str(product), "--convert", "-o", str(raw)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "Family ID is RP2040, hex value is 0xe48bff56" in said and "Target Address is 0x08000000" in said
    image = product.with_suffix(".bin").stat().st_size
    whole = raw.read_bytes()
    assert not any(whole[image:])
    return whole[:image]
