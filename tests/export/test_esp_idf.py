"""The ESP-IDF component: packed and linted by Espressif's component manager, built with a stand-in for IDF's CMake."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tarfile
from pathlib import Path

import pytest
import yaml
from exporting import DEVICE, EQUAL, LANGUAGE, SENSOR, make_export, run_on_board, succeed

from colibri.export.form import Label
from colibri.package import load_package

STAND_IN = Path(__file__).parent / "esp_idf"


def component(
    folder: Path, source: Path = SENSOR, board: str = "riscv-virt-rv32imac", label: Label | None = None
) -> Path:
    """The export in a folder of the component's name, as its README asks."""
    made = make_export(folder, "esp-idf", source, board, label)
    (header,) = (made / "include").glob("*_model.h")
    return Path(shutil.copytree(made, folder / "components" / header.stem))


@pytest.mark.parametrize("source", [SENSOR, LANGUAGE], ids=lambda path: path.name)
def test_the_example_builds_and_runs_on_risc_v(tmp_path: Path, source: Path) -> None:
    folder, package = component(tmp_path, source), tmp_path / "package"
    cpu = ";".join(load_package(package).board.toolchain.flags)
    (name,) = re.findall(r"config (\w+_SPEED)", (folder / "Kconfig").read_text())
    (tmp_path / "config.cmake").write_text(f"set(CONFIG_{name} y)\n")
    (tmp_path / "idf/tools/cmake").mkdir(parents=True)
    shutil.copy(STAND_IN / "project.cmake", tmp_path / "idf/tools/cmake")
    build = tmp_path / "build"
    succeed(
        "cmake", "-S", folder / "examples/check", "-B", build, "-G", "Ninja", "-DCMAKE_SYSTEM_NAME=Generic",
        "-DCMAKE_C_COMPILER=riscv64-unknown-elf-gcc", "-DCMAKE_ASM_COMPILER=riscv64-unknown-elf-gcc",
        "-DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", f"-DCOLIBRI_CPU={cpu}",
        f"-DCOLIBRI_LIBC={DEVICE}", f"-DCOLIBRI_CONFIG={tmp_path / 'config.cmake'}", f"-DCOLIBRI_COMPONENT={folder}",
        env={**os.environ, "IDF_PATH": str(tmp_path / "idf")},
    )  # fmt: skip
    succeed("cmake", "--build", build)
    assert re.search(r"-Og.* -ffp-contract=off.* -O2 .*_model\.c", (build / "compile_commands.json").read_text())
    start = tmp_path / "start.c"
    start.write_text("void app_main(void);\nint main(void)\n{\n    app_main();\n    return 0;\n}\n")
    toolchain = load_package(package).board.toolchain
    succeed(f"{toolchain.prefix}gcc", *toolchain.flags, "-c", start, "-o", tmp_path / "start.o")
    archives = [*build.rglob("lib__idf_main.a"), *build.rglob("lib__idf_*_model.a")]
    assert len(archives) == 2
    assert EQUAL in run_on_board(package, [tmp_path / "start.o", *archives], tmp_path)


def test_the_component_manager_takes_it(tmp_path: Path) -> None:
    folder = component(tmp_path, label=Label("1.2.3", url="https://example.com/model"))
    compote = Path(sys.executable).with_name("compote")
    environment = {**os.environ, "HOME": str(tmp_path), "IDF_TOOLS_PATH": str(tmp_path)}
    for place in (folder, folder / "examples/check/main"):
        succeed(compote, "manifest", "lint", place, env=environment)
    succeed(compote, "component", "pack", "--name", folder.name, "--dest-dir", tmp_path, cwd=folder, env=environment)
    with tarfile.open(tmp_path / f"{folder.name}_1.2.3.tgz") as archive:
        names = {name.removeprefix("./") for name in archive.getnames()}
    assert {"CMakeLists.txt", "idf_component.yml", "LICENSE", "README.md", f"include/{folder.name}.h"} <= names
    dependencies = yaml.safe_load((folder / "examples/check/main/idf_component.yml").read_text())["dependencies"]
    place = folder / "examples/check/main" / dependencies[folder.name]["override_path"]
    assert place.resolve() == folder
