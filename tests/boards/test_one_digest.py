"""One model, every processor, every emulator and vector length: the same output bits."""

import pytest
from board_packages import EXAMPLES, PRUNED, Make
from selection import ROOMY, RUNS, skip_where_nothing_runs

from colibri.graph.graph import StateType
from colibri.graph.scheme import Scheme
from colibri.options import Options
from colibri.testing import check_package

# What the numpy reference answers to the golden inputs. A change of these lines is a change of the arithmetic.
DIGESTS = {
    "load-moe w8a8": "141a8c55cf50d5abbb19cc9183849a942374e5368abc876123afd2295e2283a0",
    "shakespeare w4a8": "590ebaf5795d0d2021060a54794265d7a414201306bbcc28e9e440cbc883a863",
}


@pytest.mark.emulator
@pytest.mark.parametrize("board", RUNS)
def test_sensor_model(board: str, make: Make, record_property: pytest.FixtureRequest) -> None:
    run("load-moe w8a8", "load-moe/top2-e4-norm", board, Options(), make, record_property)


@pytest.mark.emulator
@pytest.mark.parametrize("board", ROOMY)
def test_pruned_language_model(board: str, make: Make, record_property: pytest.FixtureRequest) -> None:
    options = Options(Scheme.W4A8, StateType.F32, prefill=4, context=32, drop=PRUNED)
    run("shakespeare w4a8", "shakespeare-moe", board, options, make, record_property)


def run(model: str, checkpoint: str, board: str, options: Options, make: Make, record_property) -> None:  # type: ignore[no-untyped-def]
    skip_where_nothing_runs(board)
    folder, package = make(EXAMPLES / checkpoint, board, options)
    results = check_package(folder, check_memory=True, instructions=True)
    assert {result.emulator for result in results} == {emulator.name for emulator in package.board.emulators}
    for result in results:
        count = result.instructions
        text = f"{count.per_call:,} instructions per {count.unit}" if count else "not counted"
        record_property("board result", (model, board, result.emulator, result.proves, result.digest, text))
        assert result.mismatches == ()
        assert result.outputs > 60
        assert result.digest == DIGESTS[model]
        assert count is None or count.per_call > 1000
