"""The same bits from gcc, from clang with lld and from zig, and reports whose rows sum up whoever linked."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from colibri.boards.load import load_board
from colibri.boards.profile import Board, BoardKind, CompilerFamily
from colibri.cli import main
from colibri.footprint.report import make_report
from colibri.generate import generate
from colibri.options import Options
from colibri.package import load_package
from colibri.testing import check_package
from colibri.toolchain.build import build_product
from colibri.toolchain.compiler import clang_for, zig_for
from colibri.toolchain.find import find_toolchain, try_family
from colibri.toolchain.places import remember, zig_folders

MODEL = Path(__file__).resolve().parents[2] / "examples" / "load-moe" / "top1-e4"
CLANG = (
    "nucleo-h743zi", "stm32h750b-dk", "riscv-virt-rv32imac", "raspberry-pi-5", "jetson-orin", "x86-64-v3",
    "windows-x86-64",
)  # fmt: skip


def need(name: str, family: str) -> None:
    if family == "zig" and not zig_folders() and shutil.which("zig") is None:
        pytest.skip("zig is not installed: pip install ziglang")
    tried = try_family(load_board(name), CompilerFamily(family), link=family != "zig")[-1]
    assert tried.serves, f"{tried.name}: {tried.reason}"


def bare_path(folder: Path) -> Path:
    """A folder without any compiler: what ninja's commands are made of besides."""
    folder.mkdir()
    for program in ("cat", "rm"):
        (folder / program).symlink_to(shutil.which(program) or "")
    return folder


def built(name: str, family: str, folder: Path) -> Path:
    """The package of a small model, built without a command."""
    return built_for(load_board(name), family, folder)


def built_for(board: Board, family: str, folder: Path) -> Path:
    installed = find_toolchain(board, family)
    generate(MODEL, board, Options(), folder, installed.compiler)
    remember(folder, installed)
    assert build_product(folder, board)
    return folder


def test_zig_takes_the_weights_that_are_there_now(tmp_path: Path) -> None:
    """Of assembly it has an answer in its cache, whatever the source includes."""
    need("nucleo-h743zi", "zig")
    folder = built("nucleo-h743zi", "zig", tmp_path / "package")
    weights = folder / "model.bin"
    other = weights.read_bytes()[:-8] + b"replaced"
    weights.write_bytes(other)
    assert build_product(folder, load_board("nucleo-h743zi"))
    assert other in (folder / "build/product.elf").read_bytes()


@pytest.mark.parametrize(("name", "family"), [*((name, "clang") for name in CLANG), ("nucleo-h743zi", "zig")])
@pytest.mark.emulator
def test_the_same_bits_as_from_gcc(name: str, family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need(name, family)
    with monkeypatch.context() as patched:
        if family == "zig" and zig_folders():
            patched.setenv("PATH", str(bare_path(tmp_path / "programs")))
        folder = built(name, family, tmp_path / "a package")
        alone = make_report(folder).stack
    if (
        family == "zig" and zig_folders()
    ):  # there was no disassembler: the board's reserve stays, and the report says so
        assert alone is not None
        assert alone.program.unknown == "arm-none-eabi-objdump is not installed"
        assert (alone.program.bytes, alone.reserve) == (None, load_board(name).stack)
    results = check_package(folder)
    assert results and all(result.passed for result in results)
    # The digest that every board has from its own compiler, see test_one_digest.py.
    assert {result.digest[:16] for result in results} == {"777f2d5c1bf26a4a"}

    report = make_report(folder)  # its rows sum up, or it raises
    groups = [group for region in report.regions for group in region.groups]
    used = sum(region.used for region in report.regions)
    unknown = sum(group.bytes for group in groups if group.kind == "unattributed")
    assert used and unknown * 100 <= used
    assert report.modelled is not None and not report.modelled.within
    assert f"the code is of {'zig cc' if family == 'zig' else family}" in report.modelled.text(name)
    if load_board(name).kind is BoardKind.BARE:
        assert report.stack is not None
        assert report.stack.program.bytes, report.stack.program.unknown
        for suffix in ("bin", "hex"):
            assert (folder / f"build/product.{suffix}").stat().st_size
        assert (folder / "build/product.bin").stat().st_size < 1 << 20


def test_a_core_that_llvm_knows_by_another_name() -> None:
    board = load_board("jetson-orin")
    assert board.toolchain.flags == ("-mcpu=cortex-a78ae",)
    assert clang_for(board).flags == ("-mcpu=cortex-a78",) and "-mcpu=cortex_a78" in zig_for(board).flags
    pair = msgspec.structs.replace(board.toolchain, flags=("-mcpu=cortex-a76.cortex-a55",))
    assert clang_for(msgspec.structs.replace(board, toolchain=pair)).flags == ("-mcpu=cortex-a76",)


def test_a_package_names_no_folder_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the same input gives the same files anywhere; where the compiler is stands among what was built."""
    clang = shutil.which("clang")
    assert clang is not None, "clang is not installed"
    named = tmp_path / "my compilers $HOME" / "clang-99"
    named.parent.mkdir()
    named.symlink_to(clang)
    arguments = ["build", str(MODEL), "--board", "riscv-virt-rv32imac"]
    assert main([*arguments, "--toolchain", str(named), "-o", str(tmp_path / "one")]) == 0
    assert main([*arguments, "--toolchain", "clang", "-o", str(tmp_path / "two")]) == 0
    for path in sorted((tmp_path / "two").rglob("*")):
        inside = path.relative_to(tmp_path / "two")
        if path.is_file() and inside.parts[0] not in ("build", ".ninja_log", ".ninja_deps"):
            assert path.read_bytes() == (tmp_path / "one" / inside).read_bytes(), inside
            assert str(tmp_path).encode() not in path.read_bytes()
    package = load_package(tmp_path / "one")
    assert package.compiler is not None and package.compiler.cc == ("clang",)
    assert main(["build", str(MODEL), "--board", "riscv-virt-rv32imac", "-o", str(tmp_path / "one")]) == 0
    assert not (tmp_path / "one/build/toolchain").exists()


@pytest.mark.parametrize("family", ["gcc", "clang"])
def test_loops_stay_as_they_are_where_a_board_says_so(family: str, tmp_path: Path) -> None:
    """Registers of any length are in the kernels of their folder alone."""
    need("aarch64-sve2", family)
    board = load_board("aarch64-sve2")
    others = tuple(kernels for kernels in board.kernels if kernels != "sve")
    assert others != board.kernels
    folder = built_for(msgspec.structs.replace(board, kernels=others), family, tmp_path / "package")
    command = ["aarch64-linux-gnu-objdump", "-d", str(folder / "build/library/src/model.o")]
    code = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "<top1_e4_forward>:" in code
    assert re.findall(r"\bz\d+\.[bhsd]", code) == []
