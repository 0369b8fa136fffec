"""Every board links the smallest example within its memory, whatever can be run."""

from __future__ import annotations

import pytest
from board_packages import EXAMPLES, Make

from colibri.boards.load import board_names
from colibri.footprint.report import make_report
from colibri.toolchain.build import build
from colibri.toolchain.buildfiles import PRODUCT


@pytest.mark.parametrize("board", board_names())
def test_a_small_model_fits(board: str, make: Make) -> None:
    folder, package = make(EXAMPLES / "load-moe/top1-e3-tiny", board)
    assert build(folder, [PRODUCT])
    report = make_report(folder)
    report.require_fit()
    used = {region.name: region.used for region in report.regions}
    assert used[package.memory.blocks[0].region] >= package.memory.total > 0
