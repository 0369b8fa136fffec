"""One browser for all tests of the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from browser import Browser, missing


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A window of Chromium; skips without it."""
    if lacking := missing():
        pytest.skip(f"{lacking} not installed (apt install chromium chromium-driver)")
    window = Browser(tmp_path_factory.mktemp("profile"))
    yield window
    window.close()


@pytest.fixture
def saved(tmp_path: Path) -> Callable[[str], Path]:
    """Saves a page: ``saved(text)`` returns its file."""

    def save(text: str) -> Path:
        path = tmp_path / "report.html"
        path.write_text(text, encoding="utf-8")
        return path

    return save
