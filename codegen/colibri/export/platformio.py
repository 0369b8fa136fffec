"""A PlatformIO library with an example project."""

from __future__ import annotations

import json

from colibri.boards.profile import BoardKind
from colibri.export.form import Files, Form, Label
from colibri.export.layout import check_header, library, licences, page, weights_as_c
from colibri.export.model import Model
from colibri.optimise import Optimise


def _files(model: Model, label: Label) -> Files:
    return {
        **library(model),
        **weights_as_c(model),
        **licences(model),
        **check_header(model, "examples/check/src"),
        "library.json": _manifest(model, label),
        "examples/check/platformio.ini": page("platformio/platformio.ini.j2", model, label),
        "examples/check/src/main.c": page("shared/main.c.j2", model, label),
        "README.md": page("platformio/README.md.j2", model, label),
    }


def _manifest(model: Model, label: Label) -> bytes:
    small = [model.package.optimise.level] if model.package.optimise is Optimise.SIZE else []
    manifest: dict[str, object] = {
        "name": model.name,
        "version": label.version,
        "description": f"{model.title}: {model.summary}",
        "keywords": ["mixture of experts", "inference", "quantized"],
        "authors": [{"name": label.vendor}],
        "license": "Apache-2.0",
        "frameworks": "*",
        "platforms": "*",
        "headers": f"{model.name}.h",
        "examples": [{"name": "check", "base": "examples/check", "files": ["platformio.ini", "src/main.c"]}],
        # Nothing of -ffast-math, no fused multiply-add: the bits of every float are part of the model.
        "build": {"flags": [*small, "-fno-fast-math", "-ffp-contract=off", "-fno-math-errno"], "libArchive": True},
    }
    if label.url:
        manifest["homepage"] = label.url
    return json.dumps(manifest, indent=2).encode() + b"\n"


FORM = Form("platformio", "PlatformIO library", (BoardKind.BARE,), _files)
