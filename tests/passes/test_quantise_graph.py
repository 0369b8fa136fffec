"""Which weights and buffers a scheme converts, and how often."""

from __future__ import annotations

import numpy as np
import pytest
from small_models import ORACLE, SENSORS, load_graph, sensor

from colibri.graph.coding import WeightFormat
from colibri.graph.graph import BufferKind, Graph
from colibri.graph.interpret import Reference
from colibri.graph.ops import Embedding, Experts, Linear, Quantise, RmsNorm, Router
from colibri.graph.scheme import SCHEMES, Scheme
from colibri.graph.weights import Vector

QUANTISED = [scheme for scheme in SCHEMES if scheme is not Scheme.F32]
FORM = {"w8": WeightFormat.W8, "w4": WeightFormat.W4}
KIND = {"a8": BufferKind.Q8, "a16": BufferKind.Q16}


def expected(scheme: Scheme) -> tuple[WeightFormat, BufferKind]:
    return FORM[str(scheme)[:2]], KIND[str(scheme)[2:]]


def format_of(graph: Graph, name: str) -> WeightFormat:
    form = graph.matrix(name).format
    assert graph.matrix(name).load().format is form
    return form


def test_f32_changes_nothing() -> None:
    graph = load_graph(ORACLE / "mixtral-base", Scheme.F32)
    assert not any(isinstance(op, Quantise) for op in graph.ops)
    assert {w.format for w in graph.weights.values() if not isinstance(w, Vector)} == {WeightFormat.F32}


@pytest.mark.parametrize("scheme", QUANTISED, ids=str)
def test_formats_of_a_mixtral(scheme: Scheme) -> None:
    graph, plain = load_graph(ORACLE / "mixtral-base", scheme), load_graph(ORACLE / "mixtral-base")
    form, kind = expected(scheme)
    for op in graph.ops:
        if isinstance(op, Router):
            assert format_of(graph, op.weight) is WeightFormat.F32 and op.x == "normed"
            weight, old = graph.matrix(op.weight).load(), plain.matrix(op.weight).load()
            assert weight.dense is not None and old.dense is not None and np.array_equal(weight.dense, old.dense)
        elif isinstance(op, Experts):
            assert {format_of(graph, name) for slots in op.experts() for name in slots.values()} == {form}
            assert (op.input_kind, op.hidden_kind) == (kind, kind)
        elif isinstance(op, Linear):
            assert format_of(graph, op.weight) is form and op.input_kind is kind
        elif isinstance(op, Embedding):
            assert format_of(graph, op.table) is form
        elif isinstance(op, RmsNorm):
            norm = graph.weights[op.weight]
            assert isinstance(norm, Vector) and norm.values.dtype == np.float32


@pytest.mark.parametrize("scheme", QUANTISED, ids=str)
def test_each_buffer_is_quantised_once_for_all_its_readers(scheme: Scheme) -> None:
    graph = load_graph(ORACLE / "mixtral-base", scheme)
    layer = [op for op in graph.ops if op.layer == 0]
    made = [(op.x, op.out) for op in layer if isinstance(op, Quantise)]
    # for q, k and v; for o; for every expert's gate and up
    kind = expected(scheme)[1]
    assert made == [(name, f"{name}_{kind}") for name in ("normed", "attended", "normed")]
    readers = [op.slot for op in layer if isinstance(op, Linear) and op.x == f"normed_{kind}"]
    assert readers == ["q", "k", "v"]


@pytest.mark.parametrize("scheme", QUANTISED, ids=str)
def test_a_quantised_buffer_is_never_stale(scheme: Scheme) -> None:
    """Between a `Quantise` and each of its readers, nothing writes the source."""
    for path in (ORACLE / "mixtral-base", ORACLE / "mixtral-sharded-swa", sensor("top2-e4-norm")):
        fresh: dict[str, str] = {}
        for op in load_graph(path, scheme).ops:
            for name in op.reads():
                assert not name.endswith(("_q8", "_q16")) or name in fresh, (op, name)
            fresh = {out: source for out, source in fresh.items() if source not in op.writes()}
            if isinstance(op, Quantise):
                fresh[op.out] = op.x


@pytest.mark.parametrize("name", SENSORS)
@pytest.mark.parametrize("scheme", QUANTISED, ids=str)
def test_first_and_last_layer_of_a_sensor_model_stay_fp32(name: str, scheme: Scheme) -> None:
    graph = load_graph(sensor(name), scheme)
    form, _ = expected(scheme)
    assert {key for key in graph.weights if format_of(graph, key) is WeightFormat.F32} == {
        "inp",
        "out",
        "layers.0.router",
    }
    assert {format_of(graph, key) for key in graph.weights if "experts" in key} == {form}
    assert [op.x for op in graph.ops if isinstance(op, Quantise)] == ["z"]
    linear = [op for op in graph.ops if isinstance(op, Linear)]
    assert len(linear) == 2 and all(op.keep_float and op.input_kind is BufferKind.FLOAT for op in linear)


@pytest.mark.parametrize("scheme", QUANTISED, ids=str)
def test_limits_follow_from_the_columns_of_each_op(scheme: Scheme) -> None:
    graph = load_graph(ORACLE / "mixtral-base", scheme)
    largest = 127 if str(scheme)[:2] == "w8" else 8 * 127
    most = 127 if str(scheme)[2:] == "a8" else 32767

    def limit(k: int) -> int:
        return min(most, (2**31 - 1) // (largest * k))

    assert {op.qmax for op in graph.ops if isinstance(op, Quantise)} == {limit(32)}
    assert {op.hidden_qmax for op in graph.ops if isinstance(op, Experts)} == {limit(48)}


@pytest.mark.parametrize("scheme", QUANTISED, ids=str)
def test_quantisation_moves_the_logits_but_little(scheme: Scheme) -> None:
    ids = np.arange(24) * 11 % 160
    exact = Reference(load_graph(ORACLE / "mixtral-base")).extend(ids, all_rows=True)
    logits = Reference(load_graph(ORACLE / "mixtral-base", scheme)).extend(ids, all_rows=True)
    relative = np.sqrt(np.mean((logits - exact) ** 2) / np.mean(exact**2))
    assert 0 < relative < (0.05 if str(scheme)[:2] == "w8" else 0.5)


def test_int8_and_int16_activations_differ_and_16_is_nearer() -> None:
    ids = np.arange(24) * 5 % 160
    exact = Reference(load_graph(ORACLE / "mixtral-base")).extend(ids, all_rows=True)
    error = {
        scheme: np.abs(Reference(load_graph(ORACLE / "mixtral-base", scheme)).extend(ids, all_rows=True) - exact).mean()
        for scheme in (Scheme.W8A8, Scheme.W8A16)
    }
    assert error[Scheme.W8A16] < error[Scheme.W8A8]
