"""A full disk is said to be one, wherever it is met: objects, cache, temporary files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from small_package import need, write_small

from colibri.boards.load import load_board
from colibri.cli import main
from colibri.emulate.plugin import build as plugin_build
from colibri.emulate.plugin import build_plugin
from colibri.errors import BadInput, BuildFailed, ToolMissing, UsageError
from colibri.toolchain.build import build
from colibri.toolchain.compiler import Installed, gcc_for
from colibri.toolchain.find import find_toolchain
from colibri.toolchain.probe import why_not_link

FULL = "No space left on device"


@pytest.fixture
def compiler_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Put a compiler first in PATH that says what a real one says there."""

    def make(name: str) -> None:
        program = tmp_path / "bin" / name
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\necho "fatal error: error writing to /tmp/cc.o: {FULL}" >&2\nexit 1\n')
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")

    return make


def test_objects(tmp_path: Path, compiler_on_a_full_disk: Callable[[str], None]) -> None:
    write_small(tmp_path / "p", "x86-64-v3")
    compiler_on_a_full_disk("gcc")
    with pytest.raises(UsageError) as caught:
        build(tmp_path / "p")
    hint = "make room there, or work on a copy of the package"
    assert str(caught.value) == f"{tmp_path / 'p'}: cannot be written: {FULL}; {hint}"


def test_the_cache_of_the_plugin(tmp_path: Path, compiler_on_a_full_disk: Callable[[str], None]) -> None:
    compiler_on_a_full_disk("cc")
    with pytest.raises(UsageError) as caught:
        build_plugin(tmp_path / "cache")
    hint = "make room, or set XDG_CACHE_HOME to a folder with room"
    assert str(caught.value) == f"cache {tmp_path / 'cache'}: cannot be written: {FULL}; {hint}"
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_package_that_is_write_protected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_small(tmp_path / "p", "x86-64-v3")
    (tmp_path / "p" / "src" / "model.c").write_text("#error cannot open model.ci for writing")
    with pytest.raises(BuildFailed):
        build(tmp_path / "p")
    monkeypatch.setattr(os, "access", lambda path, mode: not str(path).endswith("/build"))
    with pytest.raises(UsageError, match="cannot be written: Permission denied; make room there, or work on a copy"):
        build(tmp_path / "p")


@pytest.mark.parametrize("place", ["file/cache", "file", "/proc/cache", "n" * 300])
def test_a_cache_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / place))
    with pytest.raises(UsageError, match=r"cannot be .*; make room, or set XDG_CACHE_HOME to a folder with room"):
        build_plugin()


def test_nobody_has_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(plugin_build.Path, "home", none)
    with pytest.raises(
        UsageError, match=r"cache: there is no home folder to keep the QEMU plugin in; make room, or set"
    ):
        build_plugin()


def test_temporary_files(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(**_: object) -> None:
        raise FileNotFoundError(2, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(tempfile, "TemporaryDirectory", none)
    with pytest.raises(UsageError, match=r"folder for temporary files: cannot be written: No usable .*set TMPDIR"):
        why_not_link(Installed(gcc_for(load_board("x86-64-v3"))), load_board("x86-64-v3"))


def test_temporary_files_of_the_compiler(compiler_on_a_full_disk: Callable[[str], None]) -> None:
    compiler_on_a_full_disk("gcc")
    with pytest.raises(UsageError, match=f"folder for temporary files: cannot be written: {FULL}"):
        why_not_link(Installed(gcc_for(load_board("x86-64-v3"))), load_board("x86-64-v3"))


# ---- flags are the board file's, not the machine's ----


def own_board(folder: Path, flag: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(f'inherits = "stm32f405"\n[toolchain]\nflags = ["-mthumb", "{flag}"]\n')
    return path


@pytest.mark.parametrize("flag", ["-mcpu=nope", "-mfpu=nope", "--nonsense"])
def test_a_flag_that_the_compiler_rejects(flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = own_board(tmp_path, flag)
    board = load_board(path)
    need(board)
    with pytest.raises(BadInput) as caught:
        find_toolchain(board)
    text = str(caught.value)
    assert text.startswith("board mine: toolchain.flags: arm-none-eabi-gcc rejects the flags: error: unrecognized")
    assert text.endswith("; correct them in the board file") and "apt-get" not in text
    assert main(["doctor", "--board", str(path)]) == 5
    assert capsys.readouterr().err == f"colibri: {text}\n"


def test_a_compiler_too_old_for_a_board_of_colibri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no fault of a board file that comes with Colibri."""
    board = load_board("stm32f405")
    need(board)
    program = tmp_path / "arm-none-eabi-gcc"
    text = 'case "$*" in *-mcpu=*) echo "error: unrecognized -mcpu target" >&2; exit 1;; esac'
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(
        ToolMissing, match=r"rejects the flags: error: unrecognized.*; this board needs another compiler"
    ):
        find_toolchain(board)
