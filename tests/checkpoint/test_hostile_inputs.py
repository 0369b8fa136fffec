"""Every hostile checkpoint ends in one line and exit code 5; nothing is written or run, and memory stays small."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from make_hostile import CASES, Hostile

from colibri.cli import main

MOST_BYTES = 64 << 20


def peak() -> int:
    """Most memory that this process had since the last call, in bytes."""
    said = Path("/proc/self/status").read_text()
    Path("/proc/self/clear_refs").write_text("5")
    return int(re.findall(r"VmHWM:\s+(\d+) kB", said)[0]) * 1024


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_hostile(case: Hostile, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, out = tmp_path / "model", tmp_path / "out"
    folder.mkdir()
    asked = case.build(folder)
    before = sorted(tmp_path.rglob("*"))
    peak()
    held = peak()
    code = main(["generate", str(asked), "--board", "x86-64-v3", "-o", str(out)])
    grown = peak() - held
    said = capsys.readouterr()
    assert code == 5, said.err
    assert case.words in said.err and "Traceback" not in said.err and said.out == ""
    (line,) = said.err.splitlines()
    assert line.isprintable() and len(line) < 2100
    assert sorted(tmp_path.rglob("*")) == before
    assert grown < MOST_BYTES


def test_there_are_enough() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 60
