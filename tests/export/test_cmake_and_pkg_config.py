"""The CMake package and the library with a .pc file, each built, installed and found by its own tool."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from exporting import EQUAL, LANGUAGE, SENSOR, make_export, run_on_board, succeed
from small_models import HOST_BOARD

from colibri.boards.load import load_board
from colibri.emulate.runner import run

HOSTILE_FLAGS = "-O3 -std=gnu11 -ffp-contract=fast -mfma"


@pytest.mark.parametrize("source", [SENSOR, LANGUAGE], ids=lambda path: path.name)
def test_find_package_of_what_was_installed(tmp_path: Path, source: Path) -> None:
    folder = make_export(tmp_path, "cmake", source, HOST_BOARD)
    prefix = tmp_path / "installed"
    succeed("cmake", "-S", folder, "-B", tmp_path / "build", "-G", "Ninja", f"-DCMAKE_C_FLAGS={HOSTILE_FLAGS}")
    succeed("cmake", "--build", tmp_path / "build")
    succeed("cmake", "--install", tmp_path / "build", "--prefix", prefix)
    succeed("cmake", "-S", folder / "example", "-B", tmp_path / "user", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}")
    succeed("cmake", "--build", tmp_path / "user")
    (program,) = (tmp_path / "user").glob("*_example")
    assert EQUAL in succeed(program)
    assert str(tmp_path) not in "".join(path.read_text() for path in prefix.rglob("*.cmake"))  # it can be moved


@pytest.mark.parametrize("source", [SENSOR, LANGUAGE], ids=lambda path: path.name)
def test_the_code_of_the_readme(tmp_path: Path, source: Path) -> None:
    """Its calls stand outside of a function, and only a caller of a language model has its tokens."""
    folder = make_export(tmp_path, "cmake", source, HOST_BOARD)
    (code,) = re.findall(r"```c\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL)
    start = code.index("\n\n", code.index("static ")) + 2
    given = "const uint32_t *prompt, uint32_t length, float *scores" if source == LANGUAGE else "void"
    main = f"{code[:start]}void run({given});\nvoid run({given})\n{{\n{code[start:]}(void)status;\n}}\n"
    (tmp_path / "main.c").write_text(main)
    succeed(
        "gcc",
        "-std=c11",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-fsyntax-only",
        f"-I{folder / 'include'}",
        tmp_path / "main.c",
    )


def test_add_subdirectory_for_a_cortex_m(tmp_path: Path) -> None:
    folder = make_export(tmp_path, "cmake")
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(firmware C ASM)\n"
        "add_compile_options(-Os -ffp-contract=fast)\nadd_subdirectory(cmake)\n"
        "add_library(app OBJECT cmake/example/main.c)\ntarget_include_directories(app PRIVATE cmake/example)\n"
        f"target_include_directories(app SYSTEM PRIVATE {Path(__file__).parent / 'device'})\n"
        "target_link_libraries(app PRIVATE top1_e3_tiny_model::top1_e3_tiny_model)\n"
    )
    toolchain = tmp_path / "package/toolchain.cmake"
    succeed("cmake", "-S", tmp_path, "-B", tmp_path / "build", "-G", "Ninja", f"-DCMAKE_TOOLCHAIN_FILE={toolchain}")
    succeed("cmake", "--build", tmp_path / "build")
    objects = [*(tmp_path / "build").rglob("main.c.obj"), *(tmp_path / "build").rglob("*.a")]
    assert len(objects) == 2
    assert EQUAL in run_on_board(folder.parent / "package", objects, tmp_path)


@pytest.mark.emulator
def test_a_program_for_windows(tmp_path: Path) -> None:
    folder = make_export(tmp_path, "cmake", SENSOR, "windows-x86-64")
    toolchain = tmp_path / "package/toolchain.cmake"
    prefix = tmp_path / "installed"
    options = ("-G", "Ninja", f"-DCMAKE_TOOLCHAIN_FILE={toolchain}", "-DCMAKE_FIND_ROOT_PATH_MODE_PACKAGE=BOTH")
    succeed("cmake", "-S", folder, "-B", tmp_path / "build", *options)
    succeed("cmake", "--build", tmp_path / "build")
    succeed("cmake", "--install", tmp_path / "build", "--prefix", prefix)
    succeed("cmake", "-S", folder / "example", "-B", tmp_path / "user", *options, f"-DCMAKE_PREFIX_PATH={prefix}")
    succeed("cmake", "--build", tmp_path / "user")
    (program,) = (tmp_path / "user").glob("*_example.exe")
    board = load_board("windows-x86-64")
    assert EQUAL in run(program, board, board.emulators[0]).output.decode()


@pytest.mark.parametrize("destination", ["", "staged"])
def test_make_install_and_pkg_config(tmp_path: Path, destination: str) -> None:
    folder = make_export(tmp_path, "pkg-config", SENSOR, HOST_BOARD)
    prefix = tmp_path / "usr"
    stage = tmp_path / destination if destination else ""
    assert EQUAL in succeed("make", "-C", folder, f"CFLAGS={HOSTILE_FLAGS}", "check")
    succeed("make", "-C", folder, f"PREFIX={prefix}", f"DESTDIR={stage}", "install")
    root = Path(f"{stage}{prefix}")
    environment = {
        **os.environ,
        "PKG_CONFIG_PATH": str(root / "lib/pkgconfig"),
        "PKG_CONFIG_SYSROOT_DIR": str(stage),
    }
    asked = succeed("pkg-config", "--cflags", "--libs", "top1_e3_tiny_model", env=environment).split()
    assert f"-I{root}/include" in asked
    succeed("cc", folder / "example/main.c", *asked, "-o", tmp_path / "program")
    assert EQUAL in succeed(tmp_path / "program")
    assert succeed("pkg-config", "--modversion", "top1_e3_tiny_model", env=environment) == "0.1.0\n"


def test_make_for_a_cortex_m(tmp_path: Path) -> None:
    folder = make_export(tmp_path, "pkg-config", LANGUAGE)
    succeed("make", "-C", folder, "CC=arm-none-eabi-gcc", "AR=arm-none-eabi-ar", "CFLAGS=-Os -ffp-contract=fast")
    (archive,) = (folder / "build").glob("*.a")
    assert "FPv4" in succeed("arm-none-eabi-readelf", "-A", archive)
