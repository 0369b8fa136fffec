"""The Zephyr module: its Kconfig by kconfiglib, its manifest by west, its CMake with a stand-in for Zephyr's own."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from exporting import DEVICE, EQUAL, LANGUAGE, SENSOR, make_export, run_on_board, succeed
from small_models import PORTABLE_BOARD, make_package
from zephyr_schemas import MODULE, SAMPLE

from colibri.export.export import export
from colibri.export.form import Label
from colibri.package import load_package

STAND_IN = Path(__file__).parent / "zephyr"


def settings(folder: Path, choices: str) -> dict[str, str]:
    """What Kconfig makes of prj.conf: the module's file sourced by a menu, as Zephyr does, with an FPU to choose."""
    import kconfiglib

    (folder / "Kconfig.zephyr").write_text(
        f'config CPU_HAS_FPU\n\tdef_bool y\nconfig FPU\n\tbool "fpu"\nconfig MAIN_STACK_SIZE\n\tint "stack"\n'
        f'menu "module"\nosource "{folder}/zephyr/Kconfig"\nendmenu\n'
    )
    (folder / "prj.conf").write_text(choices)
    kconfig = kconfiglib.Kconfig(str(folder / "Kconfig.zephyr"), warn_to_stderr=False)
    kconfig.load_config(str(folder / "prj.conf"))
    assert kconfig.warnings == []
    return {name: symbol.str_value for name, symbol in kconfig.syms.items() if symbol.str_value not in ("n", "")}


def build_sample(sample: Path, package: Path, config: Path, build: Path, *options: str) -> list[Path]:
    """What the linker gets of a sample: its object, and the libraries whole, as Zephyr links them."""
    cpu = ";".join(load_package(package).board.toolchain.flags)
    succeed(
        "cmake", "-S", sample, "-B", build, "-G", "Ninja", f"-DZephyr_DIR={STAND_IN}", *options,
        "-DCMAKE_SYSTEM_NAME=Generic", "-DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY",
        "-DCMAKE_C_COMPILER=arm-none-eabi-gcc", "-DCMAKE_ASM_COMPILER=arm-none-eabi-gcc",
        "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
        f"-DCOLIBRI_CPU={cpu}", f"-DCOLIBRI_CONFIG={config}", f"-DCOLIBRI_LIBC={DEVICE}",
    )  # fmt: skip
    succeed("cmake", "--build", build)
    libraries = sorted(build.rglob("*.a"))
    return [*build.rglob("main.c.obj"), Path("-Wl,--whole-archive"), *libraries, Path("-Wl,--no-whole-archive")]


@pytest.mark.parametrize("source", [SENSOR, LANGUAGE], ids=lambda path: path.name)
def test_the_sample_builds_and_runs(tmp_path: Path, source: Path) -> None:
    folder, package = make_export(tmp_path, "zephyr", source), tmp_path / "package"
    chosen = settings(folder, (folder / "samples/check/prj.conf").read_text())
    config = tmp_path / "config.cmake"
    config.write_text("".join(f'set(CONFIG_{name} "{value}")\n' for name, value in sorted(chosen.items())))
    objects = build_sample(folder / "samples/check", package, config, tmp_path / "build")
    commands = (tmp_path / "build/compile_commands.json").read_text()
    assert re.search(r"-Os.* -ffp-contract=off.* -O2 .*_model\.c", commands)
    assert EQUAL in run_on_board(package, objects, tmp_path)


def test_two_models_share_the_runtime(tmp_path: Path) -> None:
    for prefix in ("one", "two"):
        make_package(SENSOR, tmp_path / "package", PORTABLE_BOARD, prefix=prefix)
        export(tmp_path / "package", "zephyr", Label(), tmp_path / prefix)
    sample = tmp_path / "one/samples/check"
    shutil.copy(tmp_path / "two/samples/check/src/two_check.h", sample / "src")
    (sample / "src/main.c").write_text(
        '#include "one_check.h"\n#include "two_check.h"\n#include <stdio.h>\n'
        f'int main(void) {{ puts(!one_check() && !two_check() ? "{EQUAL}" : "no"); return 0; }}\n'
    )
    config = tmp_path / "config.cmake"
    config.write_text("set(CONFIG_ONE_MODEL y)\nset(CONFIG_TWO_MODEL y)\n")
    more = f"-DZEPHYR_EXTRA_MODULES={tmp_path / 'two'}"
    objects = build_sample(sample, tmp_path / "package", config, tmp_path / "build", more)
    assert [path.name for path in objects if path.suffix == ".a"] == [
        "libcolibri_runtime.a",
        "libone_model.a",
        "libtwo_model.a",
    ]
    assert EQUAL in run_on_board(tmp_path / "package", objects, tmp_path)


def test_what_kconfig_offers(tmp_path: Path) -> None:
    folder = make_export(tmp_path, "zephyr")
    on = settings(folder, "CONFIG_TOP1_E3_TINY_MODEL=y\n")
    assert on.keys() >= {"FPU", "TOP1_E3_TINY_MODEL", "TOP1_E3_TINY_MODEL_SPEED"}
    assert "TOP1_E3_TINY_MODEL_SPEED" not in settings(folder, "")


def loaded(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def test_yaml_files_are_what_zephyr_takes(tmp_path: Path) -> None:
    folder = make_export(tmp_path, "zephyr", label=Label("1.2.3", url="https://example.com/model.git"))
    module, sample = loaded(folder / "zephyr/module.yml"), loaded(folder / "samples/check/sample.yaml")
    jsonschema.validate(module, MODULE)
    assert (folder / module["build"]["cmake"] / "CMakeLists.txt").is_file()
    assert (folder / module["build"]["kconfig"]).is_file()
    assert all((folder / path).is_dir() for path in module["samples"])
    jsonschema.validate(sample, SAMPLE)
    ((name, test),) = sample["tests"].items()
    assert name == f"sample.{module['name']}.check"
    (pattern,) = test["harness_config"]["regex"]
    assert re.search(pattern, f"{module['name']}: {EQUAL}")


def test_west_takes_the_submanifest(tmp_path: Path) -> None:
    folder = make_export(tmp_path, "zephyr")
    name = "top1_e3_tiny_model"
    who = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
    environment = {**os.environ, **who, "HOME": str(tmp_path)}
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "model"], ["tag", "v0.1.0"]):
        succeed("git", "-C", folder, *command, env=environment)
    application = tmp_path / "workspace/app"
    (application / "submanifests").mkdir(parents=True)
    text = (folder / f"submanifests/{name}.yml").read_text().replace(f"https://example.com/{name}", f"file://{folder}")
    (application / f"submanifests/{name}.yml").write_text(text)
    (application / "west.yml").write_text("manifest:\n  self:\n    import: submanifests\n")
    west = [sys.executable, "-m", "west"]
    succeed(*west, "init", "-l", application, env=environment)
    succeed(*west, "update", cwd=application, env=environment)
    assert f"{name} modules/lib/{name} v0.1.0" in succeed(
        *west, "list", "-f", "{name} {path} {revision}", cwd=application, env=environment
    )
    assert (tmp_path / f"workspace/modules/lib/{name}/zephyr/module.yml").is_file()
