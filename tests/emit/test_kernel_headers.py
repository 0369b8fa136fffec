"""What the board has in place of a portable header is what the compiler sees: it stands first, and the guard is its."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from small_models import ORACLE

from colibri.cli import main
from colibri.package import load_package

BOARDS = (
    "microbit", "riscv-virt-rv32imac", "nucleo-f103rb", "nucleo-h743zi", "mps3-an547", "raspberry-pi-zero",
    "raspberry-pi-4", "raspberry-pi-5", "graviton-3", "x86-64-v2", "x86-64-v3", "x86-64-v4", "spacemit-k1",
)  # fmt: skip
_MARK = re.compile(r'# \d+ "([^"]+)"((?: \d)*)')
_GUARD = re.compile(r"#define COLIBRI_\w+_H ")


def shut_out(preprocessed: str) -> set[str]:
    """Headers that were included and gave nothing, nor did what they include."""
    silent, stack = set[str](), list[str]()
    for line in preprocessed.splitlines():
        if mark := _MARK.match(line):
            flags = mark[2].split()
            if "1" in flags:
                stack.append(mark[1])
                silent.add(mark[1])
            elif "2" in flags:
                stack.pop()
        elif line.strip() and not _GUARD.match(line):
            silent -= set(stack)
    return silent


@pytest.mark.parametrize("scheme", ["w8a8", "w4a8", "w4a16", "w3a8", "w4g32a8"])
@pytest.mark.parametrize("board", BOARDS)
def test_no_header_of_the_board_is_shut_out(board: str, scheme: str, tmp_path: Path) -> None:
    folder = tmp_path / "p"
    options = ["--board", board, "--scheme", scheme, "--context", "8", "--kv", "int8", "-o", str(folder)]
    assert main(["generate", str(ORACLE / "mixtral-base"), *options]) == 0
    toolchain = load_package(folder).board.toolchain
    if shutil.which(f"{toolchain.prefix}gcc") is None:
        pytest.skip(f"{toolchain.prefix}gcc is not installed")
    include = ["-ffreestanding", "-I.", "-Iruntime/include", "-Iruntime"]
    command = [f"{toolchain.prefix}gcc", *toolchain.flags, "-E", "-dD", *include, "src/model.c"]
    text = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout
    names = {file.rpartition("kernels/")[2] for file in shut_out(text) if "kernels/" in file}
    # A portable header is silent where another has its place, but not one for cores without an FPU.
    assert {name for name in names if not name.startswith("portable/") or "/soft_" in name} == set()


def test_a_header_that_is_shut_out_is_found() -> None:
    head = '# 1 "model.c"\n# 1 "a.h" 1\n#define COLIBRI_LINEAR_H \nint a;\n# 2 "model.c" 2\n# 1 "b.h" 1\n\n'
    assert shut_out(f'{head}# 3 "model.c" 2\nint c;\n') == {"b.h"}
    assert shut_out(f'{head}# 1 "c.h" 1\nint c;\n# 2 "b.h" 2\n# 3 "model.c" 2\n') == set()
