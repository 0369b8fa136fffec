"""Compile and link a package with its build.ninja."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from colibri.errors import BuildFailed, ToolMissing
from colibri.toolchain.buildfiles import OVERSIZE

_OVERFLOW = re.compile(r"region [`'](\w+)' overflowed by (\d+) bytes|will not fit in region [`'](\w+)'")


def ninja_program() -> str:
    """The ninja of the `ninja` package, else of the PATH.

    Raises:
        ToolMissing: neither is there.
    """
    try:
        import ninja
    except ImportError:
        found = shutil.which("ninja")
        if found is None:
            raise ToolMissing("ninja is not installed", where="build", hint="pip install ninja") from None
        return found
    return str(Path(ninja.BIN_DIR) / "ninja")


def build(folder: Path, targets: Sequence[str] = ()) -> bool:
    """Run ninja in the package.

    Returns:
        whether the product fits: when the linker says that a region overflows, the image is linked once more
        without that check as `build/oversize.elf`, to be measured, and False is returned.

    Raises:
        BuildFailed: the compiler or the linker failed for another reason; the message holds its first error line.
        ToolMissing: no ninja.
    """
    for stale in (folder / OVERSIZE, folder / "build/product.elf"):
        stale.unlink(missing_ok=True)
    done = _run(folder, targets)
    if done.returncode == 0:
        return True
    if not _OVERFLOW.search(done.stdout):
        raise BuildFailed(_first_error(done.stdout), where=str(folder), hint="run ninja there to see all of it")
    oversize = _run(folder, [OVERSIZE])
    if oversize.returncode != 0:
        raise BuildFailed(_first_error(oversize.stdout), where=str(folder), hint=f"run `ninja {OVERSIZE}` there")
    return False


def _run(folder: Path, targets: Sequence[str]) -> subprocess.CompletedProcess[str]:
    command = [ninja_program(), "-C", str(folder), *targets]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


def _first_error(output: str) -> str:
    lines = [line for line in output.splitlines() if re.search(r"error|undefined reference|not found|No such", line)]
    return (lines or output.splitlines()[-1:] or ["ninja printed nothing"])[0].strip()
