"""Compile the plugin on the machine that runs QEMU, once, into the user's cache."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

from colibri.checkpoint.untrusted import is_regular_file
from colibri.errors import BuildFailed, ToolMissing, UsageError, lack_of_room, no_room

_FOLDER = Path(__file__).resolve().parent
_MAIN = _FOLDER / "observer.c"
_HINT = "make room, or set XDG_CACHE_HOME to a folder with room"
_FLAGS = ("-std=gnu11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall", "-Wextra")


def build_plugin(cache: Path | None = None) -> Path:
    """Return the plugin's shared object, compiled if the cache has none of these very sources.

    Args:
        cache: folder to keep it in; by default ``colibri`` in ``$XDG_CACHE_HOME`` or ``~/.cache``.

    Raises:
        ToolMissing: no C compiler for the host.
        BuildFailed: the compiler refuses the source.
        UsageError: nothing can be written into the cache.
    """
    folder = cache if cache is not None else _default_cache()
    built = folder / f"observer-{platform.machine()}-{_fingerprint()}.so"
    if is_regular_file(built):
        return built
    compiler = next((path for name in ("cc", "gcc", "clang") if (path := shutil.which(name))), None)
    if compiler is None:
        raise ToolMissing("no C compiler to build the QEMU plugin", hint="sudo apt-get install gcc libc6-dev")
    try:
        _compile(compiler, folder, built)
    except OSError as error:
        raise no_room(f"cache {folder}", error, _HINT) from None
    return built


def _compile(compiler: str, folder: Path, built: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    # several processes may build at once: each its own file, the last rename wins.
    with tempfile.TemporaryDirectory(prefix="building-", dir=folder) as private:
        beside = Path(private) / built.name
        command = [compiler, *_FLAGS, "-o", str(beside), *(str(one) for one in _sources() if one.suffix == ".c")]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        if done.returncode != 0:
            said = done.stderr.decode(errors="replace").strip()
            if full := lack_of_room(said):
                raise full
            raise BuildFailed("the QEMU plugin does not compile", where=str(_MAIN), hint=said[-500:])
        beside.replace(built)


def _default_cache() -> Path:
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        return (base if base.is_absolute() else Path.home() / ".cache") / "colibri"
    except RuntimeError:
        raise UsageError("there is no home folder to keep the QEMU plugin in", where="cache", hint=_HINT) from None


def _sources() -> list[Path]:
    return sorted(_FOLDER.glob("*.[ch]"))


def _fingerprint() -> str:
    digest = hashlib.sha256(" ".join(_FLAGS).encode())
    for path in _sources():
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
