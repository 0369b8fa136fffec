"""A package as a WebAssembly module for JavaScript: compiled here, since its users have no C compiler."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass

from colibri.emit.templates import render
from colibri.errors import BuildFailed
from colibri.export.layout import library, values
from colibri.export.model import Model
from colibri.footprint.wasm import read_module
from colibri.paths import data_folder
from colibri.scratch import refuse_without_room, scratch_folder, write_scratch
from colibri.toolchain.find import find_toolchain

_FLAGS = (
    *("-std=c11", "-ffp-contract=off", "-fno-math-errno", "-ffunction-sections", "-fdata-sections"),
    *("-ffreestanding", "-nostdlib", "-Iinclude", "-Isrc", "-I."),
    *("-Wl,--no-entry", "-Wl,--stack-first", "-Wl,--strip-all"),
)
_LINES = 3


@dataclass(frozen=True)
class WebModule:
    """A module.

    Attributes:
        data: the file.
        memory: bytes of its memory, which it begins and ends with.
    """

    data: bytes
    memory: int


def compile_module(model: Model) -> WebModule:
    """Compile and link; the same package and compiler give the same bytes.

    Raises:
        ToolMissing: the board's compiler is not installed.
        BuildFailed: it fails.
    """
    board = model.package.board
    compiler = find_toolchain(board)
    files = {
        **library(model),
        **{one.file: one.data for one in model.weights},
        "weights.S": render("export/web/weights.S.j2", values(model)).encode(),
        "module.c": render("export/web/module.c.j2", values(model)).encode(),
        "memory.c": (data_folder("runtime_c") / "ports/memory.c").read_bytes(),
    }
    sources = [name for name in files if name.endswith((".c", ".S"))]
    level = model.package.optimise.level_of(compiler.compiler.family)
    stack = f"-Wl,-z,stack-size={board.stack}"
    with scratch_folder("module") as folder:
        for name, content in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            write_scratch(folder / name, content)
        command = [*compiler.command, level, *_FLAGS, stack, *sources, "-o", "model.wasm"]
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, "PATH": compiler.path, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode != 0:
            refuse_without_room(done.stdout)
            raise BuildFailed(" | ".join(done.stdout.strip().splitlines()[:_LINES]), where=compiler.name)
        path = folder / "model.wasm"
        return WebModule(path.read_bytes(), read_module(path).memory)
