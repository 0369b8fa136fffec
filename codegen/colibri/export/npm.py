"""A package for npm: the model as a WebAssembly module, and an ES module with types around it."""

from __future__ import annotations

import msgspec

from colibri.boards.profile import BoardKind
from colibri.export.form import Files, Form, Label
from colibri.export.layout import licences, page
from colibri.export.model import Model
from colibri.export.web_module import compile_module
from colibri.export.web_script import js_literal, model_script, text_script
from colibri.export.web_text import words_of


def npm_name(model: Model) -> str:
    """As npm wants it: small letters and hyphens.

    The prefix of C names has letters, digits and ``_`` only.
    """
    return f"{model.prefix}-model".lower().replace("_", "-").lstrip("-")


def _files(model: Model, label: Label) -> Files:
    module = compile_module(model)
    words = words_of(model.tokenizer, model.package.model.outputs) if model.tokens else None
    more: dict[str, object] = {
        "npm_name": npm_name(model),
        "prompt": js_literal(label.prompts[0] if label.prompts else "The"),
        "tokenizer": words is not None,
        "wasm_bytes": len(module.data),
        "memory": module.memory,
    }
    files = {
        **licences(model),
        "model.wasm": module.data,
        "model.js": model_script(model, module=True).encode(),
        "index.js": page("npm/index.js.j2", model, label, more),
        "index.d.ts": page("npm/index.d.ts.j2", model, label, more),
        "README.md": page("npm/README.md.j2", model, label, more),
    }
    if words is not None:
        files["text.js"] = text_script(model, words, module=True).encode()
    return {**files, "package.json": _package_json(model, label, sorted(files))}


def _package_json(model: Model, label: Label, files: list[str]) -> bytes:
    facts: dict[str, object] = {
        "name": npm_name(model),
        "version": label.version,
        "description": model.summary,
        "type": "module",
        "exports": {
            ".": {"types": "./index.d.ts", "default": "./index.js"},
            "./model.wasm": "./model.wasm",
        },
        "types": "./index.d.ts",
        "files": [name for name in files if name not in ("README.md", "LICENSE")],
        "sideEffects": False,
        "engines": {"node": ">=18"},
        "license": "SEE LICENSE IN LICENSE",
        "author": label.vendor,
    }
    if label.url:
        facts["homepage"] = label.url
    return msgspec.json.format(msgspec.json.encode(facts), indent=2) + b"\n"


FORM = Form("npm", "package for npm: WebAssembly and an ES module with types", (BoardKind.WASM,), _files)
