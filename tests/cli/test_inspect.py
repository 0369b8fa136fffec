"""What `colibri inspect` says of boards: those with room for every scheme, for some, for none."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console
from small_models import write_mixtral

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


def test_no_empty_lists() -> None:
    text = "\n".join(said(*board("large", (9, 9), {"f32": 0})))
    assert "every" in text and "some in" not in text and "none" not in text


def test_parts_sum_to_the_file_and_resting_experts_are_not_active(tmp_path: Path) -> None:
    facts = inspect_checkpoint(write_mixtral(tmp_path / "m", num_local_experts=4, num_experts_per_tok=1), 16)
    assert {part.name for part in facts.parts} >= {"embedding", "attention", "router", "experts", "norms", "other"}
    for scheme in ("f32", "w8a8", "w4a16"):
        file = min(fit.weights for fit in facts.fits if fit.scheme == scheme and fit.board == "stm32f405")
        parts = sum(part.bytes[scheme] for part in facts.parts)
        assert 0 <= file - parts < 16 * 200  # alignment, of each of the sections
    experts = next(part for part in facts.parts if part.name == "experts").bytes["f32"] // 4
    assert facts.parameters - facts.active == experts * 3 // 4
