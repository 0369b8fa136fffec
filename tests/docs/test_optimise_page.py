"""The table of docs/optimise.md agrees with itself, and with the shares that advice takes from it."""

from __future__ import annotations

import re
from pathlib import Path

from colibri.boards.load import load_board
from colibri.footprint.saved import LEAST, least_saved

PAGE = Path(__file__).parents[2] / "docs/optimise.md"


def rows() -> list[list[str]]:
    lines = re.findall(r"^\| (.*) \|$", PAGE.read_text().split("<!-- begin: ci/optimise --write -->")[1], re.M)
    return [line.split(" | ") for line in lines if not line.startswith("board")]


def test_columns_follow_from_one_another() -> None:
    assert len({row[0] for row in rows()}) == 6
    for _, _, _, *figures in rows():
        speed, size, saved, slow, slower, ratio, *_ = (one.replace(",", "").rstrip(" %") for one in figures)
        assert int(saved) == round(100 * (1 - int(size) / int(speed)))
        assert float(ratio) == round(int(slower) / int(slow), 2)


def test_advice_takes_the_least_share_of_an_architecture() -> None:
    least: dict[str, float] = {}
    for board, _, _, speed, size, *_ in rows():
        share = 1 - int(size.replace(",", "")) / int(speed.replace(",", ""))
        arch = load_board(board).cpu.arch
        least[arch] = min(share, least.get(arch, 1.0))
    assert {arch: int(100 * share) / 100 for arch, share in least.items()} == LEAST
    assert least_saved("arm", 1000) == int(1000 * LEAST["arm"]) and least_saved("vax", 1000) == 0
