"""Cycles come from rules with sources; what no rule knows is not estimated."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from colibri.boards.load import board_names, load_board
from colibri.profile.estimate import Core, Cycles, Estimator, cycles_of, load_cores, make_estimator
from colibri.profile.model import Estimate

_CONDITION = "(?:eq|ne|cs|cc|hs|lo|mi|pl|vs|vc|hi|ls|ge|lt|gt|le|al)?"


def rules(name: str) -> list[tuple[re.Pattern[str], Cycles]]:
    core = next(core for core in load_cores().core if core.name == name)
    return [(re.compile(f"(?:{rule.match})s?{_CONDITION}"), rule) for rule in core.cycles]


@pytest.mark.parametrize(
    ("mnemonic", "operands", "expected"),
    [
        ("adds", "r0, #1", (1, 1)),
        ("movgt", "r0, r1", (1, 1)),
        ("ldr", "r0, [r1]", (1, 3)),
        ("ldr", "pc, [r1, r2]", (3, 6)),
        ("mov", "pc, r3", (2, 4)),
        ("ldrd", "r0, r1, [sp]", (3, 4)),
        ("vldr", "d8, [r1]", (1, 4)),
        ("tbb", "[pc, r3]", (3, 7)),
        ("vcmpe", "s0, #0.0", (1, 2)),
        ("nop", "", (0, 1)),
        ("push", "{r4-r7, lr}", (6, 7)),
        ("pop", "{r4-r7, pc}", (7, 10)),
        ("vpush", "{d8-d10}", (7, 8)),
        ("bl", "8000100 <f>", (2, 4)),
        ("bls", "8000100 <f>", (1, 4)),
        ("blt", "8000100 <f>", (1, 4)),
        ("bcs", "8000100 <f>", (1, 4)),
        ("bics", "r0, r1", (1, 1)),
        ("vdiv", "s0, s1, s2", (1, 15)),
        ("vmla", "s0, s1, s2", (3, 4)),
        ("vmls", "s0, s1, s2", (3, 4)),
        ("vfma", "s0, s1, s2", (3, 4)),
        ("sdiv", "r0, r1, r2", (2, 12)),
        ("ite", "gt", (0, 1)),
        ("dsb", "sy", "dsb"),
    ],
)
def test_cycles_of_a_cortex_m4(mnemonic: str, operands: str, expected: tuple[int, int] | str) -> None:
    assert cycles_of(rules("Cortex-M4F"), mnemonic, operands) == expected


def test_every_figure_has_a_source_and_a_board() -> None:
    cores = load_cores()
    known = {load_board(name).cpu.core for name in board_names()}
    for core in cores.core:
        assert core.sources
        assert core.assumes
        assert bool(core.cycles) != bool(core.least)
        assert all(rule.least <= rule.most for rule in core.cycles)
        assert core.name in known
    for clock in cores.clock:
        assert clock.source
        assert clock.board in board_names()


def test_what_no_document_says_is_called_an_assumption() -> None:
    cores = load_cores()
    text = {core.name: f"{core.assumes} {' '.join(core.sources)}" for core in cores.core}
    unseen = [name for name, words in text.items() if "not read" in words or "as others quote it" in words]
    assert unseen == ["Cortex-M7", "Cortex-A76"]
    assert all("assumption" in text[name] for name in unseen)
    # Figures of each kind of instruction name the table or section that they are from.
    assert all(re.search(r"table \d|tables \d|3\.3\.2", source) for source in cores.core[0].sources)


def estimator(bounds: dict[int, tuple[int, int] | str]) -> Estimator:
    core = Core("Tiny", "nothing", ("a book",), (Cycles("add", 1, 1),))
    return Estimator(core, 100.0, "a data sheet", bounds)


def test_range_of_an_estimate() -> None:
    made = estimator({4: (1, 2), 8: (3, 3)}).estimate(np.array([4, 8], np.uint64), np.array([1000, 100]))
    assert isinstance(made, Estimate)
    assert made.cycles == (1300, 2300)
    assert made.milliseconds == (0.013, 0.023)
    assert made.sources == ("a book", "a data sheet")


def test_an_unknown_instruction_that_runs_leaves_no_estimate() -> None:
    unknown = estimator({4: (1, 2), 8: "wfi"})
    assert isinstance(unknown.estimate(np.array([4, 8], np.uint64), np.array([5, 0])), Estimate)
    assert unknown.estimate(np.array([4, 8], np.uint64), np.array([5, 1])) == (
        "no document here says how long wfi takes on a Tiny"
    )


def test_a_floor_has_no_upper_end() -> None:
    made = make_estimator(load_board("nucleo-h743zi"), Path("not-read"), 100.0)
    estimate = made.estimate(np.array([4], np.uint64), np.array([1_000_000]))
    assert isinstance(estimate, Estimate)
    assert estimate.cycles == (500_000, None)
    assert estimate.milliseconds == (5.0, None)
    assert estimate.sources[-1] == "clock: as given"


@pytest.mark.parametrize("board", ["riscv-virt-rv32imac", "aarch64-sve2", "x86-64-v3"])
def test_no_source_no_estimate(board: str) -> None:
    made = make_estimator(load_board(board), Path("not-read"), 100.0)
    text = made.estimate(np.array([4], np.uint64), np.array([1]))
    assert isinstance(text, str)
    assert "no document here" in text
