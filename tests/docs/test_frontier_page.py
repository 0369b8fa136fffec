"""ci/frontier and ci/outlier-model: what they compute, and that the page has the bars that it claims."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import re
import sys
import xml.etree.ElementTree
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from small_models import SHAKESPEARE

from colibri.checkpoint.checkpoint import Checkpoint
from colibri.generate import build_graph
from colibri.graph.interpret import Reference
from colibri.graph.scheme import Scheme
from colibri.options import Options

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/frontier.md").read_text(encoding="utf-8")


def load_script(name: str) -> ModuleType:
    """A script as a module; it has no .py at its end."""
    loader = importlib.machinery.SourceFileLoader(f"ci_{name.replace('-', '_')}", str(ROOT / "ci" / name))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[loader.name] = module  # dataclasses look their module up
    write, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = write
    return module


frontier = load_script("frontier")
frontier_plot = sys.modules["frontier_plot"]
outlier_model = load_script("outlier-model")


def point(name: str, size: int, lost: float) -> object:
    return frontier.Point(name, size, lost, 0.0, 1.0)


def test_what_is_not_reached_is_named() -> None:
    mine = [point("a", 100, 0.01), point("b", 50, 0.1)]
    text = "For each point of llama.cpp{} there is a recipe that takes no more bytes and loses no more nats. "
    assert frontier.beaten(mine, [point("x", 100, 0.01), point("y", 60, 0.2)]).startswith(text.format(""))
    assert frontier.beaten(mine, [point("x", 99, 0.05)]).startswith(text.format(" but x"))
    far, near = frontier.Point("a", 50, 0.1, 0.02, 1.0), frontier.Point("z", 60, 0.2, 0.01, 1.0)
    assert frontier.beaten([far], [near]).endswith("For each but z there is one whose KL is no larger either.\n")


def test_bars_have_the_recipe_nearest_to_fp32() -> None:
    mine = [frontier.Point(name, size, 0.01, kl, 1.0) for name, size, kl in (("a", 50, 0.2), ("b", 60, 0.1))]
    assert [one and one.name for one in frontier.within(mine, [(60, 0.01), (59, 0.01), (60, 0.009)])] == [
        "b",
        "a",
        None,
    ]
    assert "| 60 | 0.0090 | none | | | |\n" in frontier.bars_table(mine, [(60, 0.009)])


def test_what_is_kept_is_not_measured_again(tmp_path: Path) -> None:
    path = tmp_path / "points.json"
    assert frontier.Kept(path).points("m", lambda: [point("a", 1, 2.0)]) == [point("a", 1, 2.0)]
    assert frontier.Kept(path).points("m", lambda: pytest.fail("measured again")) == [point("a", 1, 2.0)]


def test_the_plot_is_a_picture_with_every_point() -> None:
    series = [
        frontier.Series("Colibri", [("a<b", 1_000_000, 0.01)]),
        frontier.Series("llama.cpp", [("x", 1_500_000, -1.0)]),
    ]
    picture = xml.etree.ElementTree.fromstring(frontier.draw([frontier.Plot("one", "lost", series, 1e-4)] * 3))
    texts = [element.text for element in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert texts.count("a<b") == texts.count("x") == 3


def test_outliers_cost_nothing_by_default(tmp_path: Path) -> None:
    """The divergence from fp32 over 24 tokens: of the plain model, with outliers, and with outliers not folded."""
    norms, largest = outlier_model.make(SHAKESPEARE, tmp_path / "outliers", channels=4, factor=30.0)
    assert norms == 9 and largest < outlier_model.ALLOWED
    text = np.load(ROOT / "tests/oracle/shakespeare-moe/val_tokens.npy")[:24]

    def logs(folder: Path, options: Options) -> np.ndarray:
        logits = (
            Reference(build_graph(Checkpoint.open(folder), options)).extend(text, all_rows=True)[0].astype(np.float64)
        )
        return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))

    exact = logs(SHAKESPEARE, Options(scheme=Scheme.F32))
    made = [
        logs(SHAKESPEARE, Options()),
        logs(tmp_path / "outliers", Options()),
        logs(tmp_path / "outliers", Options(folds={})),
    ]
    plain, folded, left = (float((np.exp(exact) * (exact - one)).sum(axis=1).mean()) for one in made)
    assert folded < 1.3 * plain
    assert left > 10 * plain


def test_the_default_loses_little_with_outliers() -> None:
    row = re.search(r"^\| w8a8 \| ([+-][\d.]+) \| ([+-][\d.]+) \| ([+-][\d.]+) \|$", PAGE, re.M)
    assert row is not None
    plain, left, folded = map(float, row.groups())
    assert plain < 0.005 and folded < 0.005 < left


def test_every_bar_is_met_and_llama_cpp_is_below_none() -> None:
    plain, outliers, _ = PAGE.split("\n## ")[-3:]
    for table in (plain, outliers):
        assert "For each point of llama.cpp there is a recipe that takes no more bytes and loses no more nats." in table
    for size, lost in filter(None, frontier.script("calibration").BARS.values()):
        row = re.search(rf"^\| {size:,} \| {lost:.4f} \| `.+` \| ([\d,]+) \| ([+-][\d.]+) \|", plain, re.M)
        assert row is not None
        assert int(row[1].replace(",", "")) <= size and float(row[2]) <= lost


def test_names_in_the_plot_do_not_lie_on_each_other() -> None:
    """Ten points in one place, and as many names: no two lines of text closer than their height where they overlap."""
    labels = frontier_plot._Labels((0, 0, 400, 300), [(200, 150)])
    texts = [labels.beside(200, 150, f"name {n}", "#000000", right=bool(n % 2))[-1] for n in range(10)]
    places = [re.search(r'x="([\d.]+)" y="([\d.]+)" text-anchor="(\w+)"', text) for text in texts]
    assert len({match.groups() for match in places if match}) == 10


def test_the_page_has_every_recipe_and_what_llama_cpp_falls_back_to() -> None:
    plain, outliers, _ = PAGE.split("\n## ")[-3:]
    for table, words in ((plain, frontier.RECIPES), (outliers, frontier.OUTLIER_RECIPES)):
        assert all(f"| **{word}** |" in table for word in words)
        assert re.search(r"^\| llama.cpp Q4_0 \| 1,391,168 \| .*21 Q4_0", table, re.M)
