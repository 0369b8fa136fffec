"""What code for size saves, for advice: the least that was measured on the example models, see docs/optimise.md."""

from __future__ import annotations

# Share of the code for speed, model and runtime, by architecture of the board.
# begin: ci/optimise --write
LEAST = {
    "aarch64": 0.15,
    "arm": 0.16,
    "riscv32": 0.26,
    "x86_64": 0.01,
}
# end


def least_saved(arch: str, code: int) -> int:
    """Bytes of code that code for size would do without.

    Args:
        code: bytes of the code for speed.

    Returns:
        0 for an architecture on which nothing was measured.
    """
    return int(LEAST.get(arch, 0.0) * code)
