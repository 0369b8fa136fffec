"""docs/flash-and-debug.md: its board is one, and its UF2 begins where the page says."""

from __future__ import annotations

import re
import struct
from pathlib import Path

from colibri.boards.load import load_board
from colibri.flash.tools import TOOL_NAMES
from colibri.generate import generate
from colibri.options import Options
from colibri.toolchain.build import build_product

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/flash-and-debug.md").read_text(encoding="utf-8")


def test_the_example_is_a_board_whose_uf2_begins_behind_the_bootloader(tmp_path: Path) -> None:
    (found,) = re.findall(r"<!-- example -->\n```toml\n(.*?)```", PAGE, re.DOTALL)
    path = tmp_path / "feather-nrf52840.toml"
    path.write_text(found)
    board = load_board(path)
    generate(ROOT / "examples/load-moe/top1-e3-tiny", board, Options(), tmp_path / "package")
    assert build_product(tmp_path / "package", board)
    raw = (tmp_path / "package/build/product.uf2").read_bytes()
    blocks = [struct.unpack_from("<8I", raw, at) for at in range(0, len(raw), 512)]
    assert blocks[0][3] == 0x2_6000 and {block[7] for block in blocks} == {0xADA5_2840}
    assert max(block[3] for block in blocks) < 0xE_D000


def test_every_tool_is_named() -> None:
    words = {"openocd": "OpenOCD", "pyocd": "pyOCD"}
    assert all(words.get(name, name) in PAGE for name in TOOL_NAMES)
