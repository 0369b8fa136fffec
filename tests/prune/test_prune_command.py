"""`colibri prune`: what goes, what it says of it, and the recipe that does it."""

from __future__ import annotations

import json
import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from make_bad import CONFIG, tiny_mixtral, write_checkpoint
from small_models import (
    DECODERS,
    ENCODERS,
    ORACLE,
    SHAKESPEARE,
    load_graph,
    make_package,
    sensor,
    write_mixtral,
    write_sensor,
)

from colibri.checkpoint.checkpoint import Checkpoint
from colibri.cli import main
from colibri.evaluate.data import TokenData, Window
from colibri.generate import build_graph
from colibri.graph.scheme import Scheme
from colibri.passes.prune import spare_experts, without
from colibri.prune.trial import Trials, batches_of
from colibri.recipe import parse_recipe

TEXT = ORACLE / "shakespeare-moe/val_tokens.npy"
GOLDEN = ORACLE / "load-moe/top2-e4-norm/golden.npz"
IDS = np.random.default_rng(7).integers(0, 40, 61)
MIXTURES = [name for name in DECODERS if name not in ("llama-llama3rope-tied", "qwen2-swa")]


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    np.save(tmp_path / "tokens.npy", IDS)
    return tmp_path / "tokens.npy"


def pruned(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    code = main(["prune", *map(str, arguments), "--json"])
    said = capsys.readouterr()
    assert code == 0, said.err
    facts: dict[str, Any] = json.loads(said.out)
    return facts


def failed(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    code = main(["prune", *map(str, arguments)])
    said = capsys.readouterr()
    assert not said.out and said.err.startswith("colibri: ") and said.err.count("\n") == 1
    return code, said.err.removeprefix("colibri: ").rstrip()


def with_a_dead_expert(folder: Path, **changes: object) -> Path:
    """Experts 0, 1 and 2 of layer 1 score alike, so that of a top 2 the last of them is never chosen."""
    config = CONFIG | changes
    arrays = tiny_mixtral(config)
    rows = arrays["model.layers.1.block_sparse_moe.gate.weight"]
    rows[1], rows[2] = rows[0], rows[0]
    write_checkpoint(folder, config, arrays)
    return folder


@pytest.mark.parametrize("scheme", ["f32", "w8a8", "w4a8"])
def test_a_dead_expert_goes_and_no_bit_changes(
    scheme: str, tmp_path: Path, tokens: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, recipe = with_a_dead_expert(tmp_path / "m"), tmp_path / "dead.json"
    cut = ["--window", 12, "--recipe", scheme, "--no-eval"]
    facts = pruned(capsys, model, "--data", tokens, *cut, "--dead", "-o", recipe)
    assert [(step["layer"], step["id"], step["lost"]) for step in facts["steps"]] == [(1, 2, 0.0)]
    assert facts["proof"] == {"experts": [[1, 2]], "rows": 60, "equal": 60, "others": 0}
    assert facts["routing"] == 1 and facts["mass_removed"] == 0
    assert facts["kept"] == {"0": [0, 1, 2, 3], "1": [0, 1, 3]}
    before, after = facts["weight_bytes"]
    assert before - after > 3 * 16 * 24 / (2 if scheme == "w4a8" else 1)
    assert parse_recipe(str(recipe)).drop == {1: {2}}
    package = make_package(model, tmp_path / "p", "stm32f405", scheme=Scheme.parse(scheme), drop={1: {2}})
    assert abs(package.model_bin_bytes - after) < 32  # the name of the model is another


def test_the_dead_expert_of_the_example(capsys: pytest.CaptureFixture[str]) -> None:
    how = ["--window", "64", "--limit", "128", "--recipe", "w4a8", "--dead", "--no-eval"]
    assert main(["prune", str(SHAKESPEARE), "--data", str(TEXT), *how]) == 0
    out = capsys.readouterr().out
    assert "never chosen, so that nothing can be measured of them: 2.3, 3.3" in out
    assert "without 2.3, 3.3: outputs equal, bit for bit, on 128 tokens\n" in out
    assert "1,019,904 multiply-adds a token before, 1,019,648 after" in out


def test_what_is_not_dead_in_the_scheme_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Chosen from the second window on: what stands behind it is not compared."""
    from colibri.prune.proof import prove

    model = write_mixtral(tmp_path / "m")
    graph = load_graph(model, Scheme.W8A8)
    batches = batches_of(TokenData((Window(IDS[:20], IDS[1:21]), Window(IDS[20:40], IDS[21:41])), 20, 20, 0), 40)
    ran = Trials(graph, batches).base(graph)
    hit = (ran.routes[0][0] == 1).any(axis=1).reshape(2, 20)
    clean = sum(int(row.argmax()) if row.any() else 20 for row in hit)
    assert 0 < clean < 40
    proof = prove(graph, without(graph, {0: {1}}), {0: {1}}, batches, lambda done: None)
    assert (proof.rows, proof.equal, proof.others) == (clean, clean, 40 - clean)


def test_the_first_to_go_costs_least(tmp_path: Path, tokens: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = write_mixtral(tmp_path / "m")
    facts = pruned(capsys, model, "--data", tokens, "--window", 12, "--drop", 3, "--no-eval")
    graph = load_graph(model, Scheme.W8A16)
    windows = tuple(Window(IDS[at : at + 12], IDS[at + 1 : at + 13]) for at in range(0, 60, 12))
    trials = Trials(graph, batches_of(TokenData(windows, 12, 12, 0), 40))
    whole, gone = trials.base(graph).loss, list[tuple[int, int]]()
    assert facts["loss"] == pytest.approx(whole)
    for step in facts["steps"]:
        spare = [(layer, number) for layer, ids in spare_experts(graph).items() for number in ids]
        costs = {key: trials.without(without(graph, {key[0]: {key[1]}}), 0).loss for key in spare}
        if not gone:
            assert {(one["layer"], one["id"]): one["lost"] for one in facts["experts"]} == pytest.approx(
                {key: cost - whole for key, cost in costs.items()}, abs=1e-12
            )
            assert (step["layer"], step["id"]) == min(costs, key=lambda key: costs[key])
        gone.append((step["layer"], step["id"]))
        graph = without(graph, {step["layer"]: {step["id"]}})
        assert step["lost"] == pytest.approx(trials.base(graph).loss - whole, abs=1e-12)
    assert len(gone) == 3 and facts["measured"] >= 8


@pytest.mark.parametrize("order", ["error", "mass"])
def test_other_orders(order: str, tmp_path: Path, tokens: Path, capsys: pytest.CaptureFixture[str]) -> None:
    how = ["--window", 12, "--order", order, "--no-eval"]
    facts = pruned(capsys, write_mixtral(tmp_path / "m"), "--data", tokens, *how, "--keep", 3)
    field = "error" if order == "error" else "mass_share"
    by_layer = {layer: [one for one in facts["experts"] if one["layer"] == layer] for layer in (0, 1)}
    best = {layer: min(ones, key=lambda one: one[field])["id"] for layer, ones in by_layer.items()}
    assert {step["layer"]: step["id"] for step in facts["steps"]} == best
    assert [len(ids) for ids in facts["kept"].values()] == [3, 3]
    assert facts["routing"] < 1 and 0 < facts["mass_removed"] < 0.5


def test_budget_shares_and_loss(tmp_path: Path, tokens: Path, capsys: pytest.CaptureFixture[str]) -> None:
    how = [write_mixtral(tmp_path / "m"), "--data", tokens, "--window", 12, "--no-eval"]
    whole = pruned(capsys, *how)
    assert whole["steps"] == [] and whole["weight_bytes"][0] == whole["weight_bytes"][1] > whole["least"]
    budget = (whole["weight_bytes"][0] + whole["least"]) // 2
    facts = pruned(capsys, *how, "--bytes", budget)
    assert facts["steps"][-1]["weight_bytes"] <= budget < facts["steps"][-2]["weight_bytes"]
    assert facts["weight_bytes"][1] == facts["steps"][-1]["weight_bytes"]
    least = pruned(capsys, *how, "--bytes", whole["least"])
    assert least["kept"] and all(len(ids) == 2 for ids in least["kept"].values())
    shares = pruned(capsys, *how, "--max-mass", 15)
    assert all(
        one["mass_share"] <= 0.15 for one in shares["experts"] if one["id"] not in shares["kept"][str(one["layer"])]
    )
    assert shares["steps"]
    error = min(one["error"] for one in whole["experts"])
    assert len(pruned(capsys, *how, "--max-error", 100 * error + 1e-6)["steps"]) == 1
    cheap = pruned(capsys, *how, "--max-loss", 0)
    assert cheap["steps"] and cheap["steps"][-1]["lost"] <= 0


def test_merged_where_that_costs_less(tmp_path: Path, tokens: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = write_mixtral(tmp_path / "m")
    recipe = tmp_path / "merged.json"
    how = ["--window", 12, "--merge", "--drop", 4, "--no-eval", "-o", recipe]
    facts = pruned(capsys, model, "--data", tokens, *how)
    merged = [step for step in facts["steps"] if step["into"] is not None]
    options = parse_recipe(str(recipe))
    assert merged and [one.share for one in options.merges] == [step["share"] for step in merged]
    graph = build_graph(Checkpoint.open(model), replace(options, scheme=Scheme.W8A16))
    windows = tuple(Window(IDS[at : at + 12], IDS[at + 1 : at + 13]) for at in range(0, 60, 12))
    ran = Trials(graph, batches_of(TokenData(windows, 12, 12, 0), 40)).base(graph)
    assert ran.loss - facts["loss"] == pytest.approx(facts["steps"][-1]["lost"], abs=1e-12)


def test_the_data_of_a_calibrated_recipe_go_with_it(
    tmp_path: Path, tokens: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = with_a_dead_expert(tmp_path / "m")
    calibrated = ["--calibrate", str(tokens), "--rounding", "nearest"]
    assert main(["generate", str(model), "--board", "stm32f405", "-o", str(tmp_path / "p"), *calibrated]) == 0
    capsys.readouterr()
    (tmp_path / "out").mkdir()
    how = ["--window", 12, "--recipe", tmp_path / "p/recipe.json", "--dead", "--no-eval"]
    facts = pruned(capsys, model, "--data", tokens, *how, "-o", tmp_path / "out/dead.json")
    assert facts["proof"]["equal"] == facts["proof"]["rows"] == 60
    assert (tmp_path / "out/calibration.npz").read_bytes() == (tmp_path / "p/calibration.npz").read_bytes()
    graph = build_graph(Checkpoint.open(model), parse_recipe(str(tmp_path / "out/dead.json")))
    assert graph.expert_counts() == (4, 3)
    (tmp_path / "out/calibration.npz").write_bytes(b"others")
    code, said = failed(capsys, model, "--data", tokens, *how, "-o", tmp_path / "out/dead.json")
    assert code == 2 and "is calibration data of another recipe" in said
    (tmp_path / "out/calibration.npz").unlink()
    os.mkfifo(tmp_path / "out/calibration.npz")  # nobody writes into it: reading would never end
    code, said = failed(capsys, model, "--data", tokens, *how, "-o", tmp_path / "out/dead.json")
    assert code == 2 and "is calibration data of another recipe" in said


@pytest.mark.parametrize("name", MIXTURES)
def test_every_family(name: str, tmp_path: Path, tokens: Path, capsys: pytest.CaptureFixture[str]) -> None:
    how = ["--data", tokens, "--window", 12, "--order", "mass", "--drop", 1, "--no-eval", "-o", tmp_path / "r.json"]
    code = main(["prune", str(ORACLE / name), *map(str, how), "--json"])
    said = capsys.readouterr()
    assert code == 0, said.err
    facts = json.loads(said.out)
    assert len(facts["steps"]) == 1 and facts["weight_bytes"][1] < facts["weight_bytes"][0]
    assert parse_recipe(str(tmp_path / "r.json")).drop == {facts["steps"][0]["layer"]: {facts["steps"][0]["id"]}}


def test_an_encoder_and_samples(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ids = np.random.default_rng(3).integers(2, 30, (3, 6))
    np.savez(tmp_path / "pairs.npz", input_ids=ids, labels=ids[:, 4::-1])
    how = ["--data", tmp_path / "pairs.npz", "--drop", 2, "--no-eval"]
    facts = pruned(capsys, ORACLE / ENCODERS[0], *how)
    assert facts["rows"] == 15 and len(facts["steps"]) == 2
    hits = {layer: [one["hits"] for one in facts["experts"] if one["layer"] == layer] for layer in (1, 3)}
    assert [sum(own) for own in hits.values()] == [18, 15]  # an encoder's layers see the source
    for one in facts["experts"]:
        assert one["hit_share"] == one["hits"] / sum(hits[one["layer"]])
    facts = pruned(capsys, sensor("top2-e4-norm"), "--data", GOLDEN, "--limit", 100, "--drop", 1)
    assert facts["unit"] == "samples" and facts["loss_is"] == "mean error"
    assert facts["evaluation"]["rows"][0]["name"] == "w8a8"


def test_the_next_command_is_fit_for_a_shell(tmp_path: Path, tokens: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, recipe = write_mixtral(tmp_path / "m"), tmp_path / 'my "best".json'
    assert main(["prune", str(model), "--data", str(tokens), "--window", "12", "--dead", "-o", str(recipe)]) == 0
    line = capsys.readouterr().out.splitlines()[-1]
    assert shlex.split(line) == ["colibri", "build", str(model), "--board", "NAME", "--recipe", str(recipe)]


def test_what_is_refused(
    tmp_path: Path, tokens: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = write_mixtral(tmp_path / "m")
    how = [model, "--data", tokens, "--window", 12]
    assert failed(capsys, *how, "--drop", 1, "--max-loss", 0.1) == (
        2, "--drop, --max-loss: say in different ways how many go; choose one of them",
    )  # fmt: skip
    assert failed(capsys, *how, "--drop", 5) == (
        2, "--drop 5: at most 4 experts can go: routers choose as many as stay",
    )  # fmt: skip
    assert failed(capsys, *how, "--keep", 1) == (2, "--keep 1: routers choose 2 experts; keep more")
    code, said = failed(capsys, *how, "--bytes", 100)
    assert code == 3 and "--bytes 100: the least is " in said and "with 4 experts gone" in said
    assert failed(capsys, *how, "-o", tmp_path / "r.json")[0] == 2
    assert failed(capsys, *how, "--dead", "-o", tmp_path / "r.txt")[1].endswith(
        "is no name of a recipe; end it in .json"
    )
    assert failed(capsys, *how, "--dead", "-o", tmp_path / "nowhere/r.json")[0] == 2
    (tmp_path / "link.json").symlink_to(tmp_path / "gone.json")
    assert failed(capsys, *how, "--dead", "-o", tmp_path / "link.json")[1].endswith(
        "is a link to nothing; choose another -o"
    )
    with monkeypatch.context() as locked:  # whoever runs this may write everywhere
        locked.setattr("os.access", lambda path, mode: False)
        code, said = failed(capsys, *how, "--dead", "-o", tmp_path / "r.json")
    assert code == 2 and said == f"{tmp_path}/r.json: cannot be written; choose another folder"
    dense = ORACLE / "llama-llama3rope-tied"
    assert failed(capsys, dense, "--data", tokens) == (
        2, f"{dense}: has no experts to choose among: each layer has one MLP",
    )  # fmt: skip
    full = ORACLE / "variants/mixtral-all-experts-wide-heads"
    assert failed(capsys, full, "--data", tokens, "--window", 12, "--dead") == (
        2, "prune: no expert can go: routers choose all that there are",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.arange(60) + 1, "has tokens beyond the vocabulary of 40"),
        (np.zeros(0, np.int64), "holds int64 [0], not tokens"),
        (np.zeros(60), "holds float64 [60], not tokens"),
        (np.zeros((3, 4, 5), np.int64), "holds int64 [3 × 4 × 5], not tokens"),
        (np.arange(5), "has 5 tokens; one window takes 13"),
    ],
)
def test_data_that_are_none(
    array: np.ndarray, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "data.npy", array)
    model = write_mixtral(tmp_path / "m")
    code, said = failed(capsys, model, "--data", tmp_path / "data.npy", "--window", 12, "--dead")
    assert code == 5 and message in said


def test_samples_with_nan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "data.npz", x=np.full((3, 5), np.nan, np.float32), y=np.zeros((3, 2)))
    code, said = failed(capsys, write_sensor(tmp_path / "m"), "--data", tmp_path / "data.npz", "--dead")
    assert code == 5 and "holds numbers that are not finite in fp32" in said
