"""The page of a profile: its figures are the profile's, joined with the bytes of the report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from sample_page import EXPERT, sample_package, sample_report
from sample_profile import RUNS, sample_profile
from test_page_text import Elements

from colibri.cli import main
from colibri.cli.report import command
from colibri.errors import BadInput, UsageError
from colibri.footprint.expert_map import expert_map
from colibri.footprint.html import render_page
from colibri.footprint.profile_view import profile_view


def test_instructions_are_not_called_time() -> None:
    text = Elements(render_page(sample_report(), sample_package(), profile=sample_profile())).text
    assert "Instructions, not time" in text
    assert "4,000 executed instructions for a token at position 63" in text
    assert "4,000 for a token at position 63, " in text
    assert "counted in mps2-an500, which proves the core (board's core: Cortex-M7)" in text
    assert "an estimate from documents, not measured" in text and "at least 1.25 ms at 400 MHz" in text
    assert "prompt of 4, each token500" in text
    assert "Instructions, not time" not in render_page(sample_report(), sample_package())


def test_bars_of_layers_sum_to_the_token() -> None:
    view = profile_view(sample_profile())
    assert [bar.name for bar in view.layers] == ["layer 0", "layer 1", "outside"]
    assert [bar.instructions for bar in view.layers] == [1800, 1800, 400]
    assert sum(bar.share for bar in view.layers) == pytest.approx(100)
    widest = view.layers[0]
    assert [(one.kind, one.instructions, one.left, one.width) for one in widest.slices] == [
        ("Experts", 1350, 0.0, 75.0),
        ("f", 450, 75.0, 25.0),
    ]
    assert [(kind.name, kind.instructions, kind.per_mac) for kind in view.kinds] == [
        ("Experts", 2700, 2.0),
        ("f", 900, None),
        ("Entry", 400, None),
    ]
    colours = {kind.name: kind.colour for kind in view.kinds}
    assert all(one.colour == colours[one.kind] for bar in view.layers for one in bar.slices)


def test_many_functions_are_summed_up() -> None:
    view = profile_view(sample_profile(functions=70))
    assert len(view.functions) == 10
    assert view.more[-1].name == "20 more"
    assert sum(one.instructions for one in (*view.functions, *view.more)) == 4000


def test_each_expert_has_its_bytes_and_its_share_of_tokens() -> None:
    report = sample_report()
    use = expert_map(report, sample_profile())
    assert use is not None
    assert (use.experts, use.region, use.runs) == ((0, 1, 2, 3), "flash", RUNS)
    of_flash = 100 * EXPERT / report.regions[0].used
    for row in use.rows:
        cells = [cell for cell in row.cells if cell]
        assert [(cell.runs, cell.share, cell.level) for cell in cells] == [
            (0, 0.0, 0),
            (3, 25.0, 33),
            (6, 50.0, 67),
            (9, 75.0, 100),
        ]
        assert all(cell.bytes == EXPERT and cell.of_flash == pytest.approx(of_flash) for cell in cells)
    assert [(cell.layer, cell.expert) for cell in use.ranked] == [(0, 0), (1, 0), (0, 1), (1, 1)]
    text = Elements(render_page(report, sample_package(), profile=sample_profile())).text
    assert f"layer 0, expert 1{of_flash:.1f} %25.0 %" in text
    assert "How often each ran on f (12 tokens)" in text
    assert "--drop-expert 0:0" in text


def test_an_expert_that_was_left_out_leaves_a_gap() -> None:
    profile = sample_profile()
    fewer = tuple(one for one in profile.experts if (one.layer, one.expert) != (1, 2))
    use = expert_map(sample_report(), _with(profile, experts=fewer))
    assert use is not None
    assert [cell is None for cell in use.rows[1].cells] == [False, False, True, False]
    assert render_page(sample_report(), profile=_with(profile, experts=fewer)).count('<td class="none">') == 1


def test_larger_experts_of_equal_use_come_first() -> None:
    report = sample_report()
    flash = report.regions[0]
    weights = flash.groups[1]
    layer = weights.parts[2]
    larger = msgspec.structs.replace(layer.parts[2], bytes=2 * EXPERT, parts=())
    layer = msgspec.structs.replace(layer, parts=(*layer.parts[:2], larger, *layer.parts[3:]))
    weights = msgspec.structs.replace(weights, parts=(*weights.parts[:2], layer))
    flash = msgspec.structs.replace(flash, groups=(flash.groups[0], weights))
    use = expert_map(msgspec.structs.replace(report, regions=(flash, *report.regions[1:])), sample_profile())
    assert use is not None
    assert [(cell.layer, cell.expert) for cell in use.ranked][:2] == [(1, 0), (0, 0)]
    assert use.rows[1].cost.startswith("3,000–6,000 bytes")


def test_a_row_of_more_than_all_is_explained() -> None:
    profile = sample_profile()
    assert "a row sums to more than 100 %" in render_page(sample_report(), profile=profile)
    one_each = tuple(replace(one, inferences=RUNS // 4) for one in profile.experts)
    page = render_page(sample_report(), profile=replace(profile, experts=one_each, unit="call of 2 samples"))
    assert "a row sums to more than 100 %" not in page
    assert "(12 calls, each of 2 samples)" in page


def test_without_experts_there_is_no_map() -> None:
    profile = _with(sample_profile(), experts=())
    assert expert_map(sample_report(), profile) is None
    page = render_page(sample_report(), sample_package(), profile=profile)
    assert 'id="experts"' not in page and 'id="instructions"' in page


@pytest.mark.parametrize(("layers", "experts"), [(32, 32), (12, 256), (96, 128)])
def test_a_page_of_many_experts_stays_small(layers: int, experts: int) -> None:
    report = sample_report(layers=layers, experts=experts, flash=2**28)
    profile = sample_profile(layers=layers, experts=experts)
    page = render_page(report, sample_package(layers=layers), profile=profile)
    assert len(page.encode()) < 1_200_000
    assert ('id="heat"' in page) == (layers * experts <= 4096)
    assert "Least use for its room" in page


def test_steps_that_cannot_be_told_apart_say_so() -> None:
    profile = sample_profile()
    last = _with(profile.positions[-1], steps=())
    page = render_page(sample_report(), profile=_with(profile, positions=(last,), no_steps="3 kernels were entered"))
    assert "Layers and steps cannot be told apart: 3 kernels were entered." in Elements(page).text
    assert 'class="layers"' not in page


def test_a_saved_profile_comes_on_the_page(tmp_path: Path) -> None:
    source, saved, page = tmp_path / "r.json", tmp_path / "p.json", tmp_path / "r.html"
    source.write_bytes(sample_report().to_json())
    saved.write_bytes(msgspec.json.encode(sample_profile()))
    assert main(["report", str(source), "--html", "--profile-from", str(saved), "-o", str(page)]) == 0
    assert page.read_text(encoding="utf-8") == render_page(sample_report(), profile=sample_profile())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"package": "other"}, "a profile of other on nucleo-h743zi, not of sample on nucleo-h743zi"),
        ({"board": "stm32f405"}, "a profile of sample on stm32f405, not of"),
        ({"schema": 9}, "profile schema 9, this Colibri reads 1"),
        ({"schema": 9, "positions": 3}, "profile schema 9, this Colibri reads 1"),
        ({"spread": -2}, r"a number is too small - at `\$.spread`"),
        ({"positions": ()}, "a profile without a position"),
        ({"control_flow": 3}, "not a profile"),
    ],
)
def test_a_profile_of_something_else_is_refused(tmp_path: Path, change: dict[str, object], message: str) -> None:
    source, saved = tmp_path / "r.json", tmp_path / "p.json"
    source.write_bytes(sample_report().to_json())
    saved.write_bytes(msgspec.json.encode(_with(sample_profile(), **change)))
    arguments = [str(source), "--html", "--profile-from", str(saved), "-o", str(tmp_path / "r.html")]
    with pytest.raises(BadInput, match=message):
        CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert not (tmp_path / "r.html").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--profile"], "--profile is for the page"),
        (["--profile-from", "p.json"], "--profile-from is for the page"),
        (["--html", "--profile", "--profile-from", "p.json"], "exclude each other"),
        (["--html", "--data", "d.npy"], "--data is for --profile"),
        (["--html", "--profile"], "needs a package"),
    ],
)
def test_options_that_make_no_sense(tmp_path: Path, options: list[str], message: str) -> None:
    source = tmp_path / "r.json"
    source.write_bytes(sample_report().to_json())
    with pytest.raises(UsageError, match=message):
        CliRunner().invoke(command, [str(source), "-o", str(tmp_path / "o"), *options], catch_exceptions=False)


def _with(one: Any, **changes: object) -> Any:
    return replace(one, **changes)
