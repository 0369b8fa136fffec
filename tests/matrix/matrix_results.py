"""A matrix in which everything happens that can happen."""

from __future__ import annotations

from colibri.matrix.model import SCHEMA, Matrix, Result, Run, State

DIGEST, OTHER = "a" * 64, "b" * 64


def result(board: str, code: int = 0, error: str = "", **facts: object) -> Result:
    """Of one model."""
    facts = {"toolchain": "gcc", **facts} if facts else facts
    return Result("/x/model", "model", board, "w8a8", f"model-{board}/package", code, error, **facts)  # type: ignore[arg-type]


EQUAL = Run("qemu", "map", State.EQUAL, DIGEST, 1234567, "token")
GOOD = result("good", fits=True, flash=10_000, ram=2_000, stack=196, runs=(EQUAL,), seconds=1.25)
HERE = result(
    "here", toolchain="clang", fits=True, flash=1, ram=1, runs=(Run("native", "machine", State.EQUAL, DIGEST), EQUAL)
)
SMALL = result("small", 3, "small: the image is too large: flash by 1,234 bytes", fits=False, over={"flash": 1234})
WRONG = result(
    "wrong", 1, "qemu: forward: 1 of 2 differ", fits=True, flash=1, ram=1,
    runs=(Run("qemu", "core", State.DIFFERENT, OTHER, why="forward: 1 of 2 differ"),),
)  # fmt: skip
NO_TOOL = result("no-tool", 4, "board no-tool: x-gcc: not installed")
HUNG = result(
    "hung", 7, "qemu: no end within 300 s", fits=True, flash=1, ram=1,
    runs=(Run("qemu", "map", State.FAILED, why="no end within 300 s"), Run("native", "machine", State.MISSING)),
)  # fmt: skip
HOSTILE = result("b|d*<x>", 5, "]]> & \x1b[31m \x00 <script> | ** \udcff")

ALL = Matrix(SCHEMA, (GOOD, HERE, SMALL, WRONG, NO_TOOL, HUNG, HOSTILE))
FINE = Matrix(SCHEMA, (GOOD, HERE))
