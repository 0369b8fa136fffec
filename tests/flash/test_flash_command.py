"""`colibri flash`: which tool, which line, and what it says when something is not there."""

from __future__ import annotations

import json
import shutil
from importlib.resources import files
from pathlib import Path

import msgspec
import pytest

from colibri.boards.load import board_names, load_board
from colibri.boards.profile import Board, BoardKind, Flash
from colibri.cli import main
from colibri.errors import BadInput, CheckFailed, ToolMissing, UsageError
from colibri.flash import write
from colibri.flash.tools import TOOLS
from colibri.flash.write import Way, choose, run

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
EVERY = Flash(
    probe_rs="STM32F405RGTx",
    openocd=("interface/stlink.cfg", "target/stm32f4x.cfg"),
    pyocd="stm32f405",
    st_flash=True,
    picotool=True,
    esptool="esp32c3",
    uf2=0xE48BFF56,
    drive="RPI-RP2",
)
LINES = {
    "probe-rs": [
        "probe-rs download --chip STM32F405RGTx --binary-format elf --verify build/product.elf",
        "probe-rs reset --chip STM32F405RGTx",
    ],
    "openocd": [
        "openocd -f interface/stlink.cfg -f target/stm32f4x.cfg -c 'program build/product.elf verify reset exit'"
    ],
    "pyocd": ["pyocd flash -W --target stm32f405 build/product.elf"],
    "st-flash": ["st-flash --reset --format ihex write build/product.hex"],
    "picotool": ["picotool load --verify --execute build/product.elf"],
    "esptool": ["esptool --chip esp32c3 write_flash 0x0 build/product.bin"],
}


def board_with(flash: Flash) -> Board:
    return msgspec.structs.replace(load_board("stm32f405"), flash=flash)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of programs, which is the whole PATH; no drive is mounted."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(write, "_MOUNTS", tmp_path / "mounts")
    return folder


def install(folder: Path, name: str, script: str = "exit 0") -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize("name", LINES)
def test_the_line_of_each_tool(name: str, path: Path) -> None:
    for program in LINES:
        install(path, program)
    way = choose(board_with(EVERY), name)
    assert (way.tool, way.lines()) == (name, LINES[name])


def test_the_first_that_is_here_is_taken(path: Path) -> None:
    for tool in reversed(TOOLS):
        install(path, tool.programs[-1])
        assert choose(board_with(EVERY)).tool == tool.name
    assert choose(board_with(EVERY), "esptool").commands[0][0] == "esptool.py"


def test_a_mounted_drive_comes_first(path: Path, tmp_path: Path) -> None:
    install(path, "probe-rs")
    (tmp_path / "mounts").write_text(
        "/dev/sda1 / ext4 rw 0 0\n/dev/sdb1 /media/my\\040name/RPI-RP2 vfat rw 0 0\nproc /proc proc rw 0 0\n"
    )
    assert choose(board_with(EVERY)).lines() == ["cp build/product.uf2 '/media/my name/RPI-RP2/'", "sync"]
    assert choose(board_with(EVERY), "probe-rs").tool == "probe-rs"
    hexadecimal = msgspec.structs.replace(EVERY, uf2=0)
    assert choose(board_with(hexadecimal)).commands[0][1] == "build/product.hex"


def test_two_boards_of_a_kind_are_not_guessed_between(path: Path, tmp_path: Path) -> None:
    (tmp_path / "mounts").write_text("/dev/sdb1 /media/a/RPI-RP2 vfat rw 0 0\n/dev/sdc1 /mnt/RPI-RP2 vfat rw 0 0\n")
    with pytest.raises(UsageError, match="2 drives are called RPI-RP2"):
        choose(board_with(EVERY))


def test_without_tools_it_says_what_to_install(path: Path) -> None:
    way = choose(board_with(Flash(openocd=("target/stm32f4x.cfg",), st_flash=True, drive="MICROBIT")))
    assert way.tool == "openocd" and isinstance(way.missing, ToolMissing)
    assert str(way.missing) == (
        "board stm32f405: nothing here writes to it; mount its drive MICROBIT, or for openocd: sudo apt-get install "
        "openocd, or for st-flash: sudo apt-get install stlink-tools"
    )
    install(path, "openocd")
    way = choose(board_with(Flash(openocd=("target/stm32f4x.cfg",), st_flash=True)), "st-flash")
    assert way.lines() == ["st-flash --reset --format ihex write build/product.hex"]
    assert "st-flash is not here; for st-flash: sudo apt-get install stlink-tools" in str(way.missing)
    way = choose(board_with(Flash(drive="MICROBIT")))
    assert way.lines() == ["cp build/product.hex /media/USER/MICROBIT/", "sync"]
    assert "nothing here writes to it; mount its drive MICROBIT" in str(way.missing)


def test_a_tool_that_the_board_file_does_not_name(path: Path) -> None:
    board = board_with(Flash(st_flash=True))
    with pytest.raises(UsageError, match="how esptool writes to it; it says so of st-flash"):
        choose(board, "esptool")
    with pytest.raises(UsageError, match="known: probe-rs, openocd, "):
        choose(board, "jlink")
    with pytest.raises(BadInput, match="does not say how it is flashed"):
        choose(board_with(Flash()))


def test_the_tools_own_words_are_the_error(path: Path, tmp_path: Path) -> None:
    install(path, "st-flash", "echo 'st-flash 1.7.0'; echo \"Couldn't find any ST-Link devices\" >&2; echo; exit 255")
    install(path, "openocd", "echo 'Error: open failed'; echo '** OpenOCD init failed **'; exit 1")
    install(path, "pyocd", "exit 3")
    words = {"st-flash": "Couldn't find any ST-Link", "openocd": "Error: open failed", "pyocd": "ended with 3"}
    for name, said in words.items():
        lines: list[str] = []
        with pytest.raises(CheckFailed) as caught:
            run(tmp_path, choose(board_with(EVERY), name), lines.append)
        assert str(caught.value).startswith(f"{name}: {said}")


def test_a_failed_line_ends_it(path: Path, tmp_path: Path) -> None:
    install(path, "probe-rs", 'echo "$@" >> called; [ "$1" != download ]')
    with pytest.raises(CheckFailed):
        run(tmp_path, choose(board_with(EVERY), "probe-rs"), lambda _: None)
    assert (tmp_path / "called").read_text().splitlines() == [LINES["probe-rs"][0].removeprefix("probe-rs ")]


def test_what_a_tool_prints_cannot_steer_the_terminal(path: Path, tmp_path: Path) -> None:
    install(path, "esptool", "printf '\\033[2Jhello\\n'")
    lines: list[str] = []
    run(tmp_path, Way("esptool", (("esptool",),)), lines.append)
    assert lines == ["\\x1b[2Jhello"]


def test_the_command_builds_prints_the_line_and_runs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    if shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip("arm-none-eabi-gcc is not installed")
    folder = tmp_path / "package"
    assert main(["generate", str(EXAMPLES / "load-moe/top1-e3-tiny"), "--board", "stm32f405", "-o", str(folder)]) == 0
    monkeypatch.setenv("PATH", str(tmp_path))
    capfd.readouterr()
    assert main(["flash", str(folder), "--tool", "st-flash"]) == 4
    assert capfd.readouterr().out == ""
    assert main(["flash", str(folder), "--tool", "st-flash", "--dry-run"]) == 0
    captured = capfd.readouterr()
    assert captured.out.splitlines() == LINES["st-flash"]
    assert captured.err.startswith("colibri: warning: board stm32f405: st-flash is not here; for st-flash: ")

    monkeypatch.setenv("PATH", f"{tmp_path}:{'/usr/bin:/bin'}")
    install(tmp_path, "st-flash", 'test -s "$5" && echo "wrote $5"')
    capfd.readouterr()

    assert main(["flash", str(folder), "--tool", "st-flash", "--dry-run"]) == 0
    assert capfd.readouterr().out.splitlines() == LINES["st-flash"]
    assert not (folder / "build").exists()

    assert main(["flash", str(folder), "--tool", "st-flash"]) == 0
    captured = capfd.readouterr()
    assert captured.out.splitlines() == [*LINES["st-flash"], "written with st-flash"]
    assert captured.err == "  wrote build/product.hex\n"

    assert main(["flash", str(folder), "--tool", "st-flash", "--json"]) == 0
    assert json.loads(capfd.readouterr().out) == {"tool": "st-flash", "lines": LINES["st-flash"], "ran": True}


def test_a_board_with_linux_gets_a_copy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "package"
    assert main(["generate", str(EXAMPLES / "load-moe/top1-e3-tiny"), "--board", "x86-64-v3", "-o", str(folder)]) == 0
    capsys.readouterr()
    assert main(["flash", str(folder)]) == 0
    assert "scp build/product.elf USER@HOST:" in capsys.readouterr().out
    assert main(["flash", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ran"] is False


def test_what_the_board_needs_besides_is_said(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The Pico has a second stage of somebody else's before the program."""
    folder = tmp_path / "package"
    checkpoint = str(EXAMPLES / "load-moe/top1-e3-tiny")
    assert main(["generate", checkpoint, "--board", "raspberry-pi-pico", "-o", str(folder)]) == 0
    capsys.readouterr()
    (tmp_path / "mounts").write_text("/dev/sdb1 /media/me/RPI-RP2 vfat rw 0 0\n")
    assert main(["flash", str(folder), "--dry-run"]) == 0
    captured = capsys.readouterr()
    assert captured.out.splitlines() == ["cp build/product.uf2 /media/me/RPI-RP2/", "sync"]
    assert captured.err.startswith("colibri: warning: flash needs a second-stage bootloader")


def test_families_are_those_of_the_published_list() -> None:
    """The list is utils/uf2families.json of github.com/microsoft/uf2, as the converter carries it."""
    text = (files("adafruit_uf2") / "uf2families.json").read_text()
    families = {int(one["id"], 16): one["short_name"] for one in json.loads(text)}
    named = {name: families[uf2] for name in board_names() if (uf2 := load_board(name).flash.uf2)}
    assert named == {
        "raspberry-pi-pico": "RP2040",
        "raspberry-pi-pico-2": "RP2350_ARM_S",
        "raspberry-pi-pico-2-riscv": "RP2350_RISCV",
    }


@pytest.mark.parametrize("name", [name for name in board_names() if load_board(name).kind is BoardKind.BARE])
def test_openocd_has_the_files_that_boards_name(name: str) -> None:
    scripts = Path("/usr/share/openocd/scripts")
    if not scripts.is_dir():
        pytest.skip("openocd is not installed")
    for file in load_board(name).flash.openocd:
        assert (scripts / file).is_file(), file
