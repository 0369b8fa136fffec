"""`colibri doctor`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from colibri.boards.load import board_names, load_board
from colibri.boards.profile import EmulatorKind
from colibri.cli.doctor import command
from colibri.errors import BadInput, ToolMissing
from colibri.toolchain.places import zig_folders
from colibri.toolchain.readiness import diagnose


@pytest.fixture
def no_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr("colibri.toolchain.find.zig_folders", list)  # of the virtual environment


@pytest.mark.usefixtures("no_tools")
def test_one_board_without_tools() -> None:
    done = CliRunner().invoke(command, ["--board", "stm32f405"])
    assert isinstance(done.exception, ToolMissing)
    assert done.exception.exit_code == 4
    assert "missing: arm-none-eabi-gcc, netduinoplus2" in str(done.exception)
    assert "arm-none-eabi-gcc: not installed" in done.output
    assert "sudo apt-get install gcc-arm-none-eabi qemu-system-arm" in done.output


@pytest.mark.usefixtures("no_tools")
def test_all_boards_without_tools() -> None:
    done = CliRunner().invoke(command, ["--json"])
    assert isinstance(done.exception, ToolMissing)
    assert "no board can be built for" in str(done.exception)
    found = json.loads(done.output)
    boards = [load_board(name) for name in board_names()]
    wanted = {package for board in boards for tool in (board.toolchain, *board.emulators) for package in tool.apt}
    assert found["install"].startswith("sudo apt-get install ")
    assert sorted(found["install"].split()[3:]) == sorted(wanted)
    assert [board["board"] for board in found["boards"]] == board_names()


def test_a_board_whose_file_is_wrong_about_its_fpu(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('inherits = "x86-64-v3"\n[cpu]\nfpu = false\n')
    done = CliRunner().invoke(command, ["--board", str(tmp_path / "mine.toml")])
    if isinstance(done.exception, ToolMissing):
        pytest.skip("no host compiler that makes x86-64-v3")
    assert isinstance(done.exception, BadInput)
    assert str(done.exception).startswith("board mine: cpu.fpu: is false, but gcc uses an FPU under -march=x86-64-v3")


def test_tools_that_are_here() -> None:
    board = load_board("x86-64-v3")
    (ready,) = diagnose([board]).boards
    if not ready.buildable:
        pytest.skip("no host compiler that makes x86-64-v3")
    assert ready.compilers[0].program == "gcc"
    assert ready.compilers[0].problem == ""
    assert [state.name for state in ready.emulators] == ["native", "qemu-x86_64"]
    native = next(e for e in board.emulators if e.kind is EmulatorKind.NATIVE)
    assert not next(state for state in ready.emulators if state.name == native.name).needed


def test_one_board_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    diagnosis = diagnose([load_board("x86-64-v3"), load_board("stm32f405")])
    if not any(ready.buildable for ready in diagnosis.boards):
        pytest.skip("no compiler is installed")
    diagnosis.require(all_of_it=False)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ToolMissing):
        diagnose([load_board("x86-64-v3")]).require(all_of_it=True)


def test_a_line_a_board_and_each_reason_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setattr("colibri.boards.load.board_names", lambda: ["stm32f405", "nucleo-h743zi", "wasm32"])
    lines = CliRunner().invoke(command, []).output.splitlines()
    assert lines[0].split() == ["board", "gcc", "clang", "zig", "emulators"]
    assert [line.split()[0] for line in lines[1:4]] == ["stm32f405", "nucleo-h743zi", "wasm32"]
    if zig_folders() or shutil.which("zig"):
        assert all("compiles" in line for line in lines[1:3])  # linking is tried for a board alone, or with --verbose
    assert "gcc: has no such target (wasm32)" in lines


@pytest.mark.usefixtures("no_tools")
def test_reasons_are_told_once_for_all_boards() -> None:
    output = CliRunner().invoke(command, []).output
    assert output.count("arm-none-eabi-gcc: not installed (") == 1
    assert " more)" in output
    assert sum(line.startswith("clang: not installed") for line in output.splitlines()) == 1


def test_only_the_compiler_that_was_asked_for(tmp_path: Path) -> None:
    if shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip("arm-none-eabi-gcc is not installed")
    done = CliRunner().invoke(command, ["--board", "stm32f405", "--toolchain", "arm-none-eabi-", "--json"])
    (board,) = json.loads(done.output.partition("\nError")[0])["boards"]
    (compiler,) = board["compilers"]
    assert (compiler["family"], compiler["program"]) == ("gcc", "arm-none-eabi-gcc")
    assert (compiler["problem"], compiler["linked"]) == ("", True)
    if shutil.which("clang"):
        done = CliRunner().invoke(command, ["--board", "x86-64-v3", "--toolchain", "arm-none-eabi-gcc"])
        assert isinstance(done.exception, ToolMissing)
        assert "arm-none-eabi-gcc" in done.output
