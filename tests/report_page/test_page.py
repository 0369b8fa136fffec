"""The HTML page: self-contained, the same for the same input, safe against names, and its figures are the report's."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from colibri.boards.load import load_board
from colibri.cli import main
from colibri.footprint.html import render_html, render_page
from colibri.footprint.report import make_report
from colibri.generate import generate
from colibri.options import Options
from colibri.toolchain.build import build

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(scope="module", params=["stm32f405", "x86-64-v3"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page") / "package"
    generate(EXAMPLES / "load-moe" / "top2-e4-norm", load_board(request.param), Options(), folder)
    build(folder, ["build/product.elf"])
    return folder


def test_it_needs_no_network(folder: Path) -> None:
    page = render_html(folder)
    assert set(re.findall(r"https?://[^\s\"'<)]+", page)) <= {"http://www.w3.org/2000/svg"}
    assert not re.search(r"<(link|iframe|img|object)\b|@import|src=", page)
    assert len(page) < 400_000


def test_equal_input_gives_equal_pages(folder: Path) -> None:
    assert render_html(folder) == render_html(folder)


def test_every_region_and_its_bytes_are_on_the_page(folder: Path) -> None:
    page = render_html(folder)
    for region in make_report(folder).regions:
        if region.groups:
            assert region.name in page
            assert f"{region.used:,}" in page


def test_names_are_escaped(folder: Path) -> None:
    report = make_report(folder)
    hostile = "<script>alert(1)</script>\"'&"
    page = render_page(msgspec.structs.replace(report, package=hostile, title=hostile))
    assert "<script>alert(1)" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_the_command_writes_it_beside_the_package(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(folder), "--html"]) == 0
    written = (folder / "report.html").read_text(encoding="utf-8")
    assert written == render_html(folder)
    capsys.readouterr()
