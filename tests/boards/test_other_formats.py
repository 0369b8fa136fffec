"""WebAssembly modules and Windows programs: what the report says of them, and what is in them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from board_packages import EXAMPLES, PRUNED, Make

from colibri.errors import BadInput
from colibri.footprint.attribute import GroupKind
from colibri.footprint.html import render_html
from colibri.footprint.report import RegionUse, make_report
from colibri.footprint.stack import open_tree
from colibri.footprint.wasm import PAGE, read_module
from colibri.footprint.wasm_pieces import COPIED
from colibri.graph.scheme import Scheme
from colibri.options import Options
from colibri.package import Package
from colibri.toolchain.build import build
from colibri.toolchain.buildfiles import product_name, product_targets

LANGUAGE = Options(Scheme.W4A8, context=32, drop=PRUNED)
WASM = ("wasm32", "wasm32-simd128")
IMPORTS = [("wasi_snapshot_preview1", name) for name in ("fd_read", "fd_write", "proc_exit")]

# Public functions that the product calls, and those beside them in a module.
LINKED = {
    *("colibri_argmax", "colibri_check", "colibri_status_text"),
    *("shakespeare_moe_free", "shakespeare_moe_init", "shakespeare_moe_prefill", "shakespeare_moe_step"),
}


def made(board: str, make: Make) -> tuple[Path, Package, Path]:
    folder, package = make(EXAMPLES / "shakespeare-moe", board, LANGUAGE)
    assert build(folder, product_targets(package.board, package.board.toolchain.family))
    return folder, package, folder / product_name(package.board)


def sizes(region: RegionUse) -> dict[GroupKind, int]:
    assert sum(group.bytes for group in region.groups) == region.used
    assert all(sum(part.bytes for part in group.parts) == group.bytes for group in region.groups)
    return {group.kind: group.bytes for group in region.groups}


def check_block(found: dict[GroupKind, int], package: Package) -> None:
    (block,) = package.memory.blocks
    assert found[GroupKind.CONTEXT] == block.context
    assert found[GroupKind.STATES] == block.states
    assert found[GroupKind.ARENA] == block.arena


@pytest.mark.parametrize("board", WASM)
def test_rows_of_a_module_sum_to_the_file_and_to_its_memory(board: str, make: Make) -> None:
    pytest.importorskip("wasmtime")
    folder, package, image = made(board, make)
    report = make_report(folder)
    file, memory = report.regions
    assert file.used == image.stat().st_size
    assert memory.used == read_module(image).memory
    assert memory.used % PAGE == 0
    in_file, in_memory = sizes(file), sizes(memory)
    assert in_file[GroupKind.WEIGHTS] == package.model_bin_bytes
    tables = next(group for group in memory.groups if group.kind is GroupKind.TABLES)
    assert {part.name: part.bytes for part in tables.parts}[COPIED] == package.model_bin_bytes
    assert f"× {sum(package.model.experts)}: " in render_html(folder)  # of experts, each counted once
    assert in_memory[GroupKind.STACK] == package.board.stack
    assert in_memory[GroupKind.PADDING] < PAGE + 256
    assert GroupKind.UNATTRIBUTED not in in_file | in_memory
    check_block(in_memory, package)
    # Of the stack in the module's memory; most variables are on the engine's.
    assert report.stack is not None
    bounds = {entry.name: entry.bytes for entry in report.stack.entries}
    assert set(bounds) == LINKED
    assert 0 < (bounds["shakespeare_moe_step"] or 0) <= (report.stack.program.bytes or 0) < 256
    assert (report.stack.reserve, report.stack.margin, report.stack.overflows) == (package.board.stack, 0, False)


@pytest.mark.parametrize("board", WASM)
def test_a_module_imports_three_functions_and_never_grows(board: str, make: Make) -> None:
    wasmtime = pytest.importorskip("wasmtime")
    _, _, image = made(board, make)
    module = wasmtime.Module.from_file(wasmtime.Engine(), str(image))
    assert sorted((one.module, one.name) for one in module.imports) == IMPORTS
    assert sorted(one.name for one in module.exports) == ["_start", "memory"]
    text = subprocess.run(["llvm-objdump", "-d", str(image)], capture_output=True, text=True, check=True).stdout
    assert "memory.grow" not in text
    assert ("v128" in text) == (board == "wasm32-simd128")


def test_sections_of_a_windows_program(make: Make) -> None:
    folder, package, image = made("windows-x86-64", make)
    report = make_report(folder)
    flash, ram = report.regions
    command = ["x86_64-w64-mingw32-objdump", "-h", str(image)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    listed = re.findall(r"^ +\d+ (\S+) +([0-9a-f]{8}) .*\n +(.*)$", text, re.MULTILINE)
    assert flash.used == sum(int(size, 16) for _, size, flags in listed if "READONLY" in flags)
    assert ram.used == sum(int(size, 16) for _, size, flags in listed if "READONLY" not in flags)
    found = sizes(ram)
    check_block(found, package)
    assert sizes(flash)[GroupKind.WEIGHTS] == package.model_bin_bytes
    assert GroupKind.UNATTRIBUTED not in found
    assert image.stat().st_size < flash.used + ram.used  # zeros take no room in the file
    assert report.stack is not None
    assert {entry.name for entry in report.stack.entries} > LINKED
    assert [entry.name for entry in report.stack.entries if entry.bytes is None] == []
    assert (report.stack.program.bytes, report.stack.reserve, report.stack.needed) == (None, 0, None)
    # Frames as gcc says them are those of the machine code.
    tree = open_tree(folder, package, image)
    for name in LINKED:
        function = tree.function(tree.address(name) or 0)
        assert function.compiler is not None
        assert (name, function.machine.depth) == (name, function.compiler.bytes)


@pytest.mark.parametrize("board", [*WASM, "windows-x86-64"])
def test_a_damaged_image_is_refused(board: str, make: Make, tmp_path: Path) -> None:
    folder, package = make(EXAMPLES / "load-moe/top1-e4", board, name=tmp_path.name)
    assert build(folder, product_targets(package.board, package.board.toolchain.family))
    image = folder / product_name(package.board)
    whole = image.read_bytes()
    for damaged in (b"", whole[:7], whole[: len(whole) // 2], b"\x7fELF" + whole[4:], whole[:8] + b"\xff" * 40):
        image.write_bytes(damaged)
        with pytest.raises(BadInput, match=r"product\.(wasm|exe)"):
            make_report(folder)
