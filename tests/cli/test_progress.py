"""The bar of long work: for a terminal, on standard error, and for nobody else."""

from __future__ import annotations

import io
import sys

import pytest

from colibri.cli.progress import progress_bar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def terminal_of(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    made = Terminal()
    monkeypatch.setattr(sys, "stderr", made)
    return made


def test_bytes_rate_and_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch)
    with progress_bar() as progress:
        progress("numpy reference", 0)
        advance = progress("[red]model.bin", 300_000_000)
        advance(100_000_000)
    shown = terminal.getvalue()
    assert "[red]model.bin" in shown and "100.0/300.0 MB" in shown
    assert shown.rstrip().endswith("\x1b[2K")  # cleared at the end


def test_what_is_done_at_once_has_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch)
    with progress_bar() as progress:
        progress("model.bin", 1_000_000)(1_000_000)
    assert "model.bin" not in terminal.getvalue()


def test_no_terminal_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = io.StringIO()
    monkeypatch.setattr(sys, "stderr", pipe)
    with progress_bar() as progress:
        progress("model.bin", 300_000_000)(100_000_000)
    assert pipe.getvalue() == ""
