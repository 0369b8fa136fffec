"""The page of a search in a real browser, from a file."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from browser import Browser
from sample_fit import sample_fit
from sample_page import HOSTILE

from colibri.fit.page import render_fit

Save = Callable[[str], Path]

MARKED = "return [...document.querySelectorAll('tr.here')].map(one => one.dataset.point)"
TIP = "const tip = document.getElementById('tip'); return tip.hidden ? '' : tip.innerText"
HEIGHTS = "return [...document.querySelectorAll(arguments[0])].map(one => one.getBoundingClientRect().height)"
PLACES = """return [...document.querySelectorAll('.plot')[arguments[0]].querySelectorAll('.dot')].map(
    dot => dot.cx.baseVal.value)"""
PAPER = "return getComputedStyle(document.body).backgroundColor"


def opened(browser: Browser, saved: Save, **how: object) -> Path:
    page = saved(render_fit(sample_fit()))
    browser.open(page, **how)  # type: ignore[arg-type]
    return page


def test_it_runs_without_errors_and_fetches_nothing(browser: Browser, saved: Save) -> None:
    page = opened(browser, saved)
    assert browser.run("return document.documentElement.classList.contains('js')")
    assert browser.log("browser") == [] and browser.requests() == [page.resolve().as_uri()]
    assert render_fit(sample_fit()) == render_fit(sample_fit())


def test_names_are_text(browser: Browser, saved: Save) -> None:
    browser.open(saved(render_fit(sample_fit(HOSTILE))))
    assert browser.log("browser") == []
    assert HOSTILE in browser.run("return document.querySelector('h1').textContent")
    assert browser.run("return document.title") == f"{HOSTILE} on stm32f405: what fits"
    assert browser.run("return document.querySelectorAll('img, script').length") == 1
    assert HOSTILE in browser.run("return [...document.querySelectorAll('h3')].map(one => one.textContent)")


def test_arrows_go_along_the_front(browser: Browser, saved: Save) -> None:
    """From the chosen point to less flash, with its row and what is said."""
    opened(browser, saved)
    browser.run("document.querySelector('.dot.chosen').focus()")
    assert browser.run(MARKED) == ["1"]
    browser.press("ArrowLeft", "ArrowLeft", "ArrowLeft")
    assert browser.run(MARKED) == ["4"]
    assert "+0.0705 ± 0.0080 nats a token, 792,328 bytes of flash, 147,616 of memory" in browser.run(TIP)
    assert browser.run("return document.getElementById('said').textContent").startswith("4: w4a8:embedding=w5a8:")
    browser.press("Home")
    assert browser.run(MARKED) == ["6"]
    browser.press("End", "Escape")
    assert browser.run(MARKED) == ["1"] and browser.run(TIP) == ""


def test_points_that_the_interval_does_not_tell_apart_have_a_plot_of_their_own(browser: Browser, saved: Save) -> None:
    """In the first one they lie upon each other."""
    opened(browser, saved)
    whole, near = (browser.run(PLACES, number) for number in (0, 1))
    assert len(whole) == 6 and len(near) == 3
    assert max(whole[:3]) - min(whole[:3]) < 10 and min(a - b for a, b in pairwise(near)) > 100
    browser.run("document.querySelectorAll('.plot')[1].querySelector('.dot').focus()")
    browser.press("ArrowLeft")
    assert browser.run(MARKED) == ["2"]
    browser.press("Home")
    assert browser.run(MARKED) == ["3"]


def test_the_pointer_tells_of_a_point_that_another_beats(browser: Browser, saved: Save) -> None:
    opened(browser, saved)
    x, y = browser.run(
        "const box = document.querySelector('.other').getBoundingClientRect();"
        "return [box.left + box.width / 2, box.top + box.height / 2]"
    )
    browser.point(x, y)
    assert "+0.1300 nats a token, 900,000 bytes of flash; another point beats it" in browser.run(TIP)


def test_light_and_dark(browser: Browser, saved: Save) -> None:
    opened(browser, saved)
    light = browser.run(PAPER)
    browser.run("document.getElementById('theme').click()")
    dark = browser.run(PAPER)
    assert dark != light
    opened(browser, saved, dark=True)
    assert browser.run(PAPER) == dark


def test_a_narrow_window_shows_all_of_it(browser: Browser, saved: Save) -> None:
    """Recipes are not squeezed into a column of a letter, and the page itself does not move sideways."""
    opened(browser, saved, width=420)
    assert browser.run("return document.documentElement.scrollWidth") == 420
    assert max(browser.run(HEIGHTS, ".points tbody tr")) < 160


def test_lines_of_moves_are_of_one_height(browser: Browser, saved: Save) -> None:
    opened(browser, saved)
    heights = browser.run(HEIGHTS, ".counts li")
    assert len(heights) == 4 and len(set(heights)) == 1
    assert browser.run("return document.querySelector('.guess').innerText").split() == [
        "w4g128",
        "≈",
        "0.0123",
        "100,000",
    ]
