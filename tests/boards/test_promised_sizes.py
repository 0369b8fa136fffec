"""The library is small and shows nothing but its interface, and the load forecaster leaves most of its board free."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from board_packages import EXAMPLES, PRUNED, Make
from selection import OFTEN, TELLING, boards_with_models, with_elf

from colibri.boards.load import load_board
from colibri.boards.profile import BoardKind
from colibri.footprint.library import library_use
from colibri.footprint.report import make_report
from colibri.graph.graph import StateType
from colibri.graph.scheme import SCHEMES, Scheme
from colibri.options import Options
from colibri.package import Package
from colibri.toolchain.build import build
from colibri.toolchain.buildfiles import PRODUCT

LIBRARY_BYTES = 300_000
FORECASTER_FLASH = 380_000
MODELS = {
    "sensor": ("load-moe/top1-e4", Options()),
    "language": ("shakespeare-moe", Options(Scheme.W4A8, StateType.F16, prefill=4, context=32, drop=PRUNED)),
}
DECLARED = re.compile(r"^(?:extern )?(?:const )?\w+ \*?(\w+)(?:\(|\[\w+\];|;)", re.MULTILINE)


def declared(folder: Path, package: Package) -> set[str]:
    """Functions and objects that the headers of a package declare."""
    headers = ("model.h", "runtime/include/colibri.h")
    text = "\n".join((folder / name).read_text() for name in headers)
    return {name for name in DECLARED.findall(text) if name.startswith((f"{package.prefix}_", "colibri_"))}


def archive_of(folder: Path, package: Package) -> Path:
    return folder / "build" / f"lib{package.prefix}.a"


def tool(package: Package, name: str, *arguments: str) -> str:
    command = [f"{package.board.toolchain.prefix}{name}", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@boards_with_models(with_elf(TELLING), with_elf(OFTEN))
def test_the_library_shows_its_interface_and_nothing_else(board: str, model: str, make: Make, tmp_path: Path) -> None:
    checkpoint, options = MODELS[model]
    folder, package = make(EXAMPLES / checkpoint, board, options)
    archive = archive_of(folder, package)
    assert build(folder, [PRODUCT])
    names = [line.split() for line in tool(package, "nm", "--defined-only", "-g", str(archive)).splitlines()]
    visible = {words[2]: words[1] for words in names if len(words) == 3}
    public = declared(folder, package)
    assert len(public) > 10
    # What the files of layers share is no interface: hidden, where a board has several sets of instructions.
    symbols = [line.split() for line in tool(package, "readelf", "-sW", str(archive)).splitlines()]
    hidden = {words[-1] for words in symbols if words[4:6] == ["GLOBAL", "HIDDEN"] and words[6] != "UND"}
    assert all(name.startswith(f"{package.prefix}_layers_") for name in hidden)
    assert bool(hidden) == bool(package.board.levels)
    visible = {name: kind for name, kind in visible.items() if name not in hidden}
    assert set(visible) == public

    use = make_report(folder).library
    assert use is not None
    assert set(use.functions) == {name for name, kind in visible.items() if kind == "T"}

    if load_board(board).kind is BoardKind.LINUX:
        bare = Path(shutil.copy(archive, tmp_path / "stripped.a"))
        tool(package, "strip", "--strip-debug", str(bare))
        whole = bare.stat().st_size - package.model_bin_bytes
        print(f"{board} {model}: {whole} bytes of archive, {use.code} code, {use.tables} tables, {use.data} data")
        assert use.code + use.tables + use.data < whole <= LIBRARY_BYTES


def test_the_library_is_the_sum_of_its_sections(make: Make) -> None:
    """As another program reads them."""
    folder, package = make(EXAMPLES / "load-moe/top1-e4", "x86-64-v3")
    assert build(folder, [PRODUCT])
    sizes = {"code": 0, "tables": 0, "data": 0}
    for line in tool(package, "size", "-A", str(archive_of(folder, package))).splitlines():
        if match := re.match(r"(\.\S+) +(\d+) +\d+$", line):
            name, size = match[1], int(match[2])
            if name.startswith(".text"):
                sizes["code"] += size
            elif name.startswith((".rodata", ".data.rel.ro", ".eh_frame", ".note.gnu.property")):
                sizes["tables"] += size
            elif name.startswith((".data", ".bss")):
                sizes["data"] += size
    sizes["tables"] -= package.model_bin_bytes
    use = library_use(archive_of(folder, package))
    assert use is not None
    assert (use.code, use.tables, use.data) == (sizes["code"], sizes["tables"], sizes["data"])


@pytest.mark.parametrize("checkpoint", sorted(path.name for path in (EXAMPLES / "load-moe").iterdir() if path.is_dir()))
def test_the_load_forecaster_leaves_flash_free(checkpoint: str, make: Make) -> None:
    for scheme in SCHEMES:
        folder, _ = make(EXAMPLES / "load-moe" / checkpoint, "nucleo-h743zi", Options(scheme), name=str(scheme))
        assert build(folder, [PRODUCT])
        (flash,) = (region for region in make_report(folder).regions if region.name == "flash")
        print(f"{checkpoint} {scheme}: {flash.used} bytes of flash")
        assert 0 < flash.used <= FORECASTER_FLASH
