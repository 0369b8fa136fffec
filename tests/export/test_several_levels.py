"""A package with several sets of instructions: an export chooses among them, whatever it is compiled with."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from exporting import EQUAL, LANGUAGE, SENSOR, make_export, succeed

from colibri.boards.load import load_board

BOARD = "x86-64"
HOSTILE_FLAGS = "-O3 -std=gnu11 -ffp-contract=fast -mfma"


@pytest.mark.emulator
@pytest.mark.parametrize(("source", "flags"), [(LANGUAGE, "-O1"), (SENSOR, HOSTILE_FLAGS)], ids=["plain", "hostile"])
def test_the_example_runs_on_each_processor(tmp_path: Path, source: Path, flags: str) -> None:
    folder = make_export(tmp_path, "pkg-config", source, BOARD)
    assert EQUAL in succeed("make", "-C", folder, f"CFLAGS={flags}", "check")
    if flags == HOSTILE_FLAGS:  # which the least of the processors has no instructions for
        return
    (program,) = (path for path in (folder / "build").iterdir() if path.suffix == "" and path.is_file())
    for emulator in load_board(BOARD).emulators:
        if emulator.program:
            assert EQUAL in succeed(emulator.program, *emulator.args, program)


@pytest.mark.skipif(shutil.which("cargo") is None, reason="cargo is not installed")
def test_a_crate(tmp_path: Path) -> None:
    folder = make_export(tmp_path, "rust", SENSOR, BOARD)
    assert "test result: ok" in succeed("cargo", "test", "--offline", "--test", "golden", cwd=folder)


def test_names_of_files_have_the_prefix(tmp_path: Path) -> None:
    """Two models in one folder do not meet."""
    folder = make_export(tmp_path, "cmake", SENSOR, BOARD)
    prefix = "top1_e3_tiny"
    own = {path.name for path in (folder / "src").glob("*.[ch]")}
    assert own == {f"{prefix}_{name}" for name in ("model.c", "layers.h", "layers_base.c", "layers_v3.c")}
    for path in (folder / "src").glob("*.[ch]"):
        text = path.read_text()
        assert '#include "layers.h"' not in text and '#include "model.h"' not in text
        assert path.suffix == ".h" or text.startswith("/* In its GNU modes gcc fuses")
