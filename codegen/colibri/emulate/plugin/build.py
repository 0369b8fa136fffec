"""Compile the plugin on the machine that runs QEMU, once, into the user's cache."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

from colibri.errors import BuildFailed, ToolMissing

_FOLDER = Path(__file__).resolve().parent
_SOURCES = ("observer.c", "qemu_api.h")
_FLAGS = ("-std=gnu11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall", "-Wextra")


def build_plugin(cache: Path | None = None) -> Path:
    """Return the plugin's shared object, compiled if the cache has none of these very sources.

    Args:
        cache: folder to keep it in; by default ``colibri`` in ``$XDG_CACHE_HOME`` or ``~/.cache``.

    Raises:
        ToolMissing: no C compiler for the host.
        BuildFailed: the compiler refuses the source.
    """
    folder = cache if cache is not None else _default_cache()
    built = folder / f"observer-{platform.machine()}-{_fingerprint()}.so"
    if built.is_file():
        return built
    compiler = next((path for name in ("cc", "gcc", "clang") if (path := shutil.which(name))), None)
    if compiler is None:
        raise ToolMissing("no C compiler to build the QEMU plugin", hint="sudo apt-get install gcc libc6-dev")
    folder.mkdir(parents=True, exist_ok=True)
    # several processes may build at once: each its own file, the last rename wins.
    with tempfile.TemporaryDirectory(prefix="building-", dir=folder) as private:
        beside = Path(private) / built.name
        command = [compiler, *_FLAGS, "-o", str(beside), str(_FOLDER / _SOURCES[0])]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BuildFailed(
                "the QEMU plugin does not compile", where=str(_FOLDER / _SOURCES[0]), hint=done.stderr.strip()[-500:]
            )
        beside.replace(built)
    return built


def _default_cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if Path(base).is_absolute() else Path.home() / ".cache") / "colibri"


def _fingerprint() -> str:
    digest = hashlib.sha256(" ".join(_FLAGS).encode())
    for name in _SOURCES:
        digest.update((_FOLDER / name).read_bytes())
    return digest.hexdigest()[:16]
