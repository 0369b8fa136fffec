"""ci/token and docs/kernels.md: each row of the page sums, and stays below what was measured once."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import re
import shutil
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/kernels.md").read_text(encoding="utf-8")
MOST = {"mps3-an547": 1.0, "nucleo-h743zi": 1.6, "raspberry-pi-pico": 9.8, "riscv-virt-rv32imac": 6.9}


def load_script() -> ModuleType:
    """ci/token as a module."""
    loader = importlib.machinery.SourceFileLoader("ci_token", str(ROOT / "ci/token"))
    spec = importlib.util.spec_from_loader("ci_token", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


token = load_script()


def cells(row: str) -> list[str]:
    return row.strip("| \n").split(" | ")


def check(row: list[str]) -> None:
    """The ratio is that of the counts, and the shares are of one whole."""
    instructions, macs = (int(cell.replace(",", "")) for cell in row[3:5])
    assert row[5] == f"{instructions / macs:.2f}"
    assert sum(float(cell.removesuffix(" %")) for cell in row[6:]) == pytest.approx(100, abs=0.4)


def check_parts(row: list[str], whole: list[str]) -> None:
    """The parts, each rounded, are of the same board and sum to what the other table has."""
    assert len(row) == len(token.PART_TITLES)
    assert row[:3] == whole[:3] and row[-1] == whole[5]
    assert sum(map(float, row[3:-1])) == pytest.approx(float(row[-1]), abs=0.005 * len(row[3:]))


def page_rows(begin: str, end: str) -> list[list[str]]:
    """Rows of the page between two marks."""
    part = PAGE.partition(begin)[2].partition(end)[0]
    return [cells(row) for row in part.splitlines() if re.match(r"\| \S+ \| \S+ \| w4a8 ", row)]


def test_the_page_has_each_board_with_what_it_may_take() -> None:
    rows = page_rows(token.BEGIN, token.END)
    assert [row[0] for row in rows] == sorted(token.BOARDS) == sorted(MOST)
    for row, parts in zip(rows, page_rows(token.PARTS_BEGIN, token.PARTS_END), strict=True):
        check(row)
        check_parts(parts, row)
        assert float(row[5]) <= MOST[row[0]]


@pytest.mark.emulator
def test_a_row_is_of_the_page() -> None:
    """Counts are the same on every machine with the compiler of the page, and nearly so with others."""
    if shutil.which("qemu-system-arm") is None or shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip("qemu-system-arm or arm-none-eabi-gcc is not installed")
    row, parts = map(cells, token.lines("nucleo-h743zi", "w4a8"))
    check(row)
    check_parts(parts, row)
    assert float(row[5]) <= MOST["nucleo-h743zi"]
