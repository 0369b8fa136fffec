"""`colibri explain`: ways that fit, by a rule of thumb or measured, and what a dense model would need."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_models import ORACLE, SENSORS, SHAKESPEARE, sensor, write_mixtral

from colibri.boards.load import load_board
from colibri.checkpoint.checkpoint import Checkpoint
from colibri.cli import main
from colibri.explain.measured import CODINGS, DROPPED, STATES
from colibri.explain.thumb import coding_loss, dropping_loss
from colibri.explain.ways import FOR_SIZE, any_order, ways
from colibri.fit.sizes import Sizes, sizes_of
from colibri.generate import build_graph, prepare
from colibri.graph.ops import Experts
from colibri.graph.scheme import Scheme
from colibri.optimise import Optimise
from colibri.options import Options
from colibri.recipe import parse_recipe, recipe_text

ROOT = Path(__file__).resolve().parents[2]


def explained(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    code = main(["explain", *map(str, arguments), "--json"])
    said = capsys.readouterr()
    assert code == 0, said.err
    facts: dict[str, Any] = json.loads(said.out)
    return facts


def fits(checkpoint: Path, board: str, recipe: str) -> bool:
    contents = prepare(checkpoint, load_board(board), parse_recipe(recipe), Path("unused"), proven=False)
    return sizes_of(contents, load_board(board)).fits


def test_three_ways_that_fit(capsys: pytest.CaptureFixture[str]) -> None:
    facts = explained(capsys, SHAKESPEARE, "--board", "nucleo-h743zi")
    assert facts["flash_over"] > 0 == facts["ram_over"]
    assert len(facts["ways"]) == 3
    losses = [way["lost"] for way in facts["ways"]]
    assert losses == sorted(losses) and not any(way["measured"] for way in facts["ways"])
    for way in facts["ways"]:
        assert fits(SHAKESPEARE, "nucleo-h743zi", way["recipe"]) and not way["note"]
    dense = facts["dense"]
    # Of 8 experts with 3 matrices of 128 x 160 each in 4 layers 2 run; in 8 bits, with a scale of 4 bytes a row.
    assert dense["experts_weights"] - dense["weights"] == 4 * (6 * (3 * 128 * 160 + 4 * (2 * 160 + 128)) + 4 * 8 * 128)
    assert dense["experts_macs"] - dense["macs"] == 4 * 8 * 128


def test_what_fits_needs_no_way(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(sensor(SENSORS[0])), "--board", "stm32f405"]) == 0
    out = capsys.readouterr().out
    assert "w8a8 fits stm32f405: " in out and "to make it fit" not in out
    assert "a dense model of the same active size in w8a8 would fit: " in out


def test_data_are_used_where_nothing_is_lacking_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, golden = sensor("top1-e4"), ORACLE / "load-moe/top1-e4/golden.npz"
    arguments = ["explain", str(model), "--board", "stm32f405", "--recipe", "w4a8"]
    assert main([*arguments, "--data", str(golden), "--limit", "60"]) == 0
    out = capsys.readouterr().out
    assert main(["eval", str(model), "--recipe", "w4a8", "--data", str(golden), "--limit", "60", "--json"]) == 0
    rows = {row["name"]: row["scores"] for row in json.loads(capsys.readouterr().out)["rows"]}
    assert f"it has {rows['w4a8']['mae']['mean']:.4f} mean error, measured on golden.npz\n" in out
    np.save(tmp_path / "wrong.npy", np.zeros((4, 3), np.float32))
    assert main([*arguments, "--data", str(tmp_path / "wrong.npy")]) == 5
    assert "wrong.npy" in capsys.readouterr().err


def test_a_model_without_experts_is_compared_with_none(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["explain", str(ORACLE / "llama-llama3rope-tied"), "--board", "stm32f405"]
    assert main([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["dense"] is None
    assert main(arguments) == 0
    assert "dense" not in capsys.readouterr().out


def test_what_the_application_keeps(capsys: pytest.CaptureFixture[str]) -> None:
    """It is taken off the board, and said."""
    model = sensor(SENSORS[0])
    without = explained(capsys, model, "--board", "stm32f405")
    reserve = (1 << 20) - without["flash"] + 200
    kept = ["--reserve-flash", str(reserve), "--reserve-ram", "16K"]
    assert main(["explain", str(model), "--board", "stm32f405", *kept]) == 0
    out = capsys.readouterr().out
    less = f"stm32f405 less {reserve:,} bytes of flash and 16,384 bytes of RAM for the application: it takes "
    assert f"w8a8 does not fit {less}" in out
    facts = explained(capsys, model, "--board", "stm32f405", *kept)
    assert facts["flash"] == without["flash"] and without["flash_over"] == 0
    assert facts["flash_over"] == 200
    assert main(["explain", str(model), "--board", "stm32f405", "--reserve-flash", "2M"]) == 2
    assert "--reserve-flash" in capsys.readouterr().err


def test_measured_ways(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """On a board without RAM for all keys and values: smaller ones, or fewer of them."""
    monkeypatch.setattr("colibri.explain.explain._MEASURED", 2)
    model = write_mixtral(tmp_path / "m", max_position_embeddings=2048)
    np.save(tmp_path / "t.npy", np.random.default_rng(1).integers(0, 40, 61))
    cut = ["--data", tmp_path / "t.npy", "--window", 12]
    facts = explained(capsys, model, "--board", "stm32f405", "--recipe", "w8a8", *cut)
    assert facts["ram_over"] > 0 == facts["flash_over"] and facts["basis"] == "measured on t.npy"
    assert 3 < facts["loss"] < 5 and not facts["flattered"]  # random weights, and 40 tokens
    first = facts["ways"][0]
    assert first["changes"] == ["keys and values in f16"] and first["measured"] and abs(first["lost"]) < 0.01
    assert first["recipe"] == "w8a8:kv=f16" and fits(model, "stm32f405", first["recipe"])
    shorter = facts["ways"][-1]
    context = parse_recipe(shorter["recipe"]).context
    assert context is not None and 1000 < context < 2048
    assert shorter["note"] == f"texts end after {context} tokens, not 2048"
    assert not fits(model, "stm32f405", f"w8a8:context={context + 1}")


def test_experts_that_were_chosen_on_the_data_are_said_to_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("colibri.explain.explain._MEASURED", 3)
    model, golden = sensor("top1-e4"), ORACLE / "load-moe/top1-e4/golden.npz"
    arguments: list[object] = [model, "--board", "stm32f405", "--recipe", "w4a8", "--data", golden, "--limit", "60"]
    taken = explained(capsys, *arguments)["flash"]
    arguments += ["--reserve-flash", (1 << 20) - taken + 200]
    facts = explained(capsys, *arguments)
    assert facts["flash_over"] == 200 and facts["flattered"]
    assert any("experts dropped" in change for way in facts["ways"] for change in way["changes"])
    assert main(["explain", *map(str, arguments)]) == 0
    assert (
        "measured on golden.npz; experts that go were chosen on it too, which flatters them\n"
        in capsys.readouterr().out
    )


def test_calibration_stays_in_the_recipes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tokens = tmp_path / "t.npy"
    np.save(tokens, np.arange(40))
    facts = explained(capsys, ORACLE / "mixtral-base", "--board", "microbit", "--recipe", f"w8a8:calibrate={tokens}")
    assert facts["recipe"] == f"w8a8:calibrate={tokens}" and facts["ram_over"] > 0
    assert len(facts["ways"]) == 3 and all(way["recipe"].endswith(f":calibrate={tokens}") for way in facts["ways"])


def test_nothing_fits_is_code_3(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(SHAKESPEARE), "--board", "microbit"]) == 3
    said = capsys.readouterr()
    assert not said.out and said.err.count("\n") == 1
    assert "w8a8 lacks " in said.err and "and no smaller recipe that was tried fits" in said.err


def test_a_cut_of_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(SHAKESPEARE), "--board", "stm32f405", "--window", "8"]) == 2
    assert "--window, --limit: there is nothing to cut; name --data" in capsys.readouterr().err


def test_fewer_bits_and_fewer_experts_together(tmp_path: Path) -> None:
    """Where experts in 3 bits nearly fit, one that goes besides is cheaper than 2 bits, or than many that go alone."""
    model = write_mixtral(tmp_path / "m", num_local_experts=8, num_experts_per_tok=2)
    options = Options(Scheme.parse("w4a8"))
    graph = build_graph(Checkpoint.open(model), options)
    count = sum(len(op.kept) for op in graph.ops if isinstance(op, Experts))

    def plan(asked: Options) -> Sizes:
        """Of experts of 100 weights, and as many besides as two experts have."""
        bits = {form: int(form[1]) for form in ("w4", "w3", "w2")}
        base = bits[str(asked.scheme.coding.format)]
        own = next((bits[str(rule.scheme.coding.format)] for rule in asked.rules), base)
        kept = count - sum(map(len, asked.drop.values()))
        size = 200 * base + 100 * kept * own
        return Sizes(size, 0, size, 0, max(0, size - (800 + 300 * (count - 1))), 0, 0, 0)

    found = ways(graph, options, plan, any_order(graph), 3)
    assert found[0].text == ("experts in w3a8", f"1 of {count} experts dropped")
    assert all(plan(way.options).fits for way in found)
    lost = [way.lost for way in found if way.lost is not None]
    assert lost == sorted(lost) and lost[0] == pytest.approx(
        CODINGS["experts", "w3"] - CODINGS["experts", "w4"] + (dropping_loss(1 / count) or 0.0)
    )


def test_code_for_size_comes_first_where_it_is_enough() -> None:
    graph = build_graph(Checkpoint.open(SHAKESPEARE), Options(Scheme.W4A8))

    def plan(asked: Options) -> Sizes:
        size = 800 if asked.optimise is Optimise.SIZE else 1000 - 100 * bool(asked.rules)
        return Sizes(0, size, size, 0, max(0, size - 950), 0, 0, 0)

    found = ways(graph, Options(Scheme.W4A8), plan, any_order(graph), 3)
    assert found[0].text == (FOR_SIZE,) and recipe_text(found[0].options) == "w4a8:optimise=size"
    assert len(found) > 1 and all(FOR_SIZE not in way.text for way in found[1:])


def test_the_rule_of_thumb_is_in_order() -> None:
    for where in ("all", "experts"):
        losses = [CODINGS[where, coding] for coding in ("w8", "w6", "w5", "w4", "w3", "w2")]
        assert losses == sorted(losses) and losses[0] > 0
    assert list(DROPPED) == sorted(DROPPED)
    assert coding_loss(True, "f16") is None
    (share, loss), (next_share, next_loss) = DROPPED[-2:]
    assert dropping_loss(next_share) == pytest.approx(next_loss)
    assert dropping_loss((share + next_share) / 2) == pytest.approx((loss + next_loss) / 2)
    assert dropping_loss(1.0) is None


def test_the_rule_of_thumb_is_what_the_pages_say() -> None:
    """What experts cost that go, to the last digit; codings on half of the tokens, so nearly."""
    loader = importlib.machinery.SourceFileLoader("ci_thumb", str(ROOT / "ci/thumb"))
    spec = importlib.util.spec_from_loader("ci_thumb", loader)
    assert spec is not None
    script = importlib.util.module_from_spec(spec)
    loader.exec_module(script)
    prune, schemes = ((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("prune.md", "schemes.md"))
    gone = script.dropped(prune)
    assert len(gone) >= 4
    assert [(count / script.EXPERTS, round(lost, 4)) for count, lost in gone] == list(DROPPED)
    rows = re.findall(r"^\| (w\d)a8 \|(?:[^|]*\|){3} ([0-9.]+) \|", schemes, re.M)
    assert len(rows) >= 5
    for coding, divergence in rows:
        assert CODINGS["all", coding] == pytest.approx(float(divergence), rel=0.1)
    module = (ROOT / "codegen/colibri/explain/measured.py").read_text(encoding="utf-8")
    found = {**CODINGS, **{("states", kv): CODINGS["all", "w8"] + lost for kv, lost in STATES.items()}}
    assert module.split(script.BEGIN)[1].split(script.END)[0] == script.block(found, gone)
