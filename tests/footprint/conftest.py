"""A small firmware for every test of the report."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_firmware import Firmware

from colibri.boards.load import load_board
from colibri.generate import generate
from colibri.options import Options
from colibri.toolchain.build import build

ROOT = Path(__file__).parents[2]


@pytest.fixture
def firmware(tmp_path: Path) -> Firmware:
    """A board with flash and RAM, and a small model on it; not linked yet."""
    return Firmware(tmp_path / "demo")


@pytest.fixture(scope="session")
def spread(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A token model for an STM32H750, built: its memory is two blocks, and its hottest weights are in flash."""
    folder = tmp_path_factory.mktemp("spread") / "package"
    generate(ROOT / "examples/shakespeare-moe", load_board("stm32h750b-dk"), Options(), folder)
    build(folder, ["build/product.elf"])
    return folder
