"""A `no_std` Rust crate: a build script without dependencies compiles the C, a safe API stands around it."""

from __future__ import annotations

import json

from colibri.boards.profile import BoardKind
from colibri.export.form import Files, Form, Label
from colibri.export.layout import library, licences, page
from colibri.export.model import Model
from colibri.export.statuses import statuses

# How the names of Rust's targets begin for each architecture of a board file.
_TARGETS = {"arm": ("thumb", "arm")}


def _files(model: Model, label: Label) -> Files:
    board, facts, batch = model.package.board, model.package.model, model.package.batch
    values = {
        "inputs": facts.inputs,
        "outputs": facts.outputs,
        "batch": batch,
        "context": model.package.context,
        "start": facts.start,
        "statuses": statuses(model),
        "summary_string": json.dumps(model.summary),
        "sources": [f"c/src/{path}" for path in model.c_files],
        "targets": _TARGETS.get(board.cpu.arch, (board.cpu.arch,)),
        "hard_float": "-mfloat-abi=hard" in board.toolchain.flags,
        "memories": [
            (block.name, _camel(block.name), block.total, block.region) for block in model.package.memory.blocks
        ],
        "weight_names": [f"WEIGHTS{f'_{number}' if number else ''}" for number in range(len(model.weights))],
    }

    def text(name: str) -> bytes:
        return page(f"rust/{name}.j2", model, label, values)

    return {
        **library(model, "c/include", "c/src"),
        **licences(model),
        "Cargo.toml": text("Cargo.toml"),
        "rustfmt.toml": b"disable_all_formatting = true # what was changed is not replaced by the next export\n",
        "build.rs": text("build.rs"),
        "src/lib.rs": text("lib.rs"),
        **{f"src/{one.file}": one.data for one in model.weights},
        "tests/golden.rs": text("golden.rs"),
        "tests/golden_inputs.bin": model.vector.inputs,
        "tests/golden_outputs.bin": model.vector.outputs,
        **({"tests/golden_source.bin": model.vector.source} if model.vector.source else {}),
        "README.md": text("README.md"),
    }


def _camel(name: str) -> str:
    """
    >>> _camel("memory_axi")
    'MemoryAxi'
    """
    return "".join(word.capitalize() for word in name.split("_"))


FORM = Form(
    "rust",
    "Rust no_std crate: cargo compiles the C, no other crate is needed",
    (BoardKind.BARE, BoardKind.LINUX),
    _files,
)
