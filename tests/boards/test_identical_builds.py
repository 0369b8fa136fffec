"""The same input gives the same bytes, in whatever folder: model.bin, all C, the ELF."""

import filecmp
from pathlib import Path

import pytest
from board_packages import EXAMPLES, PRUNED

from colibri.boards.load import load_board
from colibri.generate import generate
from colibri.graph.scheme import Scheme
from colibri.options import Options
from colibri.toolchain.build import build


@pytest.mark.parametrize("board", ["stm32f405", "riscv-virt-rv32imac", "x86-64-v3"])
def test_two_builds_in_different_folders(board: str, tmp_path: Path) -> None:
    options = Options(Scheme.W4A8, prefill=4, context=32, drop=PRUNED)
    folders = []
    for name in ("here", "deeper/and/elsewhere"):
        folder = tmp_path / name
        generate(EXAMPLES / "shakespeare-moe", load_board(board), options, folder)
        build(folder)
        folders.append(folder)
    files = [sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file()) for folder in folders]
    assert files[0] == files[1]
    generated = [name for name in files[0] if name.parts[0] != "build" and not name.name.startswith(".ninja")]
    assert {Path("model.bin"), Path("src/model.c"), Path("build.ninja")} <= set(generated)
    built = [name for name in files[0] if name.suffix in (".elf", ".a", ".bin", ".hex", ".o")]
    assert Path("build/product.elf") in built
    assert [name for name in (*generated, *built) if not filecmp.cmp(folders[0] / name, folders[1] / name, False)] == []
