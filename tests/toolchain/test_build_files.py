"""build.ninja: which images it makes, that they run, and that they do not depend on where they were built."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from small_package import BOARDS, write_small

from colibri.boards.load import load_board
from colibri.boards.profile import for_regions
from colibri.emulate.runner import run
from colibri.toolchain.build import build, ninja_program
from colibri.toolchain.buildfiles import Role, image_name, product_targets, script_name

BUILD_FILES = ("build.ninja", "CMakeLists.txt", "toolchain.cmake")
ROLES: tuple[Role, ...] = ("product", "test")


def built(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "build").iterdir()) if path.is_file()}


@pytest.mark.parametrize("name", BOARDS)
@pytest.mark.emulator
def test_every_image_builds_and_runs(name: str, tmp_path: Path) -> None:
    board = write_small(tmp_path, name)
    assert build(tmp_path) is True
    assert (tmp_path / "build/libtiny.a").is_file()
    assert not (tmp_path / "build/oversize.elf").exists()
    for emulator in board.emulators:
        for role in ROLES:
            outcome = run(tmp_path / image_name(board, emulator, role), board, emulator, timeout=20)
            assert (outcome.exit_code, outcome.output) == (7, f"{role}\n".encode())
    assert all((tmp_path / target).stat().st_size for target in product_targets(board, board.toolchain.family))


def test_names_of_images() -> None:
    h743, stm32 = load_board("nucleo-h743zi"), for_regions(load_board("stm32f405"), {"flash", "sram"})
    core, memory_map = h743.emulators
    assert image_name(stm32, stm32.emulators[0], "test") == "build/test.elf"
    assert image_name(h743, core, "product") == "build/product-mps2-an500.elf"
    assert image_name(h743, memory_map, "test") == "build/test-exact-map.elf"
    assert script_name(h743, None) == script_name(stm32, stm32.emulators[0]) == "port/board.ld"
    assert script_name(h743, memory_map) == "port/exact-map.ld"
    for linux in ("aarch64-sve2", "x86-64-v3"):
        board = load_board(linux)
        assert {image_name(board, emulator, "product") for emulator in board.emulators} == {"build/product.elf"}
        assert script_name(board, board.emulators[0]) == ""


@pytest.mark.parametrize("name", ["stm32f405", "riscv-virt-rv32imac", "x86-64-v3"])
def test_folders_leave_no_trace(name: str, tmp_path: Path) -> None:
    left, right = tmp_path / "left", tmp_path / "a longer name" / "right"
    for folder in (left, right):
        write_small(folder, name)
    build(left)
    # From inside the folder, as a user does, with a PWD of somewhere else.
    environment = {**os.environ, "PWD": str(tmp_path)}
    subprocess.run([ninja_program()], cwd=right, check=True, env=environment, stdout=subprocess.DEVNULL)
    assert built(left) == built(right)
    for path in (*left.glob("build/*.elf"), *left.glob("build/*.a"), *(left / file for file in BUILD_FILES)):
        content = path.read_bytes()
        assert str(tmp_path).encode() not in content, path
    for file in BUILD_FILES:
        assert (left / file).read_bytes() == (right / file).read_bytes()


def test_product_and_test_link_the_same_archive(tmp_path: Path) -> None:
    write_small(tmp_path, "nucleo-h743zi")
    text = (tmp_path / "build.ninja").read_text()
    statements = text.replace("$\n", "").splitlines()
    links = [line for line in statements if ": link " in line]
    assert len(links) == 7  # product and test for the board and two emulators, and oversize
    assert all(" build/libtiny.a" in line for line in links)
    assert sum(": library src/model.c" in line for line in statements) == 1


@pytest.mark.parametrize("name", BOARDS)
def test_nothing_warns(name: str, tmp_path: Path) -> None:
    write_small(tmp_path, name)
    done = subprocess.run([ninja_program(), "-C", str(tmp_path)], capture_output=True, text=True, check=True)
    assert "warning" not in done.stdout + done.stderr


@pytest.mark.parametrize("name", BOARDS)
def test_files_read_as_written_by_hand(name: str, tmp_path: Path) -> None:
    write_small(tmp_path, name)
    for file in BUILD_FILES:
        text = (tmp_path / file).read_text()
        assert text.endswith("\n")
        assert not text.endswith("\n\n")
        assert "\n\n\n\n" not in text
        assert not any(line != line.rstrip() for line in text.splitlines())
        assert all(len(line) <= 140 for line in text.splitlines())
        assert "None" not in text


def test_a_change_of_an_input_rebuilds(tmp_path: Path) -> None:
    write_small(tmp_path, "stm32f405")
    build(tmp_path)
    before = built(tmp_path)
    build(tmp_path)
    assert built(tmp_path) == before
    for changed in ("model.bin", "port/board.ld", "runtime/core/scale.h"):
        path = tmp_path / changed
        text = {"model.bin": b"fedcba9876543210", "port/board.ld": path.read_bytes().replace(b"4096", b"2048")}
        path.write_bytes(text.get(changed, b"float scale(float x);\n#define UNUSED 1\n"))
        log = subprocess.run([ninja_program(), "-C", str(tmp_path), "-n"], capture_output=True, text=True, check=True)
        assert "build/product.elf" in log.stdout, changed
        build(tmp_path)
