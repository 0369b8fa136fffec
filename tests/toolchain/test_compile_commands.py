"""`colibri build` leaves what clangd and editors look for: commands that compile each C file of the package."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from small_models import make_package, sensor

from colibri.boards.load import load_board
from colibri.toolchain.build import COMPILE_COMMANDS, build_product


def test_each_command_compiles_its_file(tmp_path: Path) -> None:
    folder = tmp_path / "a folder"
    make_package(sensor("top1-e3-tiny"), folder, "stm32f405")
    for _ in range(2):
        assert build_product(folder, load_board("stm32f405"))
    commands = json.loads((folder / COMPILE_COMMANDS).read_text())
    files = {entry["file"] for entry in commands}
    assert files == {path.relative_to(folder).as_posix() for path in folder.rglob("*.c")}
    for entry in commands:
        assert entry["directory"] == str(folder) and entry["output"].endswith(".o")
        # As tools do it: words of a shell, in that directory.
        subprocess.run(f"{entry['command']} -fsyntax-only", shell=True, cwd=entry["directory"], check=True)
