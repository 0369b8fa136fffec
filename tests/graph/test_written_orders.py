"""The ops whose order a tolerance cannot see, one float operation at a time in the written order: equal bits."""

from __future__ import annotations

import numpy as np
import pytest
from small_models import integer_matrix

from colibri.graph.coding import F32, FP4, GROUP, W4, W8, Coding
from colibri.graph.float32 import exp, silu, to_f16
from colibri.graph.graph import BufferKind, Graph, ModelKind, StateType
from colibri.graph.interpret import Quantised, Reference, Route, Run, product
from colibri.graph.ops import Attention, Embedding, Experts, RmsNorm, Router
from colibri.graph.ops.experts import ExpertWeights
from colibri.graph.weights import Matrix, Vector

F = np.float32


def bits(values: np.ndarray) -> list[int]:
    return np.asarray(values, F).reshape(-1).view(np.uint32).tolist()


def empty_run(rows: int, position: int = 0) -> Run:
    graph = Graph("test", ModelKind.TOKENS, 0, 8, 64, "")
    return Run(graph, 1, rows, position, True, Reference(graph).states)


def tree(lanes: list[np.float32]) -> np.float32:
    for half in (4, 2, 1):
        lanes = [F(lanes[i] + lanes[i + half]) for i in range(half)]
    return lanes[0]


def attend(q: np.ndarray, keys: dict[int, np.ndarray], values: dict[int, np.ndarray], scale: np.float32) -> np.ndarray:
    """One head of one row; keys and values by absolute position."""
    scores = {}
    for position, key in keys.items():
        lanes = [F(0)] * 8
        for i in range(q.size):
            lanes[i % 8] = F(lanes[i % 8] + F(q[i] * key[i]))
        scores[position] = F(tree(lanes) * scale)
    top = max(scores.values())
    lanes, total = [F(0)] * 8, [F(0)] * q.size
    for position in sorted(scores):
        term = exp(np.array([F(scores[position] - top)], F))[0]
        lanes[position % 8] = F(lanes[position % 8] + term)
        total = [F(total[i] + F(term * values[position][i])) for i in range(q.size)]
    inverse = F(F(1) / tree(lanes))
    return np.array([F(sum_ * inverse) for sum_ in total], F)


@pytest.mark.parametrize("state_type", [StateType.F32, StateType.F16])
@pytest.mark.parametrize(("window", "capacity"), [(0, 32), (5, 5), (11, 11)])
def test_attention(window: int, capacity: int, state_type: StateType) -> None:
    rows, heads, kv_heads, dim, calls = 7, 4, 2, 6, 4
    rng = np.random.default_rng(window)
    names = ("q", "k", "v", "out", "key", "value")
    op = Attention(0, "", *names, heads, kv_heads, dim, capacity, window, float(F(0.4)), state_type)
    element = F if state_type is StateType.F32 else np.float16
    states = {name: np.zeros((1, capacity, kv_heads * dim), element) for name in ("key", "value")}
    keys: list[np.ndarray] = []
    values: list[np.ndarray] = []
    for call in range(calls):
        run = empty_run(rows, call * rows)
        run.states = states
        run.floats = {name: rng.standard_normal((rows, heads * dim)).astype(F) for name in "q"}
        run.floats |= {name: rng.standard_normal((rows, kv_heads * dim)).astype(F) for name in "kv"}
        op.reference(run)
        for row in range(rows):
            for stored, name in ((keys, "k"), (values, "v")):
                fresh = run.floats[name][row]
                stored.append(
                    (to_f16(fresh).astype(F) if state_type is StateType.F16 else fresh).reshape(kv_heads, dim)
                )
            now = call * rows + row
            seen = range(max(0, now - window + 1) if window else 0, now + 1)
            for head in range(heads):
                shared = head * kv_heads // heads
                want = attend(
                    run.floats["q"][row].reshape(heads, dim)[head],
                    {position: keys[position][shared] for position in seen},
                    {position: values[position][shared] for position in seen},
                    F(0.4),
                )
                assert bits(run.floats["out"][row].reshape(heads, dim)[head]) == bits(want)


def experts_run(down: list[np.ndarray], index: list[int], weight: list[float]) -> np.ndarray:
    """One row through plain experts whose first layer is the identity of width 2."""
    run = empty_run(1)
    kept = []
    for number, matrix in enumerate(down):
        run.graph.weights[f"up{number}"] = Matrix(F32, (2, 2), dense=np.eye(2, dtype=F))
        run.graph.weights[f"down{number}"] = Matrix(F32, (2, 2), dense=matrix.astype(F))
        kept.append(ExpertWeights(number, None, f"up{number}", f"down{number}"))
    run.floats["x"] = np.ones((1, 2), F)
    run.routes["route"] = Route(np.array([index], np.int32), np.array([weight], F))
    Experts(0, "", "x", "route", "out", tuple(kept), len(index), 2, 2, "identity", False).reference(run)
    return run.floats["out"]


def test_experts_are_added_in_ascending_order() -> None:
    rng = np.random.default_rng(3)
    down = [rng.standard_normal((2, 2)) * 10.0**e for e in (0, 3, -2, 1)]
    weight = [0.3, 0.27, 0.23, 0.2]
    want = np.zeros(2, F)
    for number, matrix in enumerate(down):
        y = np.array([F(F(row[0]) + F(row[1])) for row in matrix.astype(F)], F)
        term = np.array([F(F(weight[number]) * value) for value in y], F)
        want = term if number == 0 else (want + term).astype(F)
    assert bits(experts_run(down, [0, 1, 2, 3], weight)) == bits(want)


def test_the_first_expert_is_assigned_and_not_added_to_zero() -> None:
    out = experts_run([np.eye(2), np.eye(2)], [1], [-0.0])
    assert bits(out) == [0x80000000, 0x80000000]


@pytest.mark.parametrize("renormalise", [False, True])
def test_router_weights(renormalise: bool) -> None:
    rng = np.random.default_rng(5)
    experts, width, k = 11, 6, 3
    run = empty_run(20)
    run.graph.weights["w"] = Matrix(F32, (experts, width), dense=rng.standard_normal((experts, width)).astype(F))
    run.floats["x"] = rng.standard_normal((20, width)).astype(F)
    Router(0, "", "x", "route", "w", experts, width, k, renormalise, False).reference(run)
    for row, route in enumerate(run.routes["route"].weight):
        scores = run.floats["router_scores"][row]
        chosen = run.routes["route"].index[row]
        terms = exp((scores - scores.max()).astype(F))
        if renormalise:
            total = terms[chosen[0]]
            for i in chosen[1:]:
                total = F(total + terms[i])
            weights = [F(terms[i] / total) for i in chosen]
        else:
            lanes = [F(0)] * 8
            for i, term in enumerate(terms):
                lanes[i % 8] = F(lanes[i % 8] + term)
            inverse = F(F(1) / tree(lanes))
            weights = [F(terms[i] * inverse) for i in chosen]
        assert bits(route) == bits(np.array(weights, F))


def test_rms_norm() -> None:
    rng = np.random.default_rng(11)
    rows, width, eps = 6, 33, F(1e-5)
    run = empty_run(rows)
    weight = rng.standard_normal(width).astype(F)
    run.graph.weights["w"] = Vector(weight)
    run.floats["x"] = rng.standard_normal((rows, width)).astype(F)
    RmsNorm(0, "", "norm", "x", "y", "w", width, float(eps)).reference(run)
    for x, y in zip(run.floats["x"], run.floats["y"], strict=True):
        lanes = [F(0)] * 8
        for i in range(width):
            lanes[i % 8] = F(lanes[i % 8] + F(x[i] * x[i]))
        mean = F(tree(lanes) / F(width))
        factor = F(F(1) / np.sqrt(F(mean + eps)))
        assert bits(y) == bits(np.array([F(F(x[i] * factor) * weight[i]) for i in range(width)], F))


def integer_weight(matrix: Matrix, row: int, column: int) -> int:
    """With its group's scale."""
    assert matrix.integers is not None
    scale = 1 if matrix.group_scale is None else int(matrix.group_scale[row, column // GROUP])
    return int(matrix.integers[row, column]) * (2**scale if matrix.coding == FP4 else scale)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("form", [W8, W4, FP4])
def test_scales_of_a_product(form: Coding, bias: bool) -> None:
    n, k = 9, 70
    matrix, rng = integer_matrix(form, n, k, np.random.default_rng(n * k), bias), np.random.default_rng(2)
    x = Quantised(rng.integers(-127, 128, (4, k)).astype(np.int32), rng.uniform(0.001, 0.01, 4).astype(F))
    assert matrix.row_scale is not None
    for row, got in enumerate(product(matrix, x)):
        for i in range(n):
            total = sum(integer_weight(matrix, i, j) * int(x.integers[row, j]) for j in range(k))
            want = F(F(F(total) * matrix.row_scale[i]) * x.scale[row])
            assert bits(got[i]) == bits(want if matrix.bias is None else F(want + matrix.bias[i]))


@pytest.mark.parametrize("form", [W8, W4, FP4])
def test_scales_of_an_embedding(form: Coding) -> None:
    n, k = 9, 70
    matrix, run = integer_matrix(form, n, k, np.random.default_rng(n * k)), empty_run(n)
    run.graph.weights["table"] = matrix
    run.tokens = np.arange(n, dtype=np.int32)[::-1]
    Embedding(None, "", "tokens", "out", "table", n, k).reference(run)
    assert matrix.row_scale is not None
    for token, got in zip(run.tokens, run.floats["out"], strict=True):
        want = [F(F(integer_weight(matrix, token, j)) * matrix.row_scale[token]) for j in range(k)]
        assert bits(got) == bits(np.array(want, F))


@pytest.mark.parametrize("form", [W8, W4, FP4])
def test_hidden_values_are_quantised_to_their_own_limit(form: Coding) -> None:
    """For each row, behind the activation and the product with up, before down."""
    width, inner, limit, weight = 40, 70, 101, F(0.3)
    rng, run = np.random.default_rng(6), empty_run(3)
    run.graph.weights.update(
        gate=integer_matrix(form, inner, width, rng),
        up=integer_matrix(form, inner, width, rng, True),
        down=integer_matrix(form, width, inner, rng, True),
    )
    x = Quantised(rng.integers(-127, 128, (3, width)).astype(np.int32), rng.uniform(1e-4, 1e-3, 3).astype(F))
    run.quantised["x"] = x
    run.routes["route"] = Route(np.zeros((3, 1), np.int32), np.full((3, 1), weight))
    kept = (ExpertWeights(0, "gate", "up", "down"),)
    kinds = (BufferKind.Q8, BufferKind.Q8, limit)
    Experts(0, "", "x", "route", "out", kept, 1, width, inner, "silu", True, *kinds).reference(run)
    hidden = silu(product(run.matrix("gate"), x)) * product(run.matrix("up"), x)
    top = np.abs(hidden).max(axis=1)
    integers = np.rint(hidden * (F(limit) / top)[:, None]).astype(np.int32)
    assert np.abs(integers).max(axis=1).tolist() == [limit] * 3
    want = weight * product(run.matrix("down"), Quantised(integers, top / F(limit)))
    assert bits(run.floats["out"]) == bits(want)
