"""The page on profiles shows what the command prints, and figures of this very code."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from colibri.boards.load import load_board
from colibri.cli import main
from colibri.generate import generate
from colibri.graph.graph import StateType
from colibri.graph.scheme import Scheme
from colibri.options import Options

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/profile.md").read_text(encoding="utf-8")
COMPILER = "12.2"  # that the page was measured with
PRUNED = {0: {1, 3}, 1: {2, 5}, 2: {0, 1}, 3: {0, 1}}


def require_compiler_of_the_page(program: str) -> None:
    version = subprocess.run([program, "-dumpversion"], capture_output=True, text=True, check=True).stdout
    if not version.startswith(COMPILER):
        pytest.skip(f"the page was measured with gcc {COMPILER}, this is {version.strip()}")


@pytest.mark.emulator
@pytest.mark.parametrize(
    ("board", "prefix"),
    [
        ("stm32f405", "arm-none-eabi-"),
        ("nucleo-h743zi", "arm-none-eabi-"),
        ("riscv-virt-rv32imac", "riscv64-unknown-elf-"),
    ],
)
def test_figures_of_the_sensor_model(
    board: str, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    require_compiler_of_the_page(f"{prefix}gcc")
    monkeypatch.setenv("COLUMNS", "110")
    generate(ROOT / "examples/load-moe/top2-e4-norm", load_board(board), Options(), tmp_path / "package")
    assert main(["profile", str(tmp_path / "package")]) == 0
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    if board == "stm32f405":
        shown = PAGE.split("$ colibri profile build/load\n")[1].split("```")[0].splitlines()
        assert lines[: len(shown)] == shown
    row = re.search(rf"^\| top2-e4-norm, w8a8, {board} \| call \| (.*) \|$", PAGE, re.MULTILINE)
    assert row is not None
    instructions, macs, per_mac, lowest_to_highest = row[1].split(" | ")
    assert lines[2].split()[-3:] == [instructions, macs, per_mac]
    spread = next(line for line in lines if line.startswith("call of 1 sample") and line != lines[2]).split()
    runs, lowest, median, highest = spread[4:8]
    assert (runs, median) == ("64", instructions)
    assert lowest_to_highest == ("equal" if lowest == highest else f"{lowest} to {highest}")


@pytest.mark.emulator
@pytest.mark.parametrize(
    ("board", "model", "options"),
    [
        ("stm32f405", "24 of 32 experts, stm32f405", Options(Scheme.W4A8, StateType.F16, context=96, drop=PRUNED)),
        ("nucleo-h743zi", "nucleo-h743zi", Options(Scheme.W4A8, StateType.F16, prefill=8)),
        (
            "nucleo-h743zi",
            "keys and values in int8, nucleo-h743zi",
            Options(Scheme.W4A8, StateType.I8, prefill=8),
        ),
    ],
    ids=["stm32f405", "nucleo-h743zi", "int8"],
)
def test_figures_of_the_language_model(
    board: str,
    model: str,
    options: Options,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Not those of the board without an FPU: its soft floats would take minutes."""
    require_compiler_of_the_page("arm-none-eabi-gcc")
    monkeypatch.setenv("COLUMNS", "110")
    generate(ROOT / "examples/shakespeare-moe", load_board(board), options, tmp_path / "package")
    assert main(["profile", str(tmp_path / "package")]) == 0
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    rows = PAGE.split(f"| shakespeare-moe, w4a8, {model} ")[1].splitlines()[:2]
    for row in rows:
        at, *figures = row.strip("| ").split(" | ")
        cost, *spread = [line.removeprefix(at).split() for line in lines if line.startswith(f"{at} ")]
        assert figures[:3] == cost
        assert figures[3:] == (["equal"] if spread else [])
        assert all(line[-1] == "none" for line in spread)
