"""Packages for the board tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from board_packages import Make
from shared_objects import SharedObjects

from colibri.boards.load import load_board
from colibri.generate import generate
from colibri.options import Options
from colibri.package import Package


@pytest.fixture
def make(tmp_path: Path, objects: SharedObjects) -> Iterator[Make]:
    """Generate a package: ``make(checkpoint, board, options)``; returns its folder and package.json."""
    folders: list[Path] = []

    def made(
        checkpoint: Path, board: str = "x86-64-v3", options: Options | None = None, name: str = "package"
    ) -> tuple[Path, Package]:
        folder = tmp_path / name
        package = generate(checkpoint, load_board(board), options or Options(), folder)
        objects.lend(folder)
        folders.append(folder)
        return folder, package

    yield made
    for folder in folders:
        objects.keep(folder)
