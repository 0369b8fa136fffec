"""The page in a real browser, from a file: it moves, answers the keyboard, and asks nobody for anything."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from browser import Browser
from sample_page import HOSTILE, sample_package, sample_report
from sample_profile import sample_profile

from colibri.footprint.html import render_page

Save = Callable[[str], Path]

CRUMBS = "return [...document.querySelectorAll('#crumbs li')].map(one => one.textContent.trim())"
FOCUSED = "return document.activeElement.getAttribute('aria-label')"
TIP = "const tip = document.getElementById('tip'); return tip.hidden ? '' : tip.innerText"


def opened(browser: Browser, saved: Save, **how: object) -> Path:
    page = saved(render_page(sample_report(), sample_package()))
    browser.open(page, **how)  # type: ignore[arg-type]
    return page


def names(browser: Browser) -> list[str]:
    return list(browser.run("return [...document.querySelectorAll('.tile .tn')].map(one => one.textContent)"))


def center(browser: Browser, name: str) -> tuple[float, float]:
    x, y = browser.run(
        """const tile = [...document.querySelectorAll('.tile')].find(one => one.textContent.startsWith(arguments[0]));
        tile.scrollIntoView({ block: 'center' });
        const box = tile.getBoundingClientRect();
        return [box.left + box.width / 2, box.top + Math.min(8, box.height / 2)];""",
        name,
    )
    return x, y


def focus_map(browser: Browser) -> None:
    browser.run("document.querySelector('#frame [tabindex=\"0\"]').focus()")


def test_it_runs_without_errors_and_fetches_nothing(browser: Browser, saved: Save) -> None:
    page = opened(browser, saved)
    assert browser.run("return document.documentElement.classList.contains('js')")
    assert browser.log("browser") == []
    assert browser.requests() == [page.resolve().as_uri()]


def test_the_script_draws_what_the_page_showed_before(browser: Browser, saved: Save) -> None:
    places = """return [...document.querySelectorAll('.tile')].map(one => {
        const box = one.getBoundingClientRect();
        return [one.textContent.trim(), ...[box.left, box.top, box.width, box.height].map(side => Math.round(side))];
    })"""
    opened(browser, saved, script=False)
    browser.devtools("Emulation.setScriptExecutionDisabled", value=False)
    before = browser.run(places)
    opened(browser, saved)
    after = browser.run(places)
    assert len(before) > 10
    # Before, what has no room for a name has none.
    assert [one[0] or two[0] for one, two in zip(before, after, strict=True)] == [two[0] for two in after]
    browser.run("window.scrollTo(0, 0)")
    for one, two in zip(before, after, strict=True):
        # The script shows controls, so that the map may stand lower; nothing else moves.
        assert abs(one[1] - two[1]) <= 1 and abs(one[3] - two[3]) <= 1 and abs(one[4] - two[4]) <= 1, (one, two)


def test_clicks_go_in_and_crumbs_come_out(browser: Browser, saved: Save) -> None:
    opened(browser, saved)
    browser.point(*center(browser, "layer 1"), click=True)
    assert browser.run(CRUMBS) == ["flash", "weights", "layer 1 15,856"]
    assert {"expert 0", "gate", "up", "down", "attention"} <= set(names(browser))
    browser.point(*center(browser, "expert 2"), click=True)
    assert names(browser) == ["gate", "up", "down"]
    assert browser.run("return document.getElementById('said').textContent").endswith("3,000 bytes in 3 parts")
    browser.run("document.querySelectorAll('#crumbs button')[1].click()")
    assert browser.run(CRUMBS) == ["flash", "weights 33,712"]


def test_a_tile_that_has_no_parts_opens_what_it_is_in(browser: Browser, saved: Save) -> None:
    opened(browser, saved)
    browser.point(*center(browser, "layer 0"), click=True)
    browser.point(*center(browser, "gate"), click=True)
    assert browser.run(CRUMBS)[-1] == "expert 0 3,000"
    browser.point(*center(browser, "gate"), click=True)
    assert browser.run(CRUMBS)[-1] == "expert 0 3,000"


def test_the_keyboard_alone_goes_everywhere(browser: Browser, saved: Save) -> None:
    opened(browser, saved)
    focus_map(browser)
    assert browser.run(FOCUSED).startswith("flash › weights: 33,712 bytes, 93.9 % of flash")
    browser.press("ArrowRight")
    assert browser.run(FOCUSED).startswith("flash › code: 2,190 bytes")
    browser.press("ArrowLeft", "Enter")
    assert browser.run(CRUMBS) == ["flash", "weights 33,712"]
    assert browser.run(FOCUSED).startswith("flash › weights › layer 0")
    browser.press("ArrowRight")
    assert browser.run(FOCUSED).startswith("flash › weights › layer 1")
    browser.press("Enter")
    assert browser.run(CRUMBS)[-1] == "layer 1 15,856"
    browser.press("Escape")
    assert browser.run(FOCUSED).startswith("flash › weights › layer 1"), "the focus is where one came from"
    browser.press("Backspace")
    assert browser.run(CRUMBS) == ["flash 35,902"]
    browser.press("Escape")
    assert browser.run(CRUMBS) == ["flash 35,902"]


def test_one_stop_for_tab_in_the_map(browser: Browser, saved: Save) -> None:
    opened(browser, saved)
    assert browser.run("return document.querySelectorAll('#frame [tabindex=\"0\"]').length") == 1


def test_pointing_tells_bytes_and_percent(browser: Browser, saved: Save) -> None:
    opened(browser, saved)
    browser.point(*center(browser, "expert 3"))
    told = browser.run(TIP).splitlines()
    assert told == ["flash › weights › layer 0 › expert 3", "3,000 bytes, 8.4 % of flash", "18.9 % of layer 0"]


def test_other_regions_have_maps_too(browser: Browser, saved: Save) -> None:
    opened(browser, saved)
    browser.run("document.querySelectorAll('#tabs button')[1].click()")
    assert browser.run(CRUMBS) == ["sram 352"]
    assert set(names(browser)) == {"states", "arena"}
    shown = "return [...document.querySelectorAll('#roles li')].filter(one => !one.hidden).map(one => one.textContent)"
    assert browser.run(shown) == ["states", "arena"]


def test_the_filter_keeps_what_matches_and_its_parents(browser: Browser, saved: Save) -> None:
    opened(browser, saved)
    browser.run("document.getElementById('filter').focus()")
    browser.press(*"expert 2")
    seen = """return [...document.querySelectorAll('#tree .node')].filter(one => one.checkVisibility())
        .map(one => (one.tagName === 'DETAILS' ? one.firstElementChild : one).firstElementChild.textContent)"""
    rows = ["flash", "weights", "layer 0", "expert 2", "layer 1", "expert 2"]
    assert browser.run(seen) == rows
    assert browser.run("return document.getElementById('found').textContent") == "2 rows"
    browser.press(*["Backspace"] * 8)
    assert "arena" in browser.run(seen) and "layer 0" not in browser.run(seen)


def test_lifetimes_by_pointer_and_by_keys(browser: Browser, saved: Save) -> None:
    opened(browser, saved)
    browser.run("document.getElementById('lives').focus()")
    browser.press("Home", "ArrowRight")
    value = browser.run("return document.getElementById('lives').getAttribute('aria-valuetext')")
    assert value.startswith("op 1: Linear layers.0.q, layer 0; 96 of 96 bytes alive; ")
    assert "normed: 32 bytes at 32, ops 0–1" in value and "mixed" not in value
    browser.press("End")
    assert browser.run("return document.getElementById('lives').getAttribute('aria-valuenow')") == "5"
    left, top, width, height = browser.run(
        "const box = document.getElementById('lives').getBoundingClientRect();"
        "return [box.left, box.top, box.width, box.height]"
    )
    browser.point(left + width * 0.2, top + height * 0.5)
    assert browser.run(TIP).startswith("op 0: RmsNorm layers.0.norm, layer 0")


def test_experts_by_keys_and_by_pointer(browser: Browser, saved: Save) -> None:
    browser.open(saved(render_page(sample_report(), sample_package(), profile=sample_profile())))
    assert browser.run("return document.querySelectorAll('#heat [tabindex=\"0\"]').length") == 1
    browser.run("document.getElementById('filter').focus()")
    browser.run("document.querySelector('#heat [tabindex=\"0\"]').focus()")
    assert browser.run(FOCUSED).startswith("layer 0, expert 0: ")
    browser.press("ArrowRight", "ArrowDown", "ArrowDown")
    assert browser.run(FOCUSED) == "layer 1, expert 1: 3 of 12 tokens, 25.0 %; 3,000 bytes, 8.4 % of flash"
    assert browser.run(TIP).splitlines() == [
        "layer 1, expert 1",
        "3 of 12 tokens, 25.0 %; 3,000 bytes, 8.4 % of flash",
    ]
    assert browser.run("return document.querySelectorAll('#heat [tabindex=\"0\"]').length") == 1
    browser.press("Escape")
    assert browser.run(TIP) == ""


@pytest.mark.parametrize("dark", [False, True])
def test_dark_and_light_follow_the_system_and_the_button(browser: Browser, saved: Save, dark: bool) -> None:
    background = "return getComputedStyle(document.body).backgroundColor"
    light_paper, dark_paper = "rgb(246, 247, 249)", "rgb(14, 17, 23)"
    opened(browser, saved, dark=dark)
    assert browser.run(background) == (dark_paper if dark else light_paper)
    browser.run("document.getElementById('theme').click()")
    assert browser.run(background) == (light_paper if dark else dark_paper)
    browser.run("document.getElementById('theme').click()")
    assert browser.run(background) == (dark_paper if dark else light_paper)


@pytest.mark.parametrize("width", [400, 820])
def test_narrow_windows_do_not_scroll_sideways(browser: Browser, saved: Save, width: int) -> None:
    browser.open(saved(render_page(sample_report(), sample_package(), profile=sample_profile())), width=width)
    assert browser.run("return document.documentElement.scrollWidth") <= width


def test_without_script_the_page_still_tells_everything(browser: Browser, saved: Save) -> None:
    opened(browser, saved, script=False)
    browser.devtools("Emulation.setScriptExecutionDisabled", value=False)
    assert browser.run("return getComputedStyle(document.querySelector('.filter')).display") == "none"
    assert browser.run("return getComputedStyle(document.querySelector('.with-script')).display") == "none"
    assert "expert 0" in names(browser)
    # A row opens by the browser's own means.
    row = "const row = [...document.querySelectorAll('#tree .name')].find(one => one.textContent === arguments[0]);"
    assert not browser.run(row + "return row.checkVisibility()", "layer 1")
    browser.run(row + "row.click()", "weights")
    assert browser.run(row + "return row.checkVisibility()", "layer 1")
    assert browser.run("return document.querySelector('.life title').textContent").startswith("x: 32 bytes")


def test_hostile_names_do_nothing(browser: Browser, saved: Save) -> None:
    page = render_page(sample_report(name=HOSTILE), sample_package(name=HOSTILE), profile=sample_profile(HOSTILE))
    browser.open(saved(page))
    browser.point(*center(browser, "code"), click=True)
    browser.point(*center(browser, "runtime"))
    browser.run("document.getElementById('filter').focus()")
    browser.press(*"<img")
    browser.run("document.getElementById('lives').focus()")
    browser.press("Home")
    assert browser.run("return document.title").startswith("sample")
    assert browser.run("return document.images.length") == 0
    assert browser.log("browser") == []


def test_it_prints_in_light_colours_without_controls(browser: Browser, saved: Save) -> None:
    opened(browser, saved, dark=True)
    browser.devtools("Emulation.setEmulatedMedia", media="print", features=[])
    assert browser.run("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    for control in ("#theme", ".filter", "#tabs"):
        assert browser.run("return getComputedStyle(document.querySelector(arguments[0])).display", control) == "none"
