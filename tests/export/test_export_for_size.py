"""Exports of a package for size: -Os where the export says a level, and one function for all shapes."""

from __future__ import annotations

from pathlib import Path

import pytest
from exporting import SENSOR
from small_models import HOST_BOARD, PORTABLE_BOARD, make_package

from colibri.export.export import export
from colibri.export.form import Label
from colibri.optimise import Optimise

LEVELS = {
    "cmake": ("CMakeLists.txt", ":-Os -fno-fast-math"),
    "esp-idf": (
        "CMakeLists.txt",
        "_MODEL_SIZE)\n    target_compile_options(${COMPONENT_LIB} PRIVATE $<$<COMPILE_LANGUAGE:C>:-Os>)",
    ),
    "freertos": ("CMakeLists.txt", "-std=c11 -Os -fno-fast-math"),
    "pkg-config": ("Makefile", "CFLAGS ?= -Os\n"),
    "platformio": ("library.json", '"-Os"'),
    "rust": ("build.rs", '"-std=c11", "-Os"'),
    "zephyr": ("zephyr/CMakeLists.txt", "_MODEL_SIZE}>:-Os>)"),
}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("size") / "package"
    make_package(SENSOR, folder, PORTABLE_BOARD, optimise=Optimise.SIZE)
    return folder


@pytest.mark.parametrize("form", LEVELS)
def test_a_level_is_that_of_the_package(form: str, package: Path, tmp_path: Path) -> None:
    export(package, form, Label(), tmp_path / form)
    name, said = LEVELS[form]
    text = (tmp_path / form / name).read_text()
    assert said in text and "-O2" not in text


def test_wheels_are_compiled_for_size_too(tmp_path: Path) -> None:
    make_package(SENSOR, tmp_path / "package", HOST_BOARD, optimise=Optimise.SIZE)
    export(tmp_path / "package", "python", Label(), tmp_path / "python")
    (script,) = (tmp_path / "python").glob("build_library.py")
    assert '"-std=c11", "-Os", "-fPIC"' in script.read_text()


def test_without_a_level_the_c_is_still_for_size(package: Path, tmp_path: Path) -> None:
    """Arduino's builds have -Os of their own."""
    export(package, "arduino", Label(), tmp_path / "arduino")
    (model,) = [path for path in (tmp_path / "arduino/src").rglob("*.c") if "COLIBRI_KERNEL void" in path.read_text()]
    assert "COLIBRI_KERNEL void linear_w8a8_bias(" in model.read_text()
