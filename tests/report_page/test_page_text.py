"""The page as text: complete, closed to the network, the same each time, and deaf to hostile names."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from sample_page import HOSTILE, sample_package, sample_report, without_ops
from sample_profile import sample_profile

from colibri.boards.load import load_board
from colibri.cli.report import command
from colibri.errors import BadInput, DoesNotFit, UsageError
from colibri.footprint.html import render_html, render_page
from colibri.footprint.stack import Observed, ObservedBlock, ObservedEntry, ObservedPages
from colibri.generate import generate
from colibri.options import Options
from colibri.package import load_package
from colibri.toolchain.build import build

ROOT = Path(__file__).parents[2]


class Elements(HTMLParser):
    """Names, attributes and text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def data_of(page: str) -> Any:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    return json.loads(found[1])


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A load forecaster for an STM32F405, built."""
    folder = tmp_path_factory.mktemp("page") / "package"
    generate(ROOT / "examples/load-moe/top1-e4", load_board("stm32f405"), Options(), folder)
    build(folder, ["build/product.elf"])
    return folder


def test_the_same_input_gives_the_same_bytes(package: Path) -> None:
    assert render_html(package) == render_html(package)


def test_a_package_knows_its_ops_and_lifetimes(package: Path) -> None:
    facts = load_package(package)
    assert [op.kind for op in facts.ops] == ["Linear", "Activation", "Router", "Quantise", "Experts", "Add", "Linear"]
    for span in facts.memory.blocks[0].spans:
        if span.kind == "arena":
            assert (span.live[0][0], span.live[-1][1]) == (span.first, span.last)
    page = render_html(package)
    assert data_of(page)["lifetimes"]["ops"][4] == ["mixed", 0, "Experts"]
    assert 'id="lives"' in page


def test_rows_in_the_page_sum_to_the_regions(package: Path) -> None:
    def leaves(node: dict[str, Any]) -> int:
        return sum(map(leaves, node["k"])) if "k" in node else int(node["b"])

    page = render_html(package)
    regions = data_of(page)["regions"]
    assert [node["n"] for node in regions] == ["flash", "sram"]
    for node in regions:
        assert leaves(node) == node["b"]
        assert f"{node['b']:,}" in Elements(page).text


def test_the_command_writes_the_page_into_the_package(package: Path) -> None:
    result = CliRunner().invoke(command, [str(package), "--html"], catch_exceptions=False)
    assert result.exit_code == 0
    assert (package / "report.html").read_text(encoding="utf-8") == render_html(package)


def test_the_command_wants_a_place_for_a_program_alone(package: Path, tmp_path: Path) -> None:
    elf = str(package / "build/product.elf")
    with pytest.raises(UsageError, match="-o FILE"):
        CliRunner().invoke(command, [elf, "--html"], catch_exceptions=False)
    target = tmp_path / "alone.html"
    CliRunner().invoke(command, [elf, "--html", "-o", str(target)], catch_exceptions=False)
    assert 'id="frame"' in target.read_text(encoding="utf-8")
    assert 'id="lives"' not in target.read_text(encoding="utf-8")


def test_no_page_of_a_comparison(package: Path) -> None:
    with pytest.raises(UsageError, match="--diff"):
        CliRunner().invoke(command, [str(package), "--html", "--diff", str(package)], catch_exceptions=False)


def test_no_page_of_what_is_not_built(tmp_path: Path) -> None:
    with pytest.raises(BadInput):
        render_html(tmp_path)


def test_an_oversize_report_gets_its_page_all_the_same(tmp_path: Path) -> None:
    file, target = tmp_path / "r.json", tmp_path / "r.html"
    file.write_bytes(sample_report(flash=20_000).to_json())
    with pytest.raises(DoesNotFit):
        CliRunner().invoke(command, [str(file), "--html", "-o", str(target)], catch_exceptions=False)
    page = target.read_text(encoding="utf-8")
    over = sample_report().regions[0].used - 20_000
    assert f"flash is {over:,} bytes over." in page
    assert 'class="beyond"' in page


def test_nothing_is_fetched() -> None:
    page = render_page(sample_report(), sample_package())
    assert "http:" not in page and "https:" not in page and "url(" not in page and "@import" not in page
    for tag, attributes in Elements(page).found:
        assert "src" not in attributes
        assert tag not in {"link", "iframe", "object", "embed"}
        assert attributes.get("href", "#").startswith("#")


def test_only_its_own_script_may_run() -> None:
    page = render_page(sample_report(), sample_package())
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert len(scripts) == 1
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    policy = next(attributes["content"] for tag, attributes in Elements(page).found if "http-equiv" in attributes)
    assert policy is not None and f"script-src 'sha256-{digest}'" in policy and "default-src 'none'" in policy


def test_hostile_names_stay_text() -> None:
    plain = Elements(render_page(sample_report(), sample_package(), profile=sample_profile()))
    report = sample_report(name=HOSTILE)
    report = msgspec.structs.replace(report, package=HOSTILE, title=HOSTILE, scheme=HOSTILE)
    page = render_page(report, sample_package(name=HOSTILE), profile=sample_profile(HOSTILE))
    hostile = Elements(page)
    assert [tag for tag, _ in hostile.found] == [tag for tag, _ in plain.found]
    assert [sorted(names) for _, names in hostile.found] == [sorted(names) for _, names in plain.found]
    assert "{{ 7*7 }}" in hostile.text
    assert data_of(page)["regions"][0]["k"][0]["k"][1]["k"][0]["n"] == HOSTILE


def test_a_name_that_is_no_text_does_not_break_the_page() -> None:
    page = render_page(sample_report(), sample_package(), profile=sample_profile("f\udcff"))
    assert "f?" in page
    page.encode("utf-8")


@pytest.mark.parametrize(("layers", "experts"), [(32, 64), (12, 20), (96, 128)])
def test_a_large_model_stays_below_400_kb(layers: int, experts: int) -> None:
    report = sample_report(layers=layers, experts=experts, flash=2**27)
    page = render_page(report, sample_package(layers=layers))
    assert len(page.encode()) < 400_000
    assert "smaller rows" in page and "colibri report --csv" in page
    regions = data_of(page)["regions"]
    assert regions[0]["b"] == sum(part["b"] for part in regions[0]["k"])


def test_the_head_names_what_it_is_about() -> None:
    text = Elements(render_page(sample_report(), sample_package())).text
    for fact in ("sample", "w8a8", "nucleo-h743zi", "Cortex-M7", "colibri 9.9", "ab" * 16, "cd" * 16, "4 in 2 layers"):
        assert fact in text
    assert "× 8" in text and "at its lower bound" in text


def test_what_is_reserved_counts_as_ram_and_is_named() -> None:
    report = sample_report()
    flash, ram, unused = report.regions
    assert "RAM352 bytes8.6 % of sram One" in " ".join(Elements(render_page(report)).text.split())
    kept = msgspec.structs.replace(ram, reserve=1000)
    text = Elements(render_page(msgspec.structs.replace(report, regions=(flash, kept, unused)))).text
    assert "RAM1,352 bytes33.0 % of sram, with 1,000 reserved One" in " ".join(text.split())


def test_stack_and_its_deepest_path() -> None:
    text = Elements(render_page(sample_report(name="deepest_function"))).text
    assert "At most 200 bytes from port_start" in text
    assert "Reserved are 1,024" in text
    assert "deepest_function" in text


def test_pages_touched_stand_below_the_depths_of_their_run() -> None:
    run = Observed("qemu", ObservedEntry("main", 9, 8), (), (ObservedBlock("ram", 9000, 2, 3),), ObservedPages(5, 7))
    page = render_page(msgspec.structs.replace(sample_report(), observed=(run,)))
    assert "Pages of 4,096 bytes touched: weights 5 of 7, memory in ram 2 of 3." in Elements(page).text


def test_the_library_has_its_line(package: Path) -> None:
    found = re.search(
        r"of your own, the library: ([\d,]+) bytes of code and tables", Elements(render_html(package)).text
    )
    assert found
    assert 2_000 < int(found[1].replace(",", "")) < 10_000


def test_without_a_stack_bound_the_reason_stands() -> None:
    report = sample_report()
    assert report.stack is not None
    unknown = msgspec.structs.replace(report.stack.program, bytes=None, unknown="recursion: f → f")
    stack = msgspec.structs.replace(report.stack, program=unknown, needed=None)
    text = Elements(render_page(msgspec.structs.replace(report, stack=stack))).text
    assert "There is no bound: recursion: f → f." in text


def test_older_packages_have_a_page_without_lifetimes() -> None:
    page = render_page(sample_report(), without_ops(sample_package()))
    assert 'id="lives"' not in page and 'id="rows"' in page


def test_predicted_beside_linked_marks_what_differs() -> None:
    page = render_page(sample_report(), sample_package())
    assert '<span class="off">250</span><span>256</span>' in page
    assert "<span>96</span><span>96</span>" in page


def test_a_report_without_bytes_has_a_page() -> None:
    report = msgspec.structs.replace(sample_report(), regions=sample_report().regions[2:])
    assert "Unused: backup 512 bytes." in Elements(render_page(report)).text
