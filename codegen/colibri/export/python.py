"""A Python package around the model as a shared library: `pip install` compiles it with the user's compiler."""

from __future__ import annotations

import json

from colibri.boards.profile import BoardKind
from colibri.export.form import Files, Form, Label
from colibri.export.layout import library, licences, page
from colibri.export.model import Model
from colibri.export.statuses import statuses


def _files(model: Model, label: Label) -> Files:
    facts = model.package.model
    values = {
        "inputs": facts.inputs,
        "outputs": facts.outputs,
        "batch": model.package.batch,
        "context": model.package.context,
        "start": facts.start,
        "statuses": statuses(model),
        "summary_string": json.dumps(model.summary),
        "sources": [f"src/{path}" for path in model.c_files],
    }

    def text(name: str) -> bytes:
        return page(f"python/{name}.j2", model, label, values)

    folder = model.name
    return {
        **library(model, "c/include", "c/src"),
        **licences(model),
        "pyproject.toml": text("pyproject.toml"),
        "build_library.py": text("build_library.py"),
        f"{folder}/__init__.py": text("init.py"),
        f"{folder}/__main__.py": text("main.py"),
        f"{folder}/py.typed": b"",
        **{f"{folder}/{one.file}": one.data for one in model.weights},
        f"{folder}/golden_inputs.bin": model.vector.inputs,
        f"{folder}/golden_outputs.bin": model.vector.outputs,
        **({f"{folder}/golden_source.bin": model.vector.source} if model.vector.source else {}),
        "README.md": text("README.md"),
    }


FORM = Form("python", "Python package around a shared library: pip install", (BoardKind.LINUX,), _files)
