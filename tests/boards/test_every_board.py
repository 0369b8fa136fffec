"""Every board with memory of its own links the smallest example within it, whatever can be run."""

from __future__ import annotations

import pytest
from board_packages import EXAMPLES, Make
from selection import ALL, of_kind

from colibri.boards.profile import BoardKind
from colibri.footprint.report import make_report
from colibri.toolchain.build import build
from colibri.toolchain.buildfiles import PRODUCT


@pytest.mark.parametrize("board", of_kind(BoardKind.BARE, [board.id for board in ALL]))
def test_a_small_model_fits(board: str, make: Make) -> None:
    folder, package = make(EXAMPLES / "load-moe/top1-e3-tiny", board)
    assert build(folder, [PRODUCT])
    report = make_report(folder)
    report.require_fit()
    used = {region.name: region.used for region in report.regions}
    assert used[package.memory.blocks[0].region] >= package.memory.total > 0
