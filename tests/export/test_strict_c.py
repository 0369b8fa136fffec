"""The C of the exports without a warning, by gcc and clang, and the check as C++ too; clang fuses nothing either."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from exporting import DEVICE, LANGUAGE, SENSOR, make_export, sources_in

from colibri.export.export import export
from colibri.export.form import Label

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]
CPU = ["-mthumb", "-mcpu=cortex-m4", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard"]
COMPILERS = {
    "gcc": ["arm-none-eabi-gcc", *CPU],
    "clang": ["clang", "--target=thumbv7em-none-eabihf", *CPU],
}


@pytest.mark.parametrize("source", [SENSOR, LANGUAGE], ids=lambda path: path.name)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_no_warnings(tmp_path: Path, compiler: str, source: Path) -> None:
    folder = make_export(tmp_path, "stm32cubeide", source)
    export(tmp_path / "package", "cmake", Label(), tmp_path / "cmake")
    includes = [f"-I{folder}/Inc", f"-I{folder}/Src", f"-isystem{DEVICE}", f"-I{tmp_path / 'cmake/example'}"]
    for file in [*sources_in(folder), tmp_path / "cmake/example/main.c"]:
        for standard in ["-std=c11"] if file.name != "main.c" else ["-std=c11", "-xc++ -std=c++11"]:
            command = [*COMPILERS[compiler], "-O2", *WARNINGS, *standard.split(), *includes, "-c", file]
            done = subprocess.run([*command, "-o", tmp_path / "object.o"], capture_output=True, text=True, check=False)
            assert (done.returncode, done.stderr) == (0, "")


def test_clang_fuses_nothing(tmp_path: Path) -> None:
    folder = make_export(tmp_path, "cmake")
    (model,) = (folder / "src").glob("*_model.c")
    command = [
        "clang",
        "--target=aarch64-none-elf",
        "-O3",
        "-S",
        f"-I{folder}/include",
        f"-I{folder}/src",
        "-ffreestanding",
    ]
    for pragma in (True, False):
        text = model.read_text()
        model.write_text(text if pragma else text.replace("#pragma STDC FP_CONTRACT OFF", ""))
        subprocess.run([*command, model, "-o", tmp_path / "model.s"], check=True)
        assert ("fmadd" in (tmp_path / "model.s").read_text()) is not pragma
