"""Devices, folders and huge files where a file is wanted: refused at once; a pipe is as good as a file."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest
from small_models import HOST_BOARD, make_package, sensor

from colibri.checkpoint import untrusted
from colibri.cli import main
from colibri.cli.options import read_keep_file


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("special") / "p"
    make_package(sensor("top1-e3-tiny"), folder)
    return str(folder)


def uses(file: str, package: str, out: Path) -> list[list[str]]:
    """A command for each option and argument that names a file to read."""
    generate = ["generate", str(sensor("top1-e3-tiny")), "--board", HOST_BOARD, "-o", str(out)]
    return [
        [*generate, "--keep-experts", file],
        ["run", package, file],
        ["profile", package, "--data", file, "--emulator", "native"],
        ["report", file],
        ["report", file, "--diff", file],
        ["report", package, "--budget", file],
    ]


@pytest.mark.parametrize("kind", ["/dev/zero", "/dev/null", "folder", "huge", "long", "silent", "damaged"])
def test_what_is_no_file(
    kind: str, package: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(untrusted, "_PATIENCE", 0.1)
    path = tmp_path / kind if not kind.startswith("/") else Path(kind)
    if kind == "folder":
        path.mkdir()
    elif kind == "huge":
        with path.open("wb") as file:
            file.truncate(1 << 40)
    elif kind == "long":
        path = tmp_path / ("n" * 300)
    elif kind == "silent":
        os.mkfifo(path)
    elif kind == "damaged":
        path.write_bytes(b"\xff\x00{[" * 100)
    for arguments in uses(str(path), package, tmp_path / "out"):
        assert main(arguments) == 5, arguments
        out, err = capsys.readouterr()
        assert out == "" and err.startswith("colibri: ") and err.count("\n") == 1 and len(err) < 700
    assert not (tmp_path / "out").exists()


def test_the_keep_file_may_be_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=lambda: (tmp_path / "pipe").write_text('{"0": [2, 0]}'))
    writer.start()
    assert read_keep_file(tmp_path / "pipe") == {0: {0, 2}}
    writer.join()


@pytest.mark.parametrize(
    "raw", [b"{" * 50_000, b'{"a":' * 50_000, b"{}", b'{"schema": 1}', b'{"schema": ' + b"9" * 9999]
)
def test_reports_that_are_none(raw: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "report.json").write_bytes(raw)
    assert main(["report", str(tmp_path / "report.json")]) == 5
    err = capsys.readouterr().err
    assert "not a report: " in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a = " + "[" * 9000, "nested too deeply"),
        ("a" + ".a" * 9000 + ".warn = 1", "nested too deeply"),
        (f"[flash]\nfail = {'9' * 5000}", "a number is too large"),
        ("[flash]\nfail = 9223372036854775808", "a number is too large"),
        ("[flash]\nfail = 1\nfail = 2", "not TOML: Cannot overwrite a value"),
    ],
)
def test_budgets_that_are_none(text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "budget.toml").write_text(text)
    (tmp_path / "report.json").write_text(json.dumps({}))
    assert main(["report", str(tmp_path / "report.json"), "--budget", str(tmp_path / "budget.toml")]) == 5
    err = capsys.readouterr().err
    assert words in err and err.count("\n") == 1 and len(err) < 700
