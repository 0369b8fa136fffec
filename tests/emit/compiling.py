"""Compile what was generated, with every warning an error."""

from __future__ import annotations

import subprocess
from pathlib import Path

from colibri.boards.profile import BoardKind
from colibri.package import load_package

COMPILERS = ("gcc", "clang")
WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror")
_FLAGS = ("-std=c11", "-O2", "-ffp-contract=off", "-fno-math-errno", *WARNINGS)


def _machine(package: Path) -> list[str]:
    """Flags of the board's processor when it is the host's own, as build.ninja has them."""
    if load_package(package).board.kind is BoardKind.BARE:
        return []
    lines = (package / "build.ninja").read_text().splitlines()
    return next(line for line in lines if line.startswith("cpu = ")).removeprefix("cpu = ").split()


def compile_strictly(package: Path, compiler: str, *, only_parse: bool = False) -> None:
    """Compile the model, the runtime and the two programs for the host; the least warning fails."""
    include = [f"-I{package}", f"-I{package / 'runtime/include'}", f"-I{package / 'runtime'}"]
    runtime = sorted((package / "runtime/core").glob("*.c"))
    for source in (package / "src/model.c", *runtime, package / "app/product.c", package / "app/test.c"):
        free = [] if source.parent.name == "app" else ["-ffreestanding"]
        model = source.name == "model.c" and not only_parse  # some warnings need the optimiser
        how = ["-c", "-o", "/dev/null"] if model else ["-fsyntax-only"]
        command = [compiler, *_FLAGS, *free, *_machine(package), *include, *how, str(source)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        assert result.returncode == 0 and result.stderr == "", result.stderr
