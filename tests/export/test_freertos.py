"""The FreeRTOS task, compiled and run with a stand-in for the kernel; no package index has FreeRTOS itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from exporting import DEVICE, EQUAL, LANGUAGE, SENSOR, compile_for_board, make_export, run_on_board, sources_in

STAND_IN = Path(__file__).parent / "freertos"
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]


@pytest.mark.parametrize("source", [SENSOR, LANGUAGE], ids=lambda path: path.name)
def test_the_example_asks_the_task(tmp_path: Path, source: Path) -> None:
    folder, package = make_export(tmp_path, "freertos", source), tmp_path / "package"
    includes = [f"-I{folder / name}" for name in ("include", "src", "task", "example")]
    includes += [f"-isystem{STAND_IN}", f"-isystem{DEVICE}"]
    options = ["-std=c11", "-Os", "-ffp-contract=off", "-ffunction-sections", *includes]  # as its CMakeLists.txt
    model = compile_for_board(package, sources_in(folder / "src"), options, tmp_path)
    (tmp_path / "task").mkdir()
    own = [*sources_in(folder / "task"), *sources_in(folder / "example")]
    task = compile_for_board(package, own, [*options, *WARNINGS], tmp_path / "task")
    (tmp_path / "kernel").mkdir()
    kernel = compile_for_board(package, [STAND_IN / "stand_in.c"], [*options, f"-I{package}"], tmp_path / "kernel")
    assert EQUAL in run_on_board(package, [*task, *kernel, *model], tmp_path)
