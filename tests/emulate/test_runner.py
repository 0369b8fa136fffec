"""What the runner does when things go wrong before or beside the program."""

from __future__ import annotations

import os
import stat
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from colibri.boards import host
from colibri.boards.load import load_board
from colibri.boards.profile import Board, Emulator, EmulatorKind
from colibri.emulate.faults import find_fault
from colibri.emulate.monitor import parse_registers
from colibri.emulate.plugin import AddressRange, Plugin, build_plugin, memory_check
from colibri.emulate.plugin.request import merged
from colibri.emulate.protocol import Request, encode_requests
from colibri.emulate.runner import RunFailed, run
from colibri.emulate.symbols import Symbols
from colibri.errors import BadInput, BuildFailed, ToolMissing

DeviceBuilder = Callable[[Board, Emulator], Path]

PC = load_board("x86-64-v3")
NATIVE = next(emulator for emulator in PC.emulators if emulator.kind is EmulatorKind.NATIVE)


def script(folder: Path, text: str) -> Path:
    path = folder / "program"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_missing_emulator_names_its_package(tmp_path: Path) -> None:
    emulator = Emulator(
        "none", EmulatorKind.QEMU_SYSTEM, NATIVE.proves, program="qemu-system-none", apt=("qemu-system-none",)
    )
    with pytest.raises(ToolMissing, match=r"qemu-system-none: .*sudo apt-get install qemu-system-none"):
        run(script(tmp_path, ""), PC, emulator)


def test_missing_image(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no such image"):
        run(tmp_path / "nothing.elf", PC, NATIVE)


def test_exit_code_and_streams(tmp_path: Path) -> None:
    outcome = run(script(tmp_path, "cat; echo oops >&2; exit 3"), PC, NATIVE, request=b"in and out")
    assert (outcome.exit_code, outcome.output, outcome.stderr) == (3, b"in and out", "oops\n")


def test_an_older_processor_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "_features", set)
    with pytest.raises(RunFailed, match=r"ended by SIGILL.*; this processor has no abm, avx2, "):
        run(script(tmp_path, "kill -ILL $$"), PC, NATIVE)


def test_signal_before_the_port_can_speak(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match=r"ended by SIGSEGV.*last output: about to die"):
        run(script(tmp_path, "echo about to die; kill -SEGV $$"), PC, NATIVE)


def test_a_process_that_ignores_everything_is_killed_with_its_children(tmp_path: Path) -> None:
    program = script(tmp_path, f"trap '' TERM\nsleep 60 &\necho $! > {tmp_path}/child\necho waiting\nwait\nsleep 60")
    began = time.monotonic()
    with pytest.raises(RunFailed, match=r"no end after 0\.2 s, stopped; where is not known; last output: waiting"):
        run(program, PC, NATIVE, timeout=0.2)
    assert time.monotonic() - began < 10
    child = int((tmp_path / "child").read_text())
    deadline = time.monotonic() + 2
    while _runs(child) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not _runs(child)


def test_a_program_that_writes_without_end_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("colibri.emulate.runner._OUTPUT_LIMIT", 1 << 20)
    began = time.monotonic()
    with pytest.raises(RunFailed, match=r"native: wrote more than 1 MB; last output: y \| y"):
        run(script(tmp_path, "exec yes"), PC, NATIVE, timeout=60)
    assert time.monotonic() - began < 30


def _runs(process: int) -> bool:
    """Whether a process is there and more than a zombie."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_environment_does_not_reach_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLIBRI_SECRET", "yes")
    assert b"COLIBRI_SECRET" not in run(script(tmp_path, "env"), PC, NATIVE).output
    assert os.environ["COLIBRI_SECRET"] == "yes"


@pytest.mark.parametrize(("said", "failed"), [("warning: no network", False), ("no such machine", True)])
def test_what_an_emulator_says_beside_an_exit_code(tmp_path: Path, said: str, failed: bool) -> None:
    """A warning of QEMU does not turn the program's own exit code into a failure of QEMU."""
    program = script(tmp_path, f"echo qemu: {said} >&2; exit 3")
    emulator = Emulator("fake", EmulatorKind.QEMU_USER, NATIVE.proves, program=str(program))
    if failed:
        with pytest.raises(RunFailed, match=f"the emulator gave up: qemu: {said}"):
            run(program, PC, emulator)
    else:
        assert run(program, PC, emulator).exit_code == 3


@pytest.mark.emulator
def test_emulator_that_refuses(device_image: DeviceBuilder) -> None:
    board = load_board("stm32f405")
    emulator = msgspec.structs.replace(board.emulators[0], args=("-M", "no-such-board"))
    image = device_image(board, board.emulators[0])
    with pytest.raises(RunFailed, match="the emulator gave up: qemu-system-arm: unsupported machine type"):
        run(image, board, emulator)


@pytest.mark.emulator
def test_lockup_is_reported_with_registers(device_image: DeviceBuilder) -> None:
    """An image without vectors on a core that reads them."""
    board, strange = load_board("stm32f405"), load_board("nucleo-h743zi")
    exact_map = next(emulator for emulator in strange.emulators if emulator.kind is EmulatorKind.QEMU_USER)
    with pytest.raises(RunFailed, match="lockup at 0x") as caught:
        run(device_image(strange, exact_map), board, board.emulators[0], timeout=10)
    fault = caught.value.outcome.fault
    assert fault is not None
    assert {"pc", "sp", "lr", "r00", "r12"} <= fault.registers.keys()


def test_registers_of_both_processors() -> None:
    arm = "R00=00000001 R01=20000000\r\nR12=00000000 R13=20000fe8 R14=08000153 R15=08000050\r\nXPSR=81000000 N-- T"
    riscv = " pc       80000010\n mhartid  00000000\n x0/zero 00000000 x1/ra 80000156 x2/sp 80401f60 x3/gp 80402800\n"
    assert parse_registers(arm)["pc"] == 0x08000050
    assert parse_registers(arm)["lr"] == 0x08000153
    assert parse_registers(arm)["sp"] == 0x20000FE8
    assert parse_registers(riscv) | {"zero": 0} == {
        "pc": 0x80000010, "lr": 0x80000156, "sp": 0x80401F60, "gp": 0x80402800, "zero": 0,
    }  # fmt: skip


def test_fault_words() -> None:
    symbols = Symbols(((0x100, 0x10, "first"), (0x110, 0, "assembly"), (0x200, 8, "last")), {})
    line = b"half a li\n!fault mcause=0x5 pc=0x104 mtval=0x40 sp=0x90000 stack_limit=0x80000\n"
    fault = find_fault(line)
    assert fault is not None
    assert str(fault.named(symbols)).startswith(
        "load from no memory at 0x104 in first+0x4, accessing 0x40 [mcause=0x5 "
    )
    assert find_fault(b"not at the start !fault pc=0x1\n") is None
    assert symbols.describe(0x150) == "assembly+0x40"
    assert symbols.describe(0x208) is None
    assert symbols.describe(0x10) is None


def test_plugin_is_built_once_and_found_again(tmp_path: Path) -> None:
    first = build_plugin(tmp_path)
    stamp = first.stat().st_mtime_ns
    assert build_plugin(tmp_path) == first
    assert first.stat().st_mtime_ns == stamp
    assert list(tmp_path.iterdir()) == [first]


def test_plugin_without_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolMissing, match="no C compiler"):
        build_plugin(tmp_path / "cache")
    (tmp_path / "cc").write_text("#!/bin/sh\necho cannot >&2\nexit 1\n")
    (tmp_path / "cc").chmod(0o755)
    with pytest.raises(BuildFailed, match="cannot"):
        build_plugin(tmp_path / "cache")


def test_ranges_are_merged() -> None:
    ranges = (AddressRange(8, 12), AddressRange(0, 4), AddressRange(4, 6), AddressRange(9, 10))
    assert merged(ranges) == [AddressRange(0, 6), AddressRange(8, 12)]


def test_paths_with_signs_that_qemu_reads() -> None:
    option = Plugin(check=True).option(Path("/tmp/a,b=c d/x.so"), Path("out"))
    assert option.startswith("file=/tmp/a,,b=c d/x.so,out=out,check=1")


@pytest.mark.parametrize("name", ["a,b", "a b", "a=b,c d"])
def test_temporary_folders_and_caches_of_any_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device_image: DeviceBuilder
) -> None:
    (tmp_path / name).mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / name))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / name))
    board = load_board("stm32f405")
    emulator = board.emulators[0]
    image = device_image(board, emulator)
    outcome = run(image, board, emulator, request=encode_requests([Request("E", b"ping")]), plugin=memory_check(image))
    assert outcome.exit_code == 42 and outcome.observation is not None
