"""Ask compilers and emulators what they can do, by letting them do it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from pathlib import Path

from colibri.boards.host import host_name, unlike_host
from colibri.boards.profile import Board, BoardKind, CompilerFamily, Emulator, EmulatorKind
from colibri.boards.words import meant
from colibri.emulate.wasm import WASMTIME_HINT
from colibri.errors import ToolMissing, shown
from colibri.scratch import refuse_without_room, scratch_folder, write_scratch
from colibri.toolchain.compiler import Installed

_TIMEOUT = 60.0  # seconds; a compiler on a network drive may be slow the first time
_LIBRARIES = 600.0  # seconds; zig makes its C library when it first links for a processor
_ANSWER = 15.0  # seconds to say what one is

# Both divisions call libgcc on a core without an FPU, the second on every 32-bit core, so a compiler without the
# board's libgcc fails. Nothing here may be known at compile time.
_BARE_PROGRAM = """\
volatile float quotient = 3.0f;
volatile long long wide = 7;
void _start(void) { quotient = quotient / (float)wide; wide = wide / (long long)quotient; for (;;) { } }
"""
_LINUX_PROGRAM = """\
#include <stdio.h>
int main(void) { return puts("hello") < 0; }
"""
_FP32_BITS = 32  # of __riscv_flen, the width of the floating-point registers
_ARM_FP32 = 1 << 2  # of __ARM_FP, where bit n stands for a width of 8 << n bits (Arm C Language Extensions)


@dataclass(frozen=True)
class EmulatorProbe:
    """What an emulator said.

    Attributes:
        version: its version line; for native runs the kind of machine.
        problem: why the board's image cannot run in it; empty when it can.
    """

    version: str
    problem: str = ""


def program_version(program: str) -> str:
    """The first line of ``program --version``; empty when it is not installed or has no such option."""
    return first_line_of((program, "--version"))


def first_line_of(command: Sequence[str]) -> str:
    """The first line that a command prints; empty when it fails."""
    code, output = _run(command)
    return _first_line(output) if code == 0 else ""


def ask_family(program: Path) -> tuple[CompilerFamily | None, str]:
    """Whose compiler a program is, by the macros that it defines; else None, and why it is none."""
    if program.is_dir() or not os.access(program, os.X_OK):
        return None, "is not executable"
    question = ["-dM", "-E", "-x", "c", os.devnull]
    code, text = _run([str(program), *question], timeout=_ANSWER)
    if code == 0 and "#define __clang__ " in text:
        return CompilerFamily.CLANG, ""
    if code == 0 and "#define __GNUC__ " in text:
        return CompilerFamily.GCC, ""
    if program.name.startswith("zig"):
        code, text = _run([str(program), "cc", *question], timeout=_ANSWER)
        if code == 0 and "#define __clang__ " in text:
            return CompilerFamily.ZIG, ""
    said = _complaint(text) or f"ended with {code} and said nothing"
    return None, f"is no C compiler of a family that Colibri knows: {shown(said)}"


def why_not_compile(installed: Installed, board: Board) -> str:
    """Compile a line for the board and return the first line of the compiler's error; empty when it compiles."""
    return _why_not(installed, board, ["-c"], [])


def why_not_link(installed: Installed, board: Board) -> str:
    """The same, for a program that links.

    Bare metal links the compiler's library and nothing else, WebAssembly nothing, Linux and Windows the C library
    statically.
    """
    compiler = installed.compiler
    bare = board.kind is BoardKind.BARE
    libraries = list(compiler.bare_libraries) if bare else []
    if compiler.library:
        if installed.which(compiler.library[0]) is None:
            what = "bare metal" if bare else "this system"
            return f"has no library for {what} of its own, and {compiler.library[0]}, which has one, is not installed"
        found = first_line_of((installed.which(compiler.library[0]) or "", *compiler.library[1:]))
        libraries = [found if bare else f"-L{Path(found).parent}"] if found else []
    return _why_not(installed, board, compiler.link_options(board.kind), libraries)


def why_no_flags(installed: Installed) -> str:
    """Return the first line of the error when the compiler works but rejects the board's flags; else nothing.

    The program needs no header and no library, so nothing but the flags can be wrong with it.
    """
    with scratch_folder("probe") as folder:
        source = folder / "empty.c"
        write_scratch(source, b"int nothing;\n")
        rest = ["-c", str(source), "-o", str(folder / "empty.o")]
        code, text = _run([*installed.command, *rest])
        rejected = code != 0 and _run([*installed.driver, *rest])[0] == 0
    return _complaint(text) or f"ended with {code} and said nothing" if rejected else ""


def compiles_for_fpu(installed: Installed, board: Board) -> bool | None:
    """Whether fp32 arithmetic becomes instructions under the board's flags, by the compiler's own macros.

    None when the compiler does not answer.
    """
    code, text = _run([*installed.command, "-dM", "-E", "-x", "c", os.devnull])
    if code != 0:
        return None
    macros = dict(re.findall(r"^#define (\w+) (\w+)$", text, re.MULTILINE))
    if board.cpu.arch == "wasm32":
        return True  # of every WebAssembly
    if board.cpu.arch == "x86_64":
        return "__SSE_MATH__" in macros or "__SSE__" in macros
    if board.cpu.arch.startswith("riscv"):
        return int(macros.get("__riscv_flen", "0"), 0) >= _FP32_BITS
    return bool(int(macros.get("__ARM_FP", "0"), 0) & _ARM_FP32)


def examine_emulator(board: Board, emulator: Emulator, installed: Installed | None = None) -> EmulatorProbe:
    """Find out whether an emulator is there, knows the machine and the processor, and runs a Linux board's program.

    Args:
        installed: a compiler that links for the board, to make that program; without it nothing is run.
    """
    probe = _examine_names(board, emulator)
    if probe.problem or installed is None or board.kind is not BoardKind.LINUX:
        return probe
    return replace(probe, problem=_why_not_run(installed, board, emulator))


def _examine_names(board: Board, emulator: Emulator) -> EmulatorProbe:
    if emulator.kind is EmulatorKind.NATIVE:
        return EmulatorProbe(host_name(), unlike_host(board))
    if emulator.kind is EmulatorKind.WASMTIME:
        return _examine_wasmtime()
    if shutil.which(emulator.program) is None:
        return EmulatorProbe("", "not installed")
    found = program_version(emulator.program)
    if not emulator.kind.is_qemu:
        return EmulatorProbe(found)
    for options, what in ((("-M", "-machine"), "machine"), (("-cpu",), "processor")):
        name = _value_of(emulator.args, options)
        if name and name not in (known := _known_names(emulator, options[0])):
            hint = meant(name, known)
            return EmulatorProbe(found, f"does not know {what} {name!r}{f'; {hint}' if hint else ''}")
    return EmulatorProbe(found)


def probe_emulator(board: Board, emulator: Emulator, installed: Installed | None = None) -> str:
    """Return the version line of an emulator that can run the board's image.

    Args:
        installed: as `examine_emulator` takes it.

    Raises:
        ToolMissing: it is not installed, does not know the machine or the processor, or does not run a program;
            the hint installs it.
    """
    result = examine_emulator(board, emulator, installed)
    if result.problem:
        program = emulator.program or emulator.name
        raise ToolMissing(f"{program}: {result.problem}", where=f"board {board.id}", hint=install_command(emulator.apt))
    return result.version


def install_command(apt: Sequence[str]) -> str:
    """The line that installs Debian packages; empty when there is none to install."""
    return f"sudo apt-get install {' '.join(apt)}" if apt else ""


def _why_not(installed: Installed, board: Board, before: Sequence[str], after: Sequence[str]) -> str:
    with scratch_folder("probe") as folder:
        return _compile(installed, board, folder / "probe", before, after)


def _compile(installed: Installed, board: Board, output: Path, before: Sequence[str], after: Sequence[str]) -> str:
    """Make ``output``; return the first line of the error."""
    bare = board.kind in (BoardKind.BARE, BoardKind.WASM)
    source = output.with_suffix(".c")
    write_scratch(source, (_BARE_PROGRAM if bare else _LINUX_PROGRAM).encode())
    options = ["-std=c11", "-O2", *(["-ffreestanding"] if bare else []), *board.toolchain.cflags]
    timeout = _LIBRARIES if installed.compiler.family is CompilerFamily.ZIG else _TIMEOUT
    command = [*installed.command, *options, *before, str(source), "-o", str(output), *after]
    code, text = _run(command, timeout=timeout)
    if code == 0:
        return ""
    refuse_without_room(text)
    return _complaint(text) or f"ended with {code} and said nothing"


def _why_not_run(installed: Installed, board: Board, emulator: Emulator) -> str:
    """Run a program in the emulator and return what went wrong."""
    with scratch_folder("probe") as folder:
        program = folder / "probe"
        if reason := _compile(installed, board, program, installed.compiler.link_options(board.kind), []):
            return f"there is no program to try it with: {reason}"
        starter = [emulator.program, *emulator.args] if emulator.program else []
        code, text = _run([*starter, str(program)])
    if code == 0 and _first_line(text) == "hello":
        return ""
    return f"does not run a program: {_first_line(text) or f'it ended with {code}'}"


def _run(command: Sequence[str], timeout: float = _TIMEOUT) -> tuple[int, str]:
    """Exit code, and what came out and on standard error, in English."""
    environment = {**os.environ, "LC_ALL": "C", "WINEDEBUG": "-all"}
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        return -1, f"error: {error.strerror}"
    with process:
        try:
            output, _ = process.communicate(timeout=timeout)
        except BaseException as error:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # with all that it started
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            return -1, f"error: no answer within {timeout:g} s"
    return process.returncode, output.decode(errors="replace")


def _complaint(output: str) -> str:
    """The first line that names an error, else the first line."""
    errors = (line for line in output.splitlines() if re.search(r"\berror:|cannot find|undefined reference", line))
    return next(errors, _first_line(output)).strip()


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _value_of(args: Sequence[str], options: Sequence[str]) -> str:
    """What follows an option, up to its first comma; empty without the option."""
    values = [value for option, value in pairwise(args) if option in options]
    return values[-1].split(",")[0] if values else ""


def _known_names(emulator: Emulator, option: str) -> set[str]:
    """Names that ``-M help`` or ``-cpu help`` lists: the first word of a line, on x86 the second."""
    command = [emulator.program, option, "help"]
    if option == "-cpu" and (machine := _value_of(emulator.args, ("-M", "-machine"))):
        command[1:1] = ["-M", machine]
    _, output = _run(command)
    return {word for line in output.splitlines() for word in line.split()[:2]}


def _examine_wasmtime() -> EmulatorProbe:
    try:
        return EmulatorProbe(f"wasmtime {version('wasmtime')} (Python package)")
    except PackageNotFoundError:
        return EmulatorProbe("", f"not installed; {WASMTIME_HINT}")
