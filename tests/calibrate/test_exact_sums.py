"""What decides bytes uses no sum whose order a library chooses."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_models import ROOT

CODE = ROOT / "codegen/colibri"
DECIDING = [
    *sorted((CODE / "calibrate").glob("*.py")),
    *(CODE / "passes" / name for name in ("gptq.py", "grid.py", "linear_algebra.py", "rounding.py")),
]
# The one product of integers, exact in any order.
ALLOWED = {("statistics.py", "_exact_product")}
UNORDERED = {
    *("sum", "mean", "dot", "matmul", "einsum", "inner", "outer", "tensordot", "vdot", "trace", "var", "std"),
    *("nansum", "nanmean", "average", "cov", "corrcoef", "convolve", "correlate", "norm"),
}


def used(tree: ast.AST, inside: str = "") -> Iterator[tuple[str, str]]:
    """Function, and what it uses."""
    for node in ast.iter_child_nodes(tree):
        where = node.name if isinstance(node, ast.FunctionDef) else inside
        if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.MatMult):
            yield where, "@"
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Attribute) and (called.attr in UNORDERED or "linalg" in ast.unparse(called)):
            yield where, ast.unparse(called)
        yield from used(node, where)


def test_the_check_sees_them() -> None:
    tree = ast.parse("def f(a):\n    return a @ a + a.sum() + np.linalg.inv(a)\n")
    assert sorted(used(tree)) == [("f", "@"), ("f", "a.sum"), ("f", "np.linalg.inv")]


@pytest.mark.parametrize("path", DECIDING, ids=lambda path: path.name)
def test_no_sum_of_floats_without_an_order(path: Path) -> None:
    found = {(path.name, where) for where, _ in used(ast.parse(path.read_text()))}
    assert found <= ALLOWED
