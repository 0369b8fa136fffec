"""Where the checkpoints of the board tests are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from colibri.package import Package

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
ORACLE = ROOT / "tests" / "oracle"

# 24 of 32 experts, so that the model fits the 1 MB of an STM32F405 in 4 bits.
PRUNED = {0: {1, 3}, 1: {2, 5}, 2: {0, 1}, 3: {0, 1}}

Make = Callable[..., tuple[Path, Package]]
