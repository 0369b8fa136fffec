"""What is read from `src/model.c`, made for speed or for size: each op's calls of kernels, in their order."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_models import ORACLE, make_package

from colibri.debug.source import read_source
from colibri.optimise import Optimise


@pytest.mark.parametrize(("optimise", "rows"), [(Optimise.SPEED, {4, 1}), (Optimise.SIZE, {0})])
def test_calls_are_those_of_the_package(optimise: Optimise, rows: set[int], tmp_path: Path) -> None:
    package = make_package(ORACLE / "mixtral-base", tmp_path / "p", prefill=4, context=8, optimise=optimise)
    kernels, functions = read_source((tmp_path / "p/src/model.c").read_text())
    assert {one.rows for one in functions if one.block == "layer"} == rows
    assert {one.block for one in functions} == {"input", "layer", "output"}
    first = [op for op in package.ops if op.layer <= 0]
    for function in functions:
        ops = [op for op in first if op.block == function.block] or [
            op for op in package.ops if op.block == function.block
        ]
        called = [call.kernel for call in function.calls]
        assert len(called) == sum(len(op.kernels) for op in ops) and set(called) <= set(kernels)
        if function.rows in (0, 1):
            assert called == [name for op in ops for name in op.kernels]
