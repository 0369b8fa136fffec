"""product.hex of a board with two flashes, read by a reader that was written from Intel's specification."""

from __future__ import annotations

from pathlib import Path

from small_package import MODEL_BYTES, write_small

from colibri.toolchain.build import build_product
from colibri.toolchain.uf2 import stored_pieces


def read_hex(text: str) -> dict[int, int]:
    """Address to byte, by "Hexadecimal Object File Format Specification", revision A, 1988."""
    found: dict[int, int] = {}
    base = 0
    *lines, last = text.split()
    assert last == ":00000001FF"
    for line in lines:
        assert line[0] == ":"
        raw = bytes.fromhex(line[1:])
        assert sum(raw) % 256 == 0
        length, offset, kind, data = raw[0], int.from_bytes(raw[1:3], "big"), raw[3], raw[4:-1]
        assert len(data) == length
        if kind == 4:  # the upper half of what follows
            base = int.from_bytes(data, "big") << 16
        elif kind == 0:
            for at, byte in enumerate(data):
                assert base + offset + at not in found
                found[base + offset + at] = byte
        else:
            assert kind in (3, 5)  # where the program begins
    return found


def test_both_flashes_are_in_the_hex_and_the_raw_image_has_one(tmp_path: Path) -> None:
    board = write_small(tmp_path, "stm32h750b-dk")
    assert build_product(tmp_path, board)
    written = read_hex((tmp_path / "build/product.hex").read_text("ascii"))
    pieces = stored_pieces(tmp_path / "build/product.elf")
    assert written == {start + at: byte for start, raw in pieces for at, byte in enumerate(raw)}
    assert bytes(written[0x9000_0000 + at] for at in range(len(MODEL_BYTES))) == MODEL_BYTES
    inside = [address for address in written if address < 0x9000_0000]
    assert min(inside) == 0x0800_0000 and max(inside) < 0x0802_0000
    image = (tmp_path / "build/product.bin").read_bytes()
    assert len(image) == max(inside) - min(inside) + 1
    assert all(written.get(0x0800_0000 + at, 0) == byte for at, byte in enumerate(image))
