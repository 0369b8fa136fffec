"""`package.json`: written once, read by every later stage."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_models import make_package, sensor

from colibri.errors import BadInput
from colibri.package import FILE_NAME, SCHEMA, Package, load_package


@pytest.fixture
def package(tmp_path: Path) -> Package:
    return make_package(sensor("top1-e3-tiny"), tmp_path / "p", batch=2)


def test_it_comes_back_as_it_was(tmp_path: Path, package: Package) -> None:
    assert load_package(tmp_path / "p") == package
    before = (tmp_path / "p" / FILE_NAME).read_bytes()
    package.save(tmp_path / "p")
    assert (tmp_path / "p" / FILE_NAME).read_bytes() == before


def test_keys_are_sorted_and_the_board_is_in_it(tmp_path: Path, package: Package) -> None:
    table = json.loads((tmp_path / "p" / FILE_NAME).read_text())
    assert list(table) == sorted(table) and table["board"]["id"] == package.board.id
    assert (table["batch"], table["prefill"], table["context"], table["kv"]) == (2, 0, 0, "")


@pytest.mark.parametrize("folder", ["nowhere", "empty", "file"])
def test_what_is_no_package(tmp_path: Path, folder: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    with pytest.raises(BadInput) as caught:
        load_package(tmp_path / folder)
    assert str(caught.value).startswith(f"{tmp_path / folder}: not a Colibri package; make one with")


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"{}", b"\xff\xfe", b'{"schema": "one"}', b"null"])
def test_a_damaged_file_is_one_line(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(raw)
    with pytest.raises(BadInput) as caught:
        load_package(tmp_path)
    assert "package.json is damaged" in str(caught.value) and str(caught.value).isprintable()


def test_another_schema_is_named(tmp_path: Path, package: Package) -> None:
    file = tmp_path / "p" / FILE_NAME
    file.write_text(json.dumps(json.loads(file.read_text()) | {"schema": SCHEMA + 1}))
    with pytest.raises(BadInput, match=f"package schema {SCHEMA + 1}, this Colibri reads {SCHEMA}"):
        load_package(tmp_path / "p")


def test_unreadable_is_bad_input_and_not_a_crash(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).mkdir()
    with pytest.raises(BadInput):
        load_package(tmp_path)
