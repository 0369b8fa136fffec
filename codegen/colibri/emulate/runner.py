"""Run an image: in QEMU, in a WebAssembly runtime, in Wine, or natively; one call for all."""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from colibri.boards.host import unlike_host
from colibri.boards.profile import Board, Emulator, EmulatorKind
from colibri.emulate import monitor
from colibri.emulate.faults import Fault, find_fault, signal_fault
from colibri.emulate.plugin import Observation, Plugin, build_plugin, read_observation
from colibri.emulate.process import started
from colibri.emulate.symbols import Symbols
from colibri.emulate.wasm import find_trap, node_command, wasmtime_command
from colibri.errors import BadInput, EmulatorFailed, ToolMissing, UsageError
from colibri.scratch import scratch_folder, write_scratch

REQUEST_NAME = "request.bin"  # the file that a bare-metal port reads; a Linux program reads its standard input

_RESULTS_NAME = "observation"
_STDERR_NAME = "stderr"
_LAST_LINES = 3
_FAULT_EXIT = 125  # PORT_FAULT_EXIT in runtime_c/ports/fault.h
_OUTPUT_LIMIT = 256 << 20  # bytes; a program that writes more has run away
_GRACE = 2.0  # seconds for a program that was told to stop to say where it was

# Nothing of Wine's on standard error, nothing in the user's menus, no question what to install for other programs.
_WINE = {"WINEDEBUG": "-all", "WINEDLLOVERRIDES": "mscoree,mshtml=;winemenubuilder.exe=d"}


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes:
        exit_code: the program's own, or minus the number of the signal that ended the emulator.
        output: everything the program wrote to its console.
        stderr: what the emulator (or a native program) wrote there.
        fault: why the program died, or where it hung; None in an outcome that `run` returns.
        observation: the plugin's results; None without a plugin.
        seconds: wall-clock time.
    """

    exit_code: int
    output: bytes
    stderr: str
    fault: Fault | None = None
    observation: Observation | None = None
    seconds: float = 0.0


class RunFailed(EmulatorFailed):
    """A run that hung, crashed or could not start; ``outcome`` holds what is known of it."""

    def __init__(self, what: str, *, where: str, hint: str, outcome: Outcome) -> None:
        """Keep the outcome beside the message."""
        super().__init__(what, where=where, hint=hint)
        self.outcome = outcome


def run(
    image: Path,
    board: Board,
    emulator: Emulator,
    *,
    request: bytes = b"",
    timeout: float = 60.0,
    plugin: Plugin | None = None,
    on_output: Callable[[bytes], None] | None = None,
) -> Outcome:
    """Run ``image`` to its end and return its exit code and output, whatever the code is.

    Runs are independent of each other: each has its own folder, and nothing is read from the terminal.

    Args:
        image: the image that was linked for this emulator.
        request: what the program gets from ``port_read``.
        timeout: seconds of wall-clock time.
        plugin: what to observe; QEMU only.
        on_output: called with each piece of console output as it comes.

    Raises:
        BadInput: no such image.
        ToolMissing: the emulator, or a compiler for the plugin, is not installed.
        UsageError: a plugin for a run outside QEMU.
        RunFailed: the program faulted, hung (the message has the program counter) or wrote without end, or the
            emulator refused to run it.
    """
    if not image.is_file():
        raise BadInput("no such image", where=str(image))
    if plugin is not None and not emulator.kind.is_qemu:
        raise UsageError(f"the plugin observes QEMU, not a {emulator.kind} run", where=f"{board.id} on {emulator.name}")
    with scratch_folder("run") as folder:
        write_scratch(folder / REQUEST_NAME, request)
        command = command_line(image.resolve(), emulator, folder, plugin)
        attempt = _Attempt(emulator, folder, command, image)
        began = time.monotonic()
        attempt.follow(timeout, on_output)
        outcome = attempt.outcome(time.monotonic() - began)
        problem = attempt.problem(timeout, outcome)
        if problem:
            native = emulator.kind is EmulatorKind.NATIVE
            hint = (unlike_host(board) if native else "") or _last_lines(outcome)
            raise RunFailed(problem, where=f"{board.id} on {emulator.name}", hint=hint, outcome=outcome)
        if plugin is not None:
            observation = read_observation(folder / _RESULTS_NAME, checked=plugin.check)
            return replace(outcome, observation=observation)
        return outcome


def command_line(image: Path, emulator: Emulator, folder: Path, plugin: Plugin | None = None) -> list[str]:
    """Return the command that runs an image, to be started in ``folder``.

    Raises:
        ToolMissing: the emulator, or a compiler for the plugin, is not installed.
    """
    if emulator.kind is EmulatorKind.NATIVE:
        return [str(image)]
    if emulator.kind is EmulatorKind.WASMTIME:
        return wasmtime_command(image)
    program = shutil.which(emulator.program)
    if program is None:
        packages = " ".join(emulator.apt)
        hint = f"sudo apt-get install {packages}" if packages else ""
        raise ToolMissing("emulator is not installed", where=emulator.program, hint=hint)
    if emulator.kind is EmulatorKind.NODE:
        return node_command(program, image)
    command = [program, *emulator.args]
    if plugin is not None:
        command += ["-plugin", plugin.option(build_plugin(), Path(_RESULTS_NAME))]
    if emulator.kind is EmulatorKind.QEMU_SYSTEM:
        command += ["-nographic", "-serial", "none", "-monitor", monitor.OPTION]
        command += ["-semihosting-config", "enable=on,target=native", "-kernel"]
    return [*command, str(image)]


class _Attempt:
    """One process and what became of it."""

    def __init__(self, emulator: Emulator, folder: Path, command: list[str], image: Path) -> None:
        self._emulator = emulator
        self._folder = folder
        self._command = command
        self._image = image
        self._output = bytearray()
        self._exit_code = 0
        self._timed_out = False
        self._hung_at: dict[str, int] = {}

    def follow(self, timeout: float, on_output: Callable[[bytes], None] | None) -> None:
        """Start the process and stay until it has ended, by itself or by force."""
        with self._process() as process:
            deadline = time.monotonic() + timeout
            for piece in _pieces(process, deadline):
                self._output += piece
                if on_output is not None:
                    on_output(piece)
                if len(self._output) > _OUTPUT_LIMIT:
                    break
            ran_away = len(self._output) > _OUTPUT_LIMIT  # then it waits to be read, and would until the deadline
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.0 if ran_away else max(0.0, deadline - time.monotonic()))
            if process.poll() is None:
                self._timed_out = not ran_away
                self._question(process)
        self._exit_code = process.returncode

    def outcome(self, seconds: float) -> Outcome:
        stderr = (self._folder / _STDERR_NAME).read_bytes().decode(errors="replace")
        return Outcome(self._exit_code, bytes(self._output), stderr, self._fault(stderr), None, seconds)

    def problem(self, timeout: float, outcome: Outcome) -> str:
        """What to tell the user, or nothing when the program ended by itself."""
        if self._timed_out:
            place = f" at 0x{outcome.fault.pc:x}" if outcome.fault and outcome.fault.pc is not None else ""
            place += f" in {outcome.fault.symbol}" if outcome.fault and outcome.fault.symbol else ""
            return f"no end after {timeout:g} s, stopped{place or '; where is not known'}"
        if len(self._output) > _OUTPUT_LIMIT:
            return f"wrote more than {_OUTPUT_LIMIT >> 20} MB"
        if outcome.fault is not None:
            return str(outcome.fault)
        if self._emulator.kind is not EmulatorKind.NATIVE and outcome.exit_code != 0:
            complaint = _complaint(self._emulator.program, outcome.stderr)
            return f"the emulator gave up: {complaint}" if complaint else ""
        return ""

    @contextlib.contextmanager
    def _process(self) -> Iterator[subprocess.Popen[bytes]]:
        """The running process, alone in its group, which does not outlive the block."""
        reads_request = self._emulator.kind is not EmulatorKind.QEMU_SYSTEM
        source = self._folder / REQUEST_NAME if reads_request else Path(os.devnull)
        with (
            source.open("rb") as stdin,
            (self._folder / _STDERR_NAME).open("wb") as stderr,
            started(self._command, self._folder, stdin, subprocess.PIPE, stderr, self._environment()) as process,
        ):
            yield process

    def _environment(self) -> dict[str, str]:
        """Variables of the emulator's own, besides the user's."""
        return _WINE if self._emulator.kind is EmulatorKind.WINE else {}

    def _question(self, process: subprocess.Popen[bytes]) -> None:
        """Find out where a hung program is: by QEMU's monitor, or by a signal that the port answers."""
        if self._emulator.kind is EmulatorKind.QEMU_SYSTEM:
            self._hung_at = monitor.ask_registers(self._folder)
            return
        process.send_signal(signal.SIGTERM)
        for piece in _pieces(process, time.monotonic() + _GRACE):
            self._output += piece
            if len(self._output) > 2 * _OUTPUT_LIMIT:
                break

    def _fault(self, stderr: str) -> Fault | None:
        fault = self._reported() if self._timed_out or self._exit_code == _FAULT_EXIT else None
        if fault is None and not self._timed_out and self._exit_code < 0:
            dump = monitor.parse_registers(stderr)  # QEMU's own, when the processor locked up
            if "pc" not in dump:
                return signal_fault(-self._exit_code)
            fault = Fault("lockup", dump["pc"], registers=dump)
        if fault is None and not self._timed_out and self._exit_code == _FAULT_EXIT and (trap := find_trap(stderr)):
            return Fault(trap)
        if fault is None or self._emulator.kind is EmulatorKind.WINE:  # whose images have symbols of another form
            return fault
        return fault.named(Symbols.of(self._image))

    def _reported(self) -> Fault | None:
        """What the monitor said of a hung processor, or else what the port said on the console."""
        if self._hung_at:
            return Fault("hang", self._hung_at.get("pc"), registers=self._hung_at)
        return find_fault(bytes(self._output))


def _pieces(process: subprocess.Popen[bytes], deadline: float) -> Iterator[bytes]:
    """The process's output as it comes, until it closes it or the deadline is over."""
    stream = process.stdout
    if stream is None:
        return
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while (left := deadline - time.monotonic()) > 0:
            if selector.select(left):
                piece = os.read(stream.fileno(), 65536)
                if not piece:
                    return
                yield piece


def _complaint(program: str, stderr: str) -> str:
    """What the emulator itself says is wrong; guests write elsewhere. Warnings do not end a run."""
    names = "|".join(re.escape(name) for name in (program, "qemu", "colibri plugin", "colibri host") if name)
    lines = [line for line in stderr.splitlines() if re.match(rf"(?:{names}): ", line)]
    errors = [line for line in lines if "warning:" not in line]
    return errors[-1] if errors else ""


def _last_lines(outcome: Outcome) -> str:
    lines = [line for line in outcome.output.decode(errors="replace").splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith("!fault ")] or outcome.stderr.splitlines()
    return f"last output: {' | '.join(line[-200:] for line in lines[-_LAST_LINES:])}" if lines else "no output"
