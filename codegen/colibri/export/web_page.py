"""A page for a browser, in one file: the model writes, token by token, and proves its bits."""

from __future__ import annotations

import base64
import hashlib
import struct

from colibri.boards.profile import BoardKind
from colibri.emit.templates import render
from colibri.errors import UsageError
from colibri.export.form import Files, Form, Label
from colibri.export.layout import licences, page, values
from colibri.export.model import Model
from colibri.export.web_module import compile_module
from colibri.export.web_script import js_literal, model_script, text_script
from colibri.export.web_text import words_of
from colibri.paths import data_folder

_COUNT = 100  # tokens, unless the reader wants others
_COMPARED = "PSF"  # requests that are answered by outputs
_NOT_IN_DIGEST = "VI"


def _files(model: Model, label: Label) -> Files:
    from markupsafe import Markup

    words = words_of(model.tokenizer, model.package.model.outputs) if model.tokens else None
    if words is None:
        what = "needs a language model with a tokenizer.json of byte-level BPE"
        raise UsageError(what, where="--to page", hint="try --to npm")
    module = compile_module(model)
    golden = _golden(model)
    sources = data_folder("templates") / "export/page"
    script = [
        f"const golden = {js_literal(golden)};\n",
        model_script(model, module=False),
        text_script(model, words, module=False),
        *((sources / name).read_text(encoding="utf-8") for name in ("sha256.js", "page.js")),
    ]
    most = model.package.context
    contents = {
        **values(model, label),
        "style": Markup((sources / "page.css").read_text(encoding="utf-8")),
        "script": Markup("\n".join(script)),
        "module": base64.b64encode(module.data).decode(),
        "wasm_bytes": len(module.data),
        "memory": module.memory,
        "outputs": golden["outputs"],
        "scheme": model.package.scheme,
        "prompts": label.prompts or ("The",),
        "most": most,
        "count": min(_COUNT, most),
    }
    return {
        **licences(model),
        "index.html": render("export/page/index.html.j2", contents).encode(),
        "README.md": page("page/README.md.j2", model, label),
    }


def _golden(model: Model) -> dict[str, object]:
    """The requests of `colibri test`, and the digest that it prints for every board."""
    digest = hashlib.sha256()
    for case in model.cases:
        for answer in case.answers if case.op not in _NOT_IN_DIGEST else ():
            digest.update(struct.pack("<i", answer.status) + answer.payload)
    return {
        "requests": [
            (case.op, struct.unpack(f"<{len(case.payload) // 4}I", case.payload))
            for case in model.cases
            if case.op != "V"
        ],
        "outputs": sum(len(one.payload) // 4 for case in model.cases if case.op in _COMPARED for one in case.answers),
        "digest": digest.hexdigest(),
    }


FORM = Form("page", "page for a browser in one file: the model writes in it", (BoardKind.WASM,), _files, encoders=False)
