"""Statistics of what each matrix is multiplied with."""

from __future__ import annotations

import numpy as np
import pytest
from small_models import load_graph, write_mixtral, write_sensor

from colibri.calibrate.collect import collect
from colibri.calibrate.data import CalibrationData
from colibri.calibrate.statistics import mean_product, mean_row
from colibri.calibrate.wide import wide_copy
from colibri.errors import BadInput
from colibri.graph.interpret import Reference
from colibri.graph.ops import Experts


def test_moments_are_those_of_the_rows() -> None:
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((100, 6)).astype(np.float32) * np.float32(37)
    other = rng.standard_normal((100, 6)).astype(np.float32)
    wide, narrow = rows.astype(np.float64), other.astype(np.float64)
    assert np.abs(mean_product(rows, other) - wide.T @ narrow / 100).max() < 37 * 2e-4
    assert np.abs(mean_row(rows) - wide.mean(axis=0)).max() < 37 * 2e-4
    assert not mean_product(rows[:0], other[:0]).any()


def test_experts_count_their_own_tokens(tmp_path_factory: pytest.TempPathFactory) -> None:
    graph = load_graph(write_mixtral(tmp_path_factory.mktemp("m") / "m"), context=16)
    windows = np.arange(64).reshape(4, 16) * 7 % 40
    found = collect(graph, CalibrationData(windows=windows))
    op = next(op for op in graph.ops if isinstance(op, Experts))
    counts = [found.moments[expert.up].rows if expert.up in found.moments else 0 for expert in op.kept]
    assert sum(counts) == windows.size * op.top_k
    assert found.rows == windows.size
    one = found.moments[op.kept[0].up]
    assert one is not found.moments[op.kept[0].down]
    assert one.second is found.moments[op.kept[0].gate].second  # type: ignore[index]
    assert one.second is not None
    np.testing.assert_array_equal(one.second.diagonal(), one.square)
    np.testing.assert_array_equal(one.second, one.second.T)
    assert (np.abs(one.mean) <= one.largest).all()
    assert all(op.weight not in collect(graph, CalibrationData(windows=windows), []).moments for op in graph.ops[:0])


def test_batches_add_up(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = load_graph(write_mixtral(tmp_path_factory.mktemp("m") / "m"), context=16)
    data = CalibrationData(windows=np.arange(64).reshape(4, 16) * 7 % 40)
    whole = collect(graph, data)
    monkeypatch.setattr("colibri.calibrate.collect._ROWS", 16)
    pieces = collect(graph, data)
    for name, moments in whole.moments.items():
        other = pieces.moments[name]
        assert other.rows == moments.rows
        np.testing.assert_allclose(other.square, moments.square, rtol=1e-3, atol=1e-7)


def test_a_wide_copy_is_near_to_fp32(tmp_path_factory: pytest.TempPathFactory) -> None:
    graph = load_graph(write_mixtral(tmp_path_factory.mktemp("m") / "m"), context=16)
    tokens = np.arange(16) * 7 % 40
    there = Reference(wide_copy(graph)).extend(tokens, all_rows=True)
    here = Reference(graph).extend(tokens, all_rows=True)
    assert np.abs(there - here).max() < 2e-3 * np.abs(here).max()
    assert all(not hasattr(op, "qmax") for op in graph.ops)


def test_data_on_which_the_model_overflows(tmp_path_factory: pytest.TempPathFactory) -> None:
    graph = load_graph(write_sensor(tmp_path_factory.mktemp("s") / "s"))
    with pytest.raises(BadInput, match="calibration data: the model overflows on it"):
        collect(graph, CalibrationData(samples=np.full((2, 5), 3e38, np.float32)))
