"""The selected boards leave nothing out."""

from __future__ import annotations

import msgspec
import pytest
from selection import ALL, COMPILERS, ROOMY, RUNS, TELLING, compiler_of, covering, features_of, is_roomy, runs_of

from colibri.boards.load import load_board
from colibri.boards.profile import Board, Clock, Holds


def test_every_way_to_run_is_run() -> None:
    """The emulator tests run all emulators of these boards."""
    run = set().union(*(runs_of(load_board(name)) for name in RUNS))
    assert [board.id for board in ALL if not runs_of(board) <= run] == []


def test_every_way_to_compile_is_compiled() -> None:
    compiled = {compiler_of(load_board(name)) for name in COMPILERS}
    assert [board.id for board in ALL if compiler_of(board) not in compiled] == []
    assert len(compiled) == len(COMPILERS)


@pytest.mark.parametrize(("chosen", "boards"), [(TELLING, ALL), (ROOMY, list(filter(is_roomy, ALL)))])
def test_every_feature_is_there(chosen: list[str], boards: list[Board]) -> None:
    seen = set().union(*(features_of(load_board(name)) for name in chosen))
    assert set().union(*(features_of(board) for board in boards)) == seen


def test_a_board_that_adds_nothing_is_not_taken_and_one_that_does_is() -> None:
    f405 = load_board("stm32f405")
    sibling = msgspec.structs.replace(f405, id="sibling", title="Another chip", stack=8192)
    assert covering(runs_of, [f405, sibling]) == ["stm32f405"]
    assert covering(features_of, [f405, sibling]) == ["stm32f405"]
    emulator = msgspec.structs.replace(f405.emulators[0], args=("-M", "mps2-an386"))
    elsewhere = msgspec.structs.replace(sibling, emulators=(emulator,))
    assert covering(runs_of, [f405, elsewhere]) == ["sibling", "stm32f405"]
    flags = msgspec.structs.replace(f405.toolchain, flags=("-mthumb", "-mcpu=cortex-m3"))
    other = msgspec.structs.replace(sibling, toolchain=flags)
    assert covering(lambda board: [compiler_of(board)], [f405, other]) == ["sibling", "stm32f405"]
    *rest, ccm = f405.memory
    for changes in ({"clock": Clock(0x4002_0000, 1)}, {"holds": (Holds.KERNELS,)}, {"budget": 1024}):
        memory = (*rest, msgspec.structs.replace(ccm, **changes))
        featured = msgspec.structs.replace(sibling, memory=memory)
        assert covering(features_of, [f405, featured]) == ["sibling", "stm32f405"]
