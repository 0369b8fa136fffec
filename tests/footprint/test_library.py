"""What is read of a library's archive."""

from __future__ import annotations

from pathlib import Path

import pytest

from colibri.errors import BadInput
from colibri.footprint.library import LibraryUse, library_use


@pytest.mark.parametrize("damage", [b"", b"!<thin>\n", b"!<arch>\n" + 60 * b"x", b"!<arch>\nname/"])
def test_a_damaged_library_is_bad_input(damage: bytes, tmp_path: Path) -> None:
    (tmp_path / "lib.a").write_bytes(damage)
    with pytest.raises(BadInput, match="not a readable library"):
        library_use(tmp_path / "lib.a")


def test_a_library_in_words(tmp_path: Path) -> None:
    text = LibraryUse(4000, 1500, 32, ("a", "b")).text()
    assert text == "library: 5,500 bytes of code and tables (4,000 + 1,500), 2 public functions; weights not counted"
    assert library_use(tmp_path / "none.a") is None
