"""CMakeLists.txt: the same programs, built by CMake alone."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from small_package import BOARDS, write_small

from colibri.boards.load import load_board
from colibri.emulate.runner import run
from colibri.generate import generate
from colibri.options import Options
from colibri.toolchain.buildfiles import Role, image_name

ROLES: tuple[Role, ...] = ("product", "test")


def cmake(folder: Path, *arguments: str) -> None:
    if shutil.which("cmake") is None or shutil.which("ninja") is None:
        pytest.skip("cmake or ninja is not installed")
    done = subprocess.run(["cmake", *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warning" not in (done.stdout + done.stderr).lower()


def configure(folder: Path) -> None:
    cmake(folder, "-B", "build-cmake", "-G", "Ninja", "-DCMAKE_TOOLCHAIN_FILE=toolchain.cmake")


@pytest.mark.parametrize("name", BOARDS)
@pytest.mark.emulator
def test_every_image_builds_and_runs(name: str, tmp_path: Path) -> None:
    board = write_small(tmp_path, name)
    configure(tmp_path)
    cmake(tmp_path, "--build", "build-cmake")
    for emulator in board.emulators:
        for role in ROLES:
            image = tmp_path / image_name(board, emulator, role).replace("build/", "build-cmake/")
            outcome = run(image, board, emulator, timeout=20)
            assert (outcome.exit_code, outcome.output) == (7, f"{role}\n".encode())


@pytest.mark.parametrize("name", BOARDS)
def test_without_the_toolchain_file(name: str, tmp_path: Path) -> None:
    board = write_small(tmp_path, name)
    if not board.toolchain.prefix:
        cmake(tmp_path, "-B", "plain", "-G", "Ninja")
        assert f" {' '.join(board.toolchain.flags)} " in (tmp_path / "plain/build.ninja").read_text()
        return
    command = ["cmake", "-B", "plain", "-G", "Ninja"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    said = " ".join(done.stderr.split())
    assert f"tiny needs the compiler of {name}: add -DCMAKE_TOOLCHAIN_FILE=toolchain.cmake" in said
    cmake(tmp_path, "-B", "plain", "-DCMAKE_TOOLCHAIN_FILE=toolchain.cmake")  # the same folder, as one would repeat it


def test_vector_kernels_in_a_larger_project(tmp_path: Path) -> None:
    checkpoint = Path(__file__).parents[2] / "examples/load-moe/top1-e4"
    generate(checkpoint, load_board("x86-64-v3"), Options(prefix="load"), tmp_path / "load")
    assert "avx2" in (tmp_path / "load/src/model.c").read_text()
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(mine C ASM)\nadd_subdirectory(load)\n"
        "add_executable(mine main.c)\ntarget_link_libraries(mine PRIVATE load)\n"
    )  # fmt: skip
    (tmp_path / "main.c").write_text('#include "model.h"\nint main(void) { return (int)load_model.top_k; }\n')
    cmake(tmp_path, "-B", "out", "-G", "Ninja")
    cmake(tmp_path, "--build", "out")


def test_part_of_a_larger_project(tmp_path: Path) -> None:
    write_small(tmp_path / "my model", "x86-64-v3")
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(mine C)\nadd_subdirectory(\"my model\" tiny)\n"
        "add_executable(mine main.c)\ntarget_link_libraries(mine PRIVATE tiny)\n"
    )  # fmt: skip
    (tmp_path / "main.c").write_text('#include "model.h"\nint main(void) { return (int)tiny_forward(5.0f); }\n')
    cmake(tmp_path, "-B", "out", "-G", "Ninja")
    cmake(tmp_path, "--build", "out")
    assert subprocess.run([tmp_path / "out/mine"], check=False).returncode == 5
    assert not list((tmp_path / "out").rglob("product*"))
