"""Builds of one package come one after the other, and an interrupted one ends its compilers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from small_models import HOST_BOARD, sensor

from colibri.claim import in_turn
from colibri.cli import main

WAITS = """\
rule wait
  command = echo $$$$ > started && exec sleep 300

build build/bench.elf: wait
"""


def test_a_turn_waits_for_the_one_before(tmp_path: Path) -> None:
    file = tmp_path / "build.ninja"
    file.touch()
    entered = threading.Event()

    def second() -> None:
        with in_turn(file):
            entered.set()

    thread = threading.Thread(target=second)
    with in_turn(file):
        thread.start()
        assert not entered.wait(0.2)
    assert entered.wait(10)
    thread.join()


def test_a_file_that_is_not_there_is_nobodys(tmp_path: Path) -> None:
    with in_turn(tmp_path / "build.ninja"), in_turn(tmp_path / "build.ninja"):
        assert not any(tmp_path.iterdir())


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupt_ends_what_ninja_has_begun(number: signal.Signals, tmp_path: Path) -> None:
    folder = tmp_path / "p"
    assert main(["generate", str(sensor("top1-e4")), "--board", HOST_BOARD, "-o", str(folder)]) == 0
    (folder / "build.ninja").write_text(WAITS)
    colibri = subprocess.Popen([sys.executable, "-m", "colibri", "bench", str(folder)], stderr=subprocess.PIPE)
    started = folder / "started"
    end = time.monotonic() + 60
    while not (started.exists() and started.read_text().strip()) and time.monotonic() < end:
        time.sleep(0.02)
    compiler = int(started.read_text())
    assert is_alive(compiler)
    colibri.send_signal(number)
    colibri.communicate(timeout=60)
    assert colibri.returncode == 130
    assert not is_alive(compiler)
