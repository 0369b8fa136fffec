"""What tests of all folders share; and at the end of a run what the boards answered, one digest a model."""

from __future__ import annotations

import os
import signal

# Before numpy is there: the threads of its BLAS would wait for those of the other test processes.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
from shared_objects import SharedObjects

# A shell's background job is started with ignored interrupts, and a program of a test would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
for number in (signal.SIGTERM, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)


@pytest.fixture(scope="session")
def objects(tmp_path_factory: pytest.TempPathFactory) -> SharedObjects:
    """Objects that packages lend to each other, also those of other processes of the same run."""
    own = tmp_path_factory.getbasetemp()
    store = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "objects"
    store.mkdir(exist_ok=True)
    return SharedObjects(store)


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
