"""Files of others survive, text from files never reaches a shell, C or a terminal, and links stay at home."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from colibri.cli import main
from colibri.testing import check_package
from colibri.toolchain.build import build

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SENSOR = EXAMPLES / "load-moe" / "top1-e3-tiny"
GENERATE = ["generate", str(SENSOR), "--board", "x86-64-v3", "-o"]


@pytest.fixture
def package(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    folder = tmp_path / "package"
    assert main([*GENERATE, str(folder)]) == 0
    capsys.readouterr()
    return folder


def test_somebody_elses_package_json_is_no_package(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "npm"
    (folder / "src").mkdir(parents=True)
    (folder / "package.json").write_text('{"name": "site", "version": "1.0.0"}')
    (folder / "src" / "index.js").write_text("//")
    assert main([*GENERATE, str(folder)]) == 5
    assert capsys.readouterr().err.count("\n") == 1
    assert (folder / "src" / "index.js").is_file()


def test_the_output_may_not_hold_the_checkpoint(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(SENSOR, package / "src" / "checkpoint")
    arguments = ["generate", str(package / "src" / "checkpoint"), "--board", "x86-64-v3", "-o", str(package)]
    assert main(arguments) == 2
    assert "the checkpoint lies in it" in capsys.readouterr().err
    assert (package / "src" / "checkpoint" / "config.json").is_file()


@pytest.mark.parametrize(
    "flag", ["-DZ=`touch PWNED`", "-DA=$(id)", "-O2; id", "-I a", "-DX='1'", "-ffast-math", "-Ofast"]
)
def test_flags_of_a_board_cannot_be_more_than_options(
    flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    board = tmp_path / "mine.toml"
    board.write_text(f'inherits = "x86-64-v3"\n[toolchain]\nflags = [{json.dumps(flag)}]\n')
    assert main(["generate", str(SENSOR), "--board", str(board), "-o", str(tmp_path / "out")]) == 5
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_boards_words_stay_in_their_comments(tmp_path: Path) -> None:
    board = tmp_path / "mine.toml"
    hostile = "*/ int evil; /*"
    board.write_text(f'inherits = "stm32f405"\ntitle = "{hostile}"\n[cpu]\ncore = "{hostile}"\nunlisted = true\n')
    assert main(["generate", str(SENSOR), "--board", str(board), "-o", str(tmp_path / "out")]) == 0
    for name in ("model.h", "src/model.c", "port/board.ld"):
        text = (tmp_path / "out" / name).read_text()
        assert "evil" in text or name.endswith(".ld")
        assert "*/ int evil" not in text


@pytest.mark.parametrize("name", ["tokenizer.json", "config.json"])
def test_links_that_leave_the_checkpoint(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    secret = tmp_path / "secret"
    source = EXAMPLES / "shakespeare-moe"
    shutil.copy(source / name, secret)
    checkpoint = tmp_path / "checkpoint"
    shutil.copytree(source, checkpoint)
    (checkpoint / name).unlink()
    (checkpoint / name).symlink_to(secret)
    arguments = ["generate", str(checkpoint), "--board", "x86-64-v3", "--context", "8", "-o", str(tmp_path / "out")]
    assert main(arguments) == 5
    assert "is a link that leaves the checkpoint folder" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_missing_source_is_one_line_and_a_compiler_error(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (package / "src" / "model.c").unlink()
    assert main(["test", str(package), "--emulator", "native"]) == 6
    assert capsys.readouterr().err.count("\n") == 1


def test_vectors_that_compare_nothing_are_refused(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (package / "test" / "vectors.msgpack").write_bytes(msgspec.msgpack.encode([]))
    assert main(["test", str(package), "--emulator", "native"]) == 5
    assert "there is nothing to compare" in capsys.readouterr().err


def test_labels_in_the_csv_header(package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = json.loads((package / "package.json").read_text())
    text["model"]["labels"]["outputs"] = ['a "b", c', "\x1b]0;own\x07"]
    (package / "package.json").write_text(json.dumps(text))
    (tmp_path / "x.csv").write_text(",".join(["0"] * 13) + "\n")
    assert main(["run", str(package), str(tmp_path / "x.csv"), "--emulator", "native"]) == 0
    header = capsys.readouterr().out.splitlines()[0]
    assert header == '"a ""b"", c",\\x1b]0;own\\x07'


def test_sigterm_stops_what_runs(package: Path) -> None:
    source = package / "app" / "test.c"
    source.write_text(source.read_text().replace("int main(void)\n{", "int main(void)\n{\n    for (;;) {\n    }", 1))
    command = [sys.executable, "-m", "colibri", "test", str(package), "--emulator", "native"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    image = str(package / "build" / "test.elf")
    for _ in range(300):
        if running(image):
            break
        time.sleep(0.1)
    assert running(image)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert not running(image)


def test_sigterm_while_the_program_starts(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever ends the command at that moment leaves no orphan."""
    source = package / "app" / "test.c"
    source.write_text(source.read_text().replace("int main(void)\n{", "int main(void)\n{\n    for (;;) {\n    }", 1))
    image = str(package / "build" / "test.elf")
    build(package, ["build/test.elf"])

    class Interrupted(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            if str(arguments[0][0]) == image:
                signal.raise_signal(signal.SIGTERM)  # to this thread; the command has no other

    def end(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    monkeypatch.setattr("colibri.emulate.runner.subprocess.Popen", Interrupted)
    try:
        with pytest.raises(KeyboardInterrupt):
            check_package(package, emulators=("native",), timeout=20)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert not running(image)
    assert signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def running(image: str) -> bool:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if (folder / "cmdline").read_bytes().split(b"\0")[0] == os.fsencode(image):
                return True
        except OSError:  # it ended while we looked
            continue
    return False
