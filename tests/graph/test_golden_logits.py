"""The fp32 graph against the outputs of the original models."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from small_models import DECODERS, ENCODERS, ORACLE, SENSORS, SHAKESPEARE, VARIANTS, load_graph, sensor

from colibri.graph.interpret import Reference, Route, Run
from colibri.graph.ops import GroupedRouter, Router, SparseMixer

LOGIT_TOLERANCE = 1e-4
# docs/checkpoints.md states how many originals there are, and what was seen of the example and of the others.
PAGE = " ".join((ORACLE.parents[1] / "docs/checkpoints.md").read_text(encoding="utf-8").split())
SEEN = re.search(r"has (\d+) of language mod.*worst seen: ([\d.e-]+), of the example; ([\d.e-]+) of the others", PAGE)
assert SEEN
SEEN_OF_EXAMPLE, SEEN_OF_OTHERS = float(SEEN[2]), float(SEEN[3])
PREDICTION_TOLERANCE = 1e-5


def cases(golden: np.lib.npyio.NpzFile) -> list[int]:
    return sorted(int(name.removeprefix("input_ids_")) for name in golden if name.startswith("input_ids_"))


def greedy(reference: Reference, prompt: np.ndarray, count: int) -> list[int]:
    """Continue by single steps, the way a board does it."""
    reference.reset()
    logits = reference.extend(prompt)[0]
    made = [int(np.argmax(logits))]
    while len(made) < count:
        logits = reference.extend(np.array(made[-1:]))[0]
        made.append(int(np.argmax(logits)))
    return made


@pytest.fixture(scope="module")
def shakespeare() -> Reference:
    return Reference(load_graph(SHAKESPEARE))


def test_as_many_originals_as_the_page_says_and_all_within_the_tolerance() -> None:
    assert SEEN is not None
    files = {path.parent for path in ORACLE.rglob("golden.npz")} - {ORACLE / "load-moe" / name for name in SENSORS}
    tested = {"shakespeare-moe", *DECODERS, *ENCODERS, *(f"variants/{name}" for name in VARIANTS)}
    assert {str(folder.relative_to(ORACLE)) for folder in files} == tested
    assert len(files) == int(SEEN[1])
    assert SEEN_OF_OTHERS < SEEN_OF_EXAMPLE < LOGIT_TOLERANCE


def test_shakespeare_logits_at_every_position(shakespeare: Reference) -> None:
    golden = np.load(ORACLE / "shakespeare-moe" / "golden.npz")
    lengths = []
    for case in cases(golden):
        ids = golden[f"input_ids_{case}"]
        shakespeare.reset()
        logits = shakespeare.extend(ids, all_rows=True)[0]
        assert logits.shape == golden[f"logits_{case}"].shape
        assert np.max(np.abs(logits - golden[f"logits_{case}"])) <= SEEN_OF_EXAMPLE
        lengths.append(ids.size)
    assert lengths == [1, 2, 16, 64, 200]


def test_shakespeare_continues_with_the_same_100_tokens(shakespeare: Reference) -> None:
    golden = np.load(ORACLE / "shakespeare-moe" / "golden.npz")
    prompt, whole = golden["greedy_prompt"], golden["greedy_out"]
    assert whole[: prompt.size].tolist() == prompt.tolist() and whole.size == prompt.size + 100
    assert greedy(shakespeare, prompt, 100) == whole[prompt.size :].tolist()


@pytest.mark.parametrize("name", DECODERS)
def test_logits_and_greedy_tokens(name: str) -> None:
    golden = np.load(ORACLE / name / "golden.npz")
    reference = Reference(load_graph(ORACLE / name))
    for case in cases(golden):
        ids = golden[f"input_ids_{case}"]
        reference.reset()
        logits = reference.extend(ids, all_rows=True)[0]
        assert np.max(np.abs(logits - golden[f"logits_{case}"])) <= SEEN_OF_OTHERS
        if ids.size + 15 <= reference.graph.context:
            wanted = golden[f"greedy_{case}"].tolist()
            assert greedy(reference, ids, len(wanted)) == wanted


@pytest.mark.parametrize("name", VARIANTS)
def test_variants_that_files_have(name: str) -> None:
    """Checkpoints of ci/oracles."""
    golden = np.load(ORACLE / "variants" / name / "golden.npz")
    longest = 32 if name.endswith("longrope") else None  # behind it the original takes other frequencies
    reference = Reference(load_graph(ORACLE / "variants" / name, context=longest))
    assert len(cases(golden)) == 4
    for case in cases(golden):
        ids, wanted = golden[f"input_ids_{case}"], golden[f"greedy_{case}"].tolist()
        reference.reset()
        logits = reference.extend(ids, all_rows=True)[0]
        assert np.max(np.abs(logits - golden[f"logits_{case}"])) <= SEEN_OF_OTHERS
        if ids.size + len(wanted) <= reference.graph.context:
            assert greedy(reference, ids, len(wanted)) == wanted


def recorded(choose: Callable[[Any, Run], None], routes: dict[int | None, Route]) -> Callable[[Any, Run], None]:
    """What a router chose, by layer."""

    def choose_and_tell(router: Router | GroupedRouter | SparseMixer, run: Run) -> None:
        choose(router, run)
        routes[router.layer] = run.routes[router.route]

    return choose_and_tell


@pytest.mark.parametrize("name", [name for name in DECODERS if not name.startswith(("llama", "qwen2-"))])
def test_every_router_chooses_the_same_experts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    golden = np.load(ORACLE / name / "golden.npz")
    case = cases(golden)[-1]
    routes: dict[int | None, Route] = {}
    # The experts' matrices have taken it in.
    scale = json.loads((ORACLE / name / "config.json").read_text()).get("routed_scaling_factor", 1.0)
    for kind in (Router, GroupedRouter, SparseMixer):
        monkeypatch.setattr(kind, "reference", recorded(kind.reference, routes))
    Reference(load_graph(ORACLE / name)).extend(golden[f"input_ids_{case}"], all_rows=True)
    stored = {key.rpartition("/")[0] for key in golden if key.startswith(f"router_{case}/")}
    assert len(stored) == len(routes) >= 1
    for prefix in stored:
        route = routes[int(re.findall(r"layers\.(\d+)\.", prefix)[0])]
        order = np.argsort(golden[f"{prefix}/indices"], axis=1)
        assert np.array_equal(route.index, np.take_along_axis(golden[f"{prefix}/indices"], order, axis=1))
        weights = np.take_along_axis(golden[f"{prefix}/weights"], order, axis=1)
        assert np.allclose(route.weight * np.float32(scale), weights, atol=1e-5, rtol=0)


def test_the_sliding_window_is_shorter_than_the_longest_golden_prompt() -> None:
    graph = load_graph(ORACLE / "mixtral-sharded-swa")
    golden = np.load(ORACLE / "mixtral-sharded-swa" / "golden.npz")
    assert {state.capacity for state in graph.states.values()} == {16}
    assert max(golden[f"input_ids_{case}"].size for case in cases(golden)) == 80


def test_fused_experts_on_disk_are_the_same_graph() -> None:
    listed, fused = load_graph(ORACLE / "mixtral-base"), load_graph(ORACLE / "mixtral-fused-disk")
    assert listed.ops == fused.ops and list(listed.weights) == list(fused.weights)
    ids = np.arange(20) * 7 % 160
    assert np.array_equal(Reference(listed).extend(ids, all_rows=True), Reference(fused).extend(ids, all_rows=True))


@pytest.mark.parametrize("name", SENSORS)
def test_sensor_predictions_and_routes(name: str) -> None:
    golden = np.load(ORACLE / "load-moe" / name / "golden.npz")
    reference = Reference(load_graph(sensor(name)))
    predictions = reference.forward(golden["x"])
    assert predictions.shape == (792, 2)
    assert np.max(np.abs(predictions - golden["pred"])) <= PREDICTION_TOLERANCE
    assert reference.last is not None
    route = reference.last.routes["route"]
    order = np.argsort(golden["topk_indices"], axis=1)
    assert np.array_equal(route.index, np.take_along_axis(golden["topk_indices"], order, axis=1))
    assert np.allclose(route.weight, np.take_along_axis(golden["topk_weights"], order, axis=1), atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", SENSORS)
def test_sensor_rows_are_independent(name: str) -> None:
    golden = np.load(ORACLE / "load-moe" / name / "golden.npz")
    reference = Reference(load_graph(sensor(name)))
    together = reference.forward(golden["x"][:40])
    alone = np.concatenate([reference.forward(golden["x"][i : i + 1]) for i in range(40)])
    assert np.array_equal(together, alone)
