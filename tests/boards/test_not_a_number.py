"""Logits that are not numbers: processors differ in the NaN that they make, packages must not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from board_packages import Make
from make_bad import CONFIG, tiny_mixtral, write_checkpoint

from colibri.graph.scheme import Scheme
from colibri.options import Options
from colibri.testing import check_package, read_cases


@pytest.mark.emulator
@pytest.mark.parametrize("board", ["x86-64-v3", "stm32f405", "riscv-virt-rv32imac"])
def test_every_board_answers_with_one_nan(board: str, make: Make, tmp_path: Path) -> None:
    arrays = tiny_mixtral()
    arrays["model.norm.weight"][:] = 3e38  # finite, but the products with the head overflow in both directions
    write_checkpoint(tmp_path / "wild", CONFIG, arrays)
    folder, _ = make(tmp_path / "wild", board, Options(Scheme.F32, context=8))
    logits = np.frombuffer(
        b"".join(a.payload for case in read_cases(folder) if case.op in "PS" for a in case.answers), "<u4"
    )
    strange = (logits & 0x7FFFFFFF) > 0x7F800000
    assert strange.sum() > 50 and set(logits[strange].tolist()) == {0x7FC00000}
    assert all(result.passed for result in check_package(folder))
