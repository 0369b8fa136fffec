"""What a kernel folder says of itself: tiles that fit the packer, and names that fit the generated C."""

from __future__ import annotations

import re
import tomllib

import pytest
from dot_programs import BOARDS

from colibri.boards.load import board_names, load_board
from colibri.passes.estimate import HIDDEN, NORM, ROUTE
from colibri.paths import data_folder

ROOT = data_folder("runtime_c") / "kernels"
FOLDERS = sorted(path.name for path in ROOT.iterdir())


def tiles_of(folder: str) -> dict[str, dict[str, int | str]]:
    """Entries of a manifest that describe a kernel."""
    manifest = tomllib.loads((ROOT / folder / "kernels.toml").read_text())
    return {stem: entry for stem, entry in manifest.items() if isinstance(entry, dict)}


def test_every_folder_is_tested_on_a_board() -> None:
    assert set(FOLDERS) == set(BOARDS)


def test_kernels_for_registers_of_32_bits_are_for_boards_that_have_these() -> None:
    boards = [board for board in map(load_board, board_names()) if "rv32im" in board.kernels]
    assert {board.cpu.arch for board in boards} == {"riscv32"}


@pytest.mark.parametrize("folder", FOLDERS)
def test_manifest_and_headers_agree(folder: str) -> None:
    tiles = tiles_of(folder)
    assert set(tiles) == {path.stem for path in (ROOT / folder).glob("dot_*.h")}
    for stem, tile in tiles.items():
        text = (ROOT / folder / f"{stem}.h").read_text()
        text += "".join(
            (ROOT / one).read_text() for one in re.findall(r'#include "kernels/(portable/\w*dot_\w+\.h)"', text)
        )
        assert re.search(rf"#define COLIBRI_{stem.upper()}_ROWS {tile['rows']}\n", text), stem
        own = r"(?:static (?:inline |COLIBRI_APART )?|COLIBRI_(?:ASSEMBLY|SHARED|INSIDE) )"
        assert re.search(rf"{own}void colibri_{stem}\(", text), stem
        assert (tile["rows"], tile["cols"]) >= (1, 1)
        inputs = re.search(rf"#define COLIBRI_{stem.upper()}_INPUTS (\d+)\n", text)
        assert (int(inputs[1]) if inputs else 1) == tile.get("inputs", 1), stem
        assert (f"colibri_{stem}_inputs(" in text) == ("inputs" in tile), stem
        assert (f"colibri_{stem}_facts(" in text) == ("facts" in tile), stem


@pytest.mark.parametrize("folder", FOLDERS)
def test_tiles_fit_the_packer(folder: str) -> None:
    tiles = tiles_of(folder)
    for stem, tile in tiles.items():
        if stem in ("dot_f32", "dot_f16"):
            assert tile["cols"] == 1, "x is not padded in fp32"
        elif not stem.startswith("dot_w8"):
            assert tile["cols"] == 32, "one group"


@pytest.mark.parametrize("folder", [name for name in FOLDERS if name != "portable"])
def test_only_kernels_that_portable_has(folder: str) -> None:
    own = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / folder).iterdir()}
    included = set(re.findall(rf'#include "kernels/{folder}/([^"]+)"', "".join(own.values())))
    estimating = {f"{stem}.h" for stem in (HIDDEN, NORM, ROUTE)}
    assert own.keys() - included - estimating <= {path.name for path in (ROOT / "portable").iterdir()}
