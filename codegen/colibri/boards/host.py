"""Whether the machine that this runs on is like a board."""

from __future__ import annotations

import platform
import re
from pathlib import Path

from colibri.boards.profile import Board

_MACHINE_NAMES = {"amd64": "x86_64", "arm64": "aarch64"}
_AVX512 = ("avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl")

# What options take for granted, by the names in /proc/cpuinfo.
_X86_FEATURES = {
    "-march=x86-64-v2": ("cx16", "lahf_lm", "popcnt", "sse4_2", "ssse3"),
    "-march=x86-64-v3": ("abm", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"),
    "-march=x86-64-v4": ("abm", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", *_AVX512),
    "-mavx512vnni": ("avx512_vnni",),
}


def host_name() -> str:
    """System and architecture, as ``Linux on x86_64``."""
    return f"{platform.system()} on {_architecture()}"


def unlike_host(board: Board) -> str:
    """Why this machine cannot run the programs of a Linux board itself; empty when it can."""
    if platform.system() != "Linux" or _architecture() != board.cpu.arch:
        return f"this machine is {host_name()}, not Linux on {board.cpu.arch}"
    needed = [feature for flag in board.toolchain.flags for feature in _X86_FEATURES.get(flag, ())]
    missing = sorted(set(needed) - _features())
    return f"this processor has no {', '.join(missing)}" if missing else ""


def _architecture() -> str:
    machine = platform.machine().lower()
    return _MACHINE_NAMES.get(machine, machine)


def _features() -> set[str]:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return set()
    flags = re.search(r"^flags\s*:(.*)$", text, re.MULTILINE)
    return set(flags[1].split()) if flags else set()
