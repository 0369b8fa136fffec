"""CMakeLists.txt: the same programs, built by CMake alone."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from small_package import BOARDS, write_small

from colibri.emulate.runner import run
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
