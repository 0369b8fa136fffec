"""Products of many rows take as many at once as a kernel multiplies, also the last of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from small_models import ORACLE, sensor

from colibri.boards.load import load_board
from colibri.generate import generate
from colibri.graph.scheme import Scheme
from colibri.options import Options


@pytest.mark.parametrize("board", ["x86-64-v3", "x86-64-v4", "graviton-3"])
@pytest.mark.parametrize("batch", [9, 61, 100])
def test_there_is_room_for_whole_calls(tmp_path: Path, board: str, batch: int) -> None:
    generate(sensor("top1-e3-tiny"), load_board(board), Options(scheme=Scheme.W8A8, batch=batch), tmp_path / "out")
    code = (tmp_path / "out/src/model.c").read_text()
    rooms = re.findall(r"\*inputs\[(\d+)\];(.*?)\n}", code, re.DOTALL)
    assert rooms
    for room, body in rooms:
        steps = {int(step) for step in re.findall(r"\bi \+= (\d+)\)", body)}
        assert len(steps) == 1
        assert int(room) % steps.pop() == 0


@pytest.mark.parametrize(("prefill", "room"), [(4, 4), (6, 8), (100, 64)])
def test_rows_that_chose_an_expert_have_no_more_room_than_a_call_has_rows(
    tmp_path: Path, prefill: int, room: int
) -> None:
    options = Options(scheme=Scheme.W8A8, prefill=prefill, context=128)
    generate(ORACLE / "mixtral-base", load_board("x86-64-v3"), options, tmp_path / "out")
    code = (tmp_path / "out/src/model.c").read_text()
    chosen = re.findall(r"\*restrict slots, uint32_t count\)\n{.*?\*inputs\[(\d+)\];", code, re.DOTALL)
    assert set(map(int, chosen)) == {room}


@pytest.mark.parametrize(
    ("prefill", "room", "calls"),
    [(9, 12, "2"), (13, 18, "2"), (60, 60, "10"), (61, 36, "calls"), (128, 48, "calls")],
)
def test_calls_know_how_many_of_them_share_a_tile(tmp_path: Path, prefill: int, room: int, calls: str) -> None:
    options = Options(scheme=Scheme.W8A8, prefill=prefill, context=128)
    generate(ORACLE / "mixtral-base", load_board("x86-64-v4"), options, tmp_path / "out")
    code = (tmp_path / "out/src/model.c").read_text()
    name = re.compile(rf"^COLIBRI_KERNEL void linear_w8a8_{prefill}x.*?^}}", re.DOTALL | re.MULTILINE)
    bodies = name.findall(code)
    assert bodies
    for body in bodies:
        assert re.findall(r"\*inputs\[(\d+)\];", body) == [str(room)]
        assert re.findall(r"\bi / 6, (\w+)\);", body) == [calls]
        loops = "const uint32_t calls = (some + 4) / 6;"  # as often as i + 1 < some, if i grows by 6
        assert (loops in body) == (calls == "calls")
