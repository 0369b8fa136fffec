"""Every port compiles without a warning under the package's flags, with both compilers."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from colibri.paths import data_folder

PORTS = data_folder("runtime_c") / "ports"
FLAGS = ["-std=c11", "-O2", "-ffreestanding", "-ffp-contract=off", "-fno-math-errno", "-ffunction-sections"]
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]

M4 = ["-mthumb", "-mcpu=cortex-m4", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard"]
RV32 = ["-march=rv32imac", "-mabi=ilp32", "-mcmodel=medany"]
RV64 = ["-march=rv64imafdc", "-mabi=lp64d", "-mcmodel=medany"]
TARGETS = {
    "cortex_m": ("arm-none-eabi-gcc", "thumbv7em-none-eabihf", [*M4, "-DPORT_TRAP_BKPT"]),
    "cortex_m user mode": ("arm-none-eabi-gcc", "thumbv7em-none-eabihf", [*M4, "-DPORT_TRAP_SVC"]),
    "riscv": ("riscv64-unknown-elf-gcc", "riscv32-unknown-elf", [*RV32, "-DPORT_TRAP_EBREAK"]),
    "riscv 64": ("riscv64-unknown-elf-gcc", "riscv64-unknown-elf", [*RV64, "-DPORT_TRAP_EBREAK"]),
    "posix": ("gcc", "x86_64-linux-gnu", []),
    "posix aarch64": ("aarch64-linux-gnu-gcc", "aarch64-linux-gnu", []),
}


def compiler(target: str, *, clang: bool) -> list[str]:
    """The command and the flags of a target; skips when it is not installed."""
    gcc, triple, flags = TARGETS[target]
    command = ["clang", f"--target={triple}"] if clang else [gcc]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    return [*command, *flags]


@pytest.mark.parametrize("clang", [False, True], ids=["gcc", "clang"])
@pytest.mark.parametrize("target", TARGETS)
def test_no_warning(target: str, clang: bool, tmp_path: Path) -> None:
    bare = not target.startswith("posix")
    shared = ["frames.c", "fault.c", *(["semihosting.c", "memory.c"] if bare else [])]
    sources = [PORTS / name for name in shared] + sorted((PORTS / target.split()[0]).glob("*.c"))
    command = [*compiler(target, clang=clang), *FLAGS, *WARNINGS, "-c", *map(str, sources)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("clang", [False, True], ids=["gcc", "clang"])
@pytest.mark.parametrize("target", ["cortex_m", "riscv"])
@pytest.mark.parametrize("level", ["-O2", "-O3", "-Os"])
def test_memory_functions_do_not_call_themselves(target: str, clang: bool, level: str, tmp_path: Path) -> None:
    """A compiler that recognises the loop in memset would replace it by a call to memset."""
    output = tmp_path / "memory.s"
    command = [*compiler(target, clang=clang), *FLAGS, level, "-S", "-o", str(output), str(PORTS / "memory.c")]
    subprocess.run(command, check=True)
    function, calls = "", set()
    for line in output.read_text().splitlines():
        if label := re.match(r"(\w+):", line):
            function = label[1]
        elif call := re.match(r"\s+(?:b|bl|b\.w|j|call|tail|jal)\s+(mem\w+)", line):
            calls.add((function, call[1]))
    assert calls <= {("memmove", "memcpy")} | {
        (f"__aeabi_{name}{width}", called)
        for name, called in (("memcpy", "memcpy"), ("memmove", "memmove"), ("memset", "memset"), ("memclr", "memset"))
        for width in ("", "4", "8")
    } | {(f"__aeabi_memmove{width}", "memcpy") for width in ("", "4", "8")}


def test_the_trap_must_be_chosen(tmp_path: Path) -> None:
    gcc = compiler("riscv", clang=False)
    command = [word for word in gcc if not word.startswith("-DPORT")] + [*FLAGS, "-c", str(PORTS / "semihosting.c")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "-DPORT_TRAP_BKPT" in done.stderr
