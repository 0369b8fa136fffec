"""What `colibri inspect` says of boards: those with room for every scheme, for some, for none."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console
from small_models import ORACLE, write_mixtral

from colibri.checkpoint.source import Tensors
from colibri.cli import main
from colibri.inspection import Fit, Inspection, inspect_checkpoint, print_inspection

SCHEMES = ("f32", "w8a8")


def said(*fits: Fit) -> list[str]:
    facts = Inspection("m", "mixtral", "tokens", 1, 1, 8, 16, (2,), 1, "softmax", None, (), fits)
    out = io.StringIO()
    print_inspection(facts, Console(file=out, width=80))
    return [" ".join(line.split()) for line in out.getvalue().splitlines()]


def board(name: str, flash: tuple[int, int], ram: dict[str, int]) -> list[Fit]:
    """Of each scheme what is left of flash, of each type of states what is left of RAM."""
    return [
        Fit(name, scheme, kv, 100, 200, left, rest)
        for scheme, left in zip(SCHEMES, flash, strict=True)
        for kv, rest in ram.items()
    ]


def test_every_some_and_none() -> None:
    lines = said(
        *board("large", (9, 9), {"f32": 0, "f16": 0}),
        *board("half", (-9, 9), {"f32": -1, "f16": 0}),
        *board("small", (-5000, -1025), {"f32": -4000, "f16": -1024}),
        *board("full", (-1, 0), {"f32": 0, "f16": 0}),
    )
    assert "fits in every scheme: large" in lines
    assert lines[lines.index("fits in some f32 w8a8") + 1] == "half no kv f16"
    assert "fits in none, lacks at least: small (2K flash and 1K RAM), full" in lines
    assert "what would make it fit: see `colibri explain`" in lines


def test_experts_of_a_dense_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(ORACLE / "variants/llama-biases")]) == 0
    assert "experts: one in each of 2 layers: one dense MLP a layer, no router" in capsys.readouterr().out


def test_no_empty_lists() -> None:
    text = "\n".join(said(*board("large", (9, 9), {"f32": 0})))
    assert "every" in text and "some in" not in text and "none" not in text and "explain" not in text


def test_boards_that_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model = write_mixtral(tmp_path / "m")
    assert main(["boards", "new", "own", "--from", "microbit"]) == 0
    capsys.readouterr()
    both = ["--board", "stm32f405", "--board", "own.toml"]
    assert main(["inspect", str(model), "--recipe", "w8a8", *both, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert [fit["board"] for fit in facts["fits"]] == ["stm32f405", "own"]
    assert {part["name"] for part in facts["parts"]} >= {"embedding", "experts"}
    assert main(["inspect", str(model), "--board", "no-such"]) == 5
    assert "no-such" in capsys.readouterr().err


def test_what_takes_less_memory_is_said_where_a_board_lacks_some() -> None:
    assert said(*board("half", (9, 9), {"f32": -1, "f16": 0}))[-1] == (
        "memory is for 16 tokens; fewer tokens take less: --context"
    )
    assert not any("--context" in line for line in said(*board("flash", (-9, 9), {"f32": 0})))


def test_parts_sum_to_the_file_and_resting_experts_are_not_active(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: set[int] = set()
    rows = Tensors.rows
    monkeypatch.setattr(
        Tensors, "rows", lambda self, name, *span: read.add(len(self.shape(name))) or rows(self, name, *span)
    )
    facts = inspect_checkpoint(write_mixtral(tmp_path / "m", num_local_experts=4, num_experts_per_tok=1), 16)
    assert {part.name for part in facts.parts} >= {"embedding", "attention", "router", "experts", "norms", "other"}
    for scheme in ("f32", "w8a8", "w4a16"):
        file = min(fit.weights for fit in facts.fits if fit.scheme == scheme and fit.board == "stm32f405")
        parts = sum(part.bytes[scheme] for part in facts.parts)
        assert 0 <= file - parts < 16 * 200  # alignment, of each of the sections
    experts = next(part for part in facts.parts if part.name == "experts").bytes["f32"] // 4
    assert facts.parameters - facts.active == experts * 3 // 4
    assert read == {1}  # no matrix, as its help says


def test_the_source_of_an_encoder_counts(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("colibri.inspection.board_names", lambda: ["stm32f405"])
    memory = {}
    for source in ("4", "8"):
        arguments = ["--context", "8", "--source", source, "--json"]
        assert main(["inspect", str(ORACLE / "switch-base"), *arguments]) == 0
        facts = json.loads(capsys.readouterr().out)
        assert facts["source"] == int(source)
        memory[source] = min(fit["memory"] for fit in facts["fits"])
    assert memory["4"] < memory["8"]
    assert main(["inspect", str(write_mixtral(tmp_path / "m")), "--source", "4"]) == 2
    assert capsys.readouterr().err == "colibri: --source: is for models with an encoder\n"
