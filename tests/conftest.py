"""Ends the run with what the boards answered: one digest per model, and the instructions it took."""

from __future__ import annotations

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    rows = [
        value
        for report in terminalreporter.getreports("passed")
        for name, value in report.user_properties
        if name == "board result"
    ]
    if not rows:
        return
    terminalreporter.section("bits on every board")
    for model, board, emulator, proves, digest, instructions in sorted(rows):
        terminalreporter.write_line(
            f"{model:<22} {board:<22} {emulator:<14} proves the {proves:<7} {digest[:16]}  {instructions}"
        )
