"""A small firmware for every test of the report."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_firmware import Firmware


@pytest.fixture
def firmware(tmp_path: Path) -> Firmware:
    """A board with flash and RAM, and a small model on it; not linked yet."""
    return Firmware(tmp_path / "demo")
