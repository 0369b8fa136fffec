"""Any terminal: of any width and encoding, closed, full, or interrupted at once."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_models import HOST_BOARD, sensor

from colibri.cli import main
from colibri.cli.output import make_console

SENSOR = sensor("top1-e3-tiny")


def colibri(*arguments: str | bytes, **environment: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "colibri", *arguments]
    return subprocess.run(command, capture_output=True, check=False, env={**os.environ, **environment})


@pytest.mark.parametrize("columns", ["0", "1", "20", "-5", "wide", "999999999"])
def test_tables_keep_their_shape(columns: str) -> None:
    usual = colibri("inspect", str(SENSOR), COLUMNS="80").stdout
    wide = colibri("inspect", str(SENSOR), COLUMNS=columns).stdout
    assert b"stm32f405" in usual and wide.split() == usual.split()
    assert len(max(wide.splitlines(), key=len)) <= 120


def test_the_console_obeys_no_name(capsys: pytest.CaptureFixture[str]) -> None:
    make_console().print(":smile: [bold]x[/bold] [/]")
    assert capsys.readouterr().out == ":smile: [bold]x[/bold] [/]\n"


def test_an_encoding_without_the_signs(tmp_path: Path) -> None:
    done = colibri("inspect", str(tmp_path / "né"), PYTHONIOENCODING="ascii")
    assert done.returncode == 5 and b"n\\xe9: no such checkpoint" in done.stderr and done.stderr.count(b"\n") == 1
    done = colibri("boards", PYTHONIOENCODING="ascii")
    assert done.returncode == 0 and b"\\u2013" in done.stdout


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    checkpoint = os.fsencode(tmp_path) + b"/m\xff"
    shutil.copytree(os.fsencode(SENSOR), checkpoint)
    out = os.fsencode(tmp_path) + b"/o\xfe"
    done = colibri("build", checkpoint, "--board", HOST_BOARD, "-o", out)
    assert done.returncode == 0, done.stderr
    assert b"package: " in done.stdout and b"/o\\udcfe" in done.stdout and b"m\\udcff" in done.stdout
    for arguments in (["report", out, "--json"], ["report", out, "--html"], ["inspect", checkpoint, "--json"]):
        assert colibri(*arguments).returncode == 0
    assert colibri("test", out, "--emulator", "native").returncode == 0


@pytest.mark.parametrize("arguments", [["boards"], ["boards", "--json"], ["inspect", str(SENSOR)], ["--help"]])
def test_a_full_disk_behind_the_output(arguments: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-m", "colibri", *arguments]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 2
    assert done.stderr == b"colibri: the output: cannot be written: No space left on device; make room there\n"


@pytest.mark.parametrize("arguments", [["boards"], ["inspect", str(SENSOR), "--json"], ["--help"]])
def test_a_reader_that_leaves(arguments: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "colibri", *arguments]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


def test_an_interrupt_while_modules_are_loaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A click that takes its time: the interrupt comes while it is imported."""
    (tmp_path / "click.py").write_text("import time\nprint('loading', flush=True)\ntime.sleep(60)\n")
    path = os.pathsep.join([str(tmp_path), *sys.path])
    command = [sys.executable, "-c", "from colibri.cli import run_and_exit; run_and_exit()", "boards"]
    environment = {**os.environ, "PYTHONPATH": path}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
    assert process.stdout is not None and process.stdout.readline() == b"loading\n"
    time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, b"colibri: interrupted\n")


def test_wrong_usage_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["buildd"]) == 2
    assert capsys.readouterr().err == "colibri: no such command 'buildd'; see `colibri --help`\n"
    assert main(["test", "x", "--timeout", "0"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("colibri: test: invalid value for '--timeout': 0.0 is not in the range") and "\n" in err[-1]
    assert main(["run", "x", "--" + "n" * 100_000]) == 2
    assert len(capsys.readouterr().err) < 700
