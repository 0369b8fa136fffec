"""The echo device on every board and emulator, built once per worker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from device_images import build_device, need

from colibri.boards.profile import Board, Emulator

DeviceBuilder = Callable[[Board, Emulator], Path]


@pytest.fixture(scope="session")
def device_image(tmp_path_factory: pytest.TempPathFactory) -> DeviceBuilder:
    """Image of the echo device for a board and emulator; the same image where nothing differs."""
    images: dict[tuple[str, str, tuple[tuple[str, int], ...], str], Path] = {}

    def build(board: Board, emulator: Emulator) -> Path:
        need(emulator)
        mode = emulator.kind if emulator.trap else ""
        key = (board.id, emulator.trap, tuple(emulator.origins.items()), mode)
        if key not in images:
            images[key] = build_device(board, emulator, tmp_path_factory.mktemp(board.id))
        return images[key]

    return build
