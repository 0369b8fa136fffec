"""The page in which a model writes, in a real browser: the tokens of the microcontroller, and its bits."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from browser import Browser

from colibri.boards.load import load_board
from colibri.calibrate.data import Calibration, Rounding
from colibri.checkpoint.tokenizer import load_tokenizer
from colibri.export.export import export
from colibri.export.form import Label
from colibri.generate import generate
from colibri.graph.graph import StateType
from colibri.graph.scheme import Scheme
from colibri.options import Options
from colibri.package import Package
from colibri.recipe import parse_recipe
from colibri.running import run_tokens

SHAKESPEARE = Path(__file__).parents[2] / "examples/shakespeare-moe"
OPTIONS = Options(Scheme.W4A8, StateType.F16, context=112)
PROMPT, COUNT, PATIENCE = "KING RICHARD:", 100, 60.0  # seconds


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    generate(SHAKESPEARE, load_board("wasm32-simd128"), OPTIONS, folder / "package")
    export(folder / "package", "page", Label(prompts=(PROMPT, "ROMEO:")), folder / "page")
    return folder / "page/index.html"


def until(browser: Browser, script: str) -> None:
    """Wait until an expression is true in the page."""
    end = time.monotonic() + PATIENCE
    while not browser.run(f"return Boolean({script})"):
        assert time.monotonic() < end, f"never true: {script}; {browser.log('browser')}"
        time.sleep(0.05)


def written(browser: Browser) -> Any:
    until(browser, "!document.body.classList.contains('writing') && tokens.length")
    return browser.run("return tokens.map((one) => one.token)")


def on_the_microcontroller(folder: Path) -> list[int]:
    package: Package = generate(SHAKESPEARE, load_board("nucleo-h743zi"), OPTIONS, folder)
    made: list[int] = []
    prompt = load_tokenizer(folder).encode(PROMPT)
    run_tokens(folder, package, package.board.emulators[0], prompt, COUNT, 120.0, made.append)
    return made


@pytest.mark.emulator
def test_the_page_writes_what_the_microcontroller_writes(browser: Browser, page: Path, tmp_path: Path) -> None:
    browser.open(page)
    expected = on_the_microcontroller(tmp_path / "h743")
    assert len(expected) == COUNT
    assert written(browser) == expected
    text = browser.run("return document.getElementById('paper').textContent")
    assert text == PROMPT + load_tokenizer(tmp_path / "h743").decode(expected)
    until(browser, "document.getElementById('verdict').className")
    assert browser.run("return document.getElementById('verdict').textContent") == "✓ equal"
    assert browser.log("browser") == []
    assert browser.requests() == [page.resolve().as_uri()]  # and nothing of the network


def test_a_calibrated_model_with_int8_states_has_its_bits(browser: Browser, tmp_path: Path) -> None:
    """Compared by the page itself, with the digest of the reference's answers."""
    options = replace(
        parse_recipe("w3g64za8+o5:attention=w4a16:head=w4a8:kv=int8:context=112:drop=2.3:merge=3.7-1@0.033"),
        calibration=Calibration(limit=256, rounding=Rounding.NEAREST),
    )
    generate(SHAKESPEARE, load_board("wasm32-simd128"), options, tmp_path / "package")
    export(tmp_path / "package", "page", Label(prompts=(PROMPT,)), tmp_path / "page")
    browser.open(tmp_path / "page/index.html")
    assert len(written(browser)) == COUNT
    until(browser, "document.getElementById('verdict').className")
    assert browser.run("return document.getElementById('verdict').textContent") == "✓ equal"
    assert browser.log("browser") == []


def test_other_bits_are_seen(browser: Browser, page: Path, saved: Callable[[str], Path]) -> None:
    text = page.read_text(encoding="utf-8")
    digest = text.split('"digest":"')[1][:64]
    browser.open(saved(text.replace(digest, "0" * 64)))
    until(browser, "document.getElementById('verdict').className")
    assert browser.run("return document.getElementById('verdict').textContent") == "✗ different"
    assert "the reference has 0000000000000000" in browser.run("return document.getElementById('proof').textContent")


def test_a_module_that_the_browser_does_not_take(browser: Browser, page: Path, saved: Callable[[str], Path]) -> None:
    text = page.read_text(encoding="utf-8")
    module = text.split('id="module">')[1].split("<")[0]
    browser.open(saved(text.replace(module, module[:4000])))
    until(browser, "document.getElementById('verdict').className")
    assert browser.run("return document.getElementById('verdict').textContent") == "✗ failed"
    assert "WebAssembly" in browser.run("return document.getElementById('about').textContent")
    assert not browser.run("return document.body.classList.contains('writing')")


def test_hands_on_the_keyboard(browser: Browser, page: Path) -> None:
    browser.open(page, dark=True)
    first = written(browser)
    browser.run("document.getElementById('prompt').focus(); document.getElementById('prompt').value = 'ROMEO:'")
    browser.press("Enter")
    assert written(browser) != first
    assert browser.run("return document.getElementById('begin').textContent") == "ROMEO:"
    browser.run("document.getElementById('prompt').blur()")
    browser.press("ArrowLeft", "ArrowLeft")
    assert browser.run("return document.getElementById('about').textContent") == f"Token {COUNT - 1} of {COUNT}."
    parts = browser.run("return tokens[tokens.length - 2].choices.map((one) => one.part)")
    assert parts == sorted(parts, reverse=True)
    assert 0 < sum(parts) <= 1
    assert browser.run("return document.querySelectorAll('#choices .taken').length") == 1
    colour = "return getComputedStyle(document.body).backgroundColor"
    dark = browser.run(colour)
    browser.run("document.getElementById('theme').click()")
    assert browser.run(colour) != dark


def test_a_prompt_that_cannot_be_written_on(browser: Browser, page: Path) -> None:
    browser.open(page)
    written(browser)
    for prompt, why in (("", "type how it begins"), ("x" * 300, "300 tokens, and 112 fit")):
        browser.run("document.getElementById('prompt').value = arguments[0]", prompt)
        browser.run("document.getElementById('form').requestSubmit()")
        until(browser, f"document.getElementById('about').textContent.includes('{why}')")
        assert browser.run("return tokens.length") == 0
        assert browser.run("return document.getElementById('write').textContent") == "Write"
    assert browser.log("browser") == []
