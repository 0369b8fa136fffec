"""Folders for temporary files: gone with their process, however it ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from colibri.scratch import scratch_folder

SLEEPER = """
import sys, time
from colibri.scratch import scratch_folder
with scratch_folder("test") as folder:
    (folder / "deep").mkdir()
    print(folder, flush=True)
    time.sleep(60)
"""


def old(folder: Path) -> None:
    os.utime(folder, (0, 0))


def test_what_a_killed_process_left_behind_goes_with_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    process = subprocess.Popen([sys.executable, "-c", SLEEPER], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    left = Path(process.stdout.readline().strip())
    assert left.parent == tmp_path and (left / "deep").is_dir()
    old(left)
    with scratch_folder("test"):
        assert left.is_dir()  # its process lives
    process.kill()
    process.wait()
    with scratch_folder("test") as own:
        assert not left.exists() and own.is_dir()
    assert not list(tmp_path.iterdir())


def test_nothing_else_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    young, other, target = (tmp_path / name for name in ("colibri-scratch-a-1", "colibri-b-2", "target"))
    for folder in (young, other, target):
        folder.mkdir()
    old(other), old(target)
    link = tmp_path / "colibri-scratch-link"
    link.symlink_to(target)
    os.utime(link, (0, 0), follow_symlinks=False)
    (tmp_path / "colibri-scratch-file").touch()
    old(tmp_path / "colibri-scratch-file")
    with scratch_folder("test"):
        pass
    assert all(path.exists() for path in (young, other, target, link, tmp_path / "colibri-scratch-file"))
