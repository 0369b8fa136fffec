"""What `colibri inspect` says of boards: those with room for every scheme, for some, for none."""

from __future__ import annotations

import io

from rich.console import Console

from colibri.inspection import Fit, Inspection, print_inspection

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
