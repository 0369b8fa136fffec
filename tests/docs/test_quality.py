"""ci/quality and docs/quality.md: the bars hold, and the page shows what the script measures."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from colibri.graph.graph import StateType
from colibri.graph.scheme import SCHEMES, Scheme

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/quality.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")


def load_script() -> ModuleType:
    """The script as a module; it has no .py at its end."""
    loader = importlib.machinery.SourceFileLoader("ci_quality", str(ROOT / "ci/quality"))
    spec = importlib.util.spec_from_loader("ci_quality", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["ci_quality"] = module  # dataclasses look their module up
    write = sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    try:
        loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = write
    return module


quality = load_script()
FIRST = 16  # windows of the fast tests
FIRST_FP32 = 2.4228  # nats over these in f32; the text differs from window to window


def test_f32_agrees_with_the_original_model() -> None:
    found = quality.measure_agreement()
    assert found.positions == 283 and found.largest < 1e-4
    assert found.generated == 100 and found.equal == 100
    assert quality.agreement_text(found) in PAGE


def test_nats_over_the_first_windows() -> None:
    """Twice the bars, since a tenth of the text scatters more than all of it."""
    most = {
        (Scheme.F32, StateType.F16): 0.0005,
        (Scheme.F32, StateType.I8): 0.005,
        (Scheme.W8A16, StateType.F32): 0.006,
        (Scheme.W4A16, StateType.F32): 0.040,
    }
    for row in quality.measure_nats(list(most), FIRST):
        assert row.nats - row.lost == pytest.approx(FIRST_FP32, abs=1e-4)
        assert abs(row.lost) < most[row.scheme, row.kv]


def test_nats_over_all_windows() -> None:
    bars = {Scheme.F32: 0.0005, Scheme.W8A8: 0.003, Scheme.W4A8: 0.020}
    found = quality.measure_nats([(scheme, StateType.F32) for scheme in bars])
    assert [row.scheme for row in found] == list(bars)
    for row in found:
        assert abs(row.lost) < bars[row.scheme] and quality.is_trained(row)
    assert set(quality.nats_table(found).splitlines()[2:]) <= set(PAGE.splitlines())


def test_mae_of_sensor_models() -> None:
    """All schemes of one, and of the others those that have a bar."""
    rows = quality.measure_mae("top1-e4", SCHEMES)
    for model in ("top1-e3-tiny", "top2-e4-norm"):
        rows += quality.measure_mae(model, (Scheme.W8A8, Scheme.W8A16))
    assert set(quality.mae_table(rows).splitlines()) <= set(PAGE.splitlines())
    for row in rows:
        if row.scheme is Scheme.F32:
            assert abs(row.mean_loss) < 0.001
        elif row.scheme in (Scheme.W8A8, Scheme.W8A16):
            assert row.mean_loss < 0.5
            assert max(row.loss(0), row.loss(1)) < (0.65 if row.scheme is Scheme.W8A8 else 0.5)


def test_accuracy_of_the_classifier() -> None:
    rows = quality.measure_accuracy((Scheme.W8A8, Scheme.W8A16))
    assert set(quality.accuracy_table(rows).splitlines()) <= set(PAGE.splitlines())
    for row in rows:
        assert row.right > 96 and row.lost < quality.ACCURACY_BAR and row.same > 99


def test_the_page_has_every_scheme_within_its_bar() -> None:
    assert {scheme for scheme, _ in quality.NATS_ROWS} == set(SCHEMES)
    assert (Scheme.W4A8, StateType.F16) in quality.NATS_ROWS
    for scheme, kv in quality.NATS_ROWS:
        row = re.search(rf"^\| {scheme} \| {kv} \| [\d.]+ \| ([+-][\d.]+) \| ([\d.]+) \|$", PAGE, re.M)
        assert row is not None
        assert float(row[1]) < float(row[2]) == quality.NATS_BAR[scheme]


def test_what_is_lost_is_not_rounded_before_it_is_subtracted() -> None:
    """2.72549 above 2.72476 are 0.0007, not what is between 2.7255 and 2.7247 or between both rounded."""
    row = quality.Nats(Scheme.W8A8, StateType.F32, 2.72549, 2.72549 - 2.72476)
    assert "| w8a8 | f32 | 2.7255 | +0.0007 | 0.0030 |" in quality.nats_table([row])
    assert quality.is_trained(row)
    assert not quality.is_trained(quality.Nats(Scheme.W8A8, StateType.F32, 2.7255, 0.0))


def test_the_readme_quotes_the_page() -> None:
    quoted = re.search(
        r"([\d,]+) tokens of held-out text: ([\d.]+) nats a token in fp32,\s([\d.]+) in `w8a8`, ([\d.]+) in `w4a8`",
        README,
    )
    assert quoted is not None
    assert int(quoted[1].replace(",", "")) == quality.WINDOW * quality.WINDOWS
    for scheme, figure in zip((Scheme.F32, Scheme.W8A8, Scheme.W4A8), quoted.groups()[1:], strict=True):
        assert f"| {scheme} | f32 | {figure} |" in PAGE
