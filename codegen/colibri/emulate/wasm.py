"""Runtimes for WebAssembly modules: which command starts a module as a WASI program."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

from colibri.errors import ToolMissing

WASMTIME_HINT = "pip install wasmtime"

_HOSTS = Path(__file__).parent / "hosts"
_TRAP = re.compile(r"^!trap (.+)$", re.MULTILINE)
_LONGEST = 200  # characters of a runtime's sentence


def wasmtime_command(image: Path) -> list[str]:
    """Wasmtime, as the Python package.

    Raises:
        ToolMissing: it is not installed.
    """
    if importlib.util.find_spec("wasmtime") is None:
        raise ToolMissing("emulator is not installed", where="wasmtime", hint=WASMTIME_HINT)
    return [sys.executable, "-P", str(_HOSTS / "wasmtime_host.py"), str(image)]


def node_command(program: str, image: Path) -> list[str]:
    """Node, with the functions of WASI that the module imports."""
    return [program, str(_HOSTS / "node_host.mjs"), str(image)]


def find_trap(stderr: str) -> str:
    """What a host said of the trap that ended the module, as a sentence; empty without one."""
    found = _TRAP.search(stderr)
    return found[1].strip()[:_LONGEST] if found else ""
