"""ci/kernels and docs/kernels.md: the program that counts runs and checks its sums; the page has what it prints."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import re
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/kernels.md").read_text(encoding="utf-8")


def load_script() -> ModuleType:
    """ci/kernels as a module."""
    loader = importlib.machinery.SourceFileLoader("ci_kernels", str(ROOT / "ci/kernels"))
    spec = importlib.util.spec_from_loader("ci_kernels", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["ci_kernels"] = module  # its dataclasses look themselves up
    loader.exec_module(module)
    return module


kernels = load_script()


@pytest.mark.emulator
@pytest.mark.parametrize(("board", "program"), [("microbit", "qemu-arm"), ("mps3-an547", "qemu-system-arm")])
def test_counts_are_of_the_kernel(board: str, program: str) -> None:
    if shutil.which(program) is None or shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip(f"{program} or arm-none-eabi-gcc is not installed")
    (row,) = kernels.measure(board, "", ["w8a8"])
    assert 0.1 < row.sums < row.operation < 20
    assert 20 < row.sums_bytes < row.operation_bytes


@pytest.mark.emulator
def test_a_wrong_sum_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("qemu-arm") is None or shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip("qemu-arm or arm-none-eabi-gcc is not installed")
    monkeypatch.setattr(kernels, "_sums_of", lambda linear: ["y[0] = 1;", "(void)w;", "(void)x;"])
    with pytest.raises(SystemExit, match="wrong sums of w8a8"):
        kernels.measure("microbit", "", ["w8a8"])


def test_kernels_for_cortex_m_with_dsp_stay_within_their_bars() -> None:
    bars = {"w8a8": 1.0, "w8a16": 1.25, "w4a8": 1.3, "w4a16": 1.3}
    found = re.findall(r"^\| \S+ \| \S+ \| (w[48]a\d+) \| dsp/\S+ \| 4 × \d+ \| ([\d.]+) ", PAGE, re.MULTILINE)
    assert {scheme for scheme, _ in found} == set(bars)
    assert all(float(count) <= bars[scheme] for scheme, count in found)


def test_the_page_has_known_boards_with_every_scheme_once() -> None:
    rows = PAGE.partition(kernels.BEGIN)[2].partition(kernels.END)[0].splitlines()[3:]
    found = [tuple(row.strip("| ").split(" | ")[i] for i in (0, 2)) for row in rows if row.startswith("| ")]
    boards = sorted({board for board, _ in found})
    schemes = [kernels.scheme_name(coding, kind) for coding, kind in kernels.FORMS]
    assert found == [(board, scheme) for board in boards for scheme in schemes]
    assert set(boards) <= set(kernels.board_names())
