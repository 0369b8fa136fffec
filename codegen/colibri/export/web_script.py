"""Texts of `templates/export/web/`: the scripts that the package for npm and the page have in common."""

from __future__ import annotations

import msgspec

from colibri.emit.templates import render
from colibri.export.layout import values
from colibri.export.model import Model
from colibri.export.web_text import Words

_SAFE = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def model_script(model: Model, *, module: bool) -> str:
    """The class Model, and what it was made for.

    Args:
        module: whether others import it; else it is part of a page's script.
    """
    return _script("model.js", model, {"facts": js_literal(_facts(model))}, module)


def text_script(model: Model, words: Words, *, module: bool) -> str:
    """Text to tokens and back."""
    return _script("text.js", model, {"tokenizer": js_literal(words)}, module)


def js_literal(value: object) -> str:
    """A value as JSON that is also JavaScript, and ends no script of a page.

    >>> js_literal({"a": "</script>"})
    '{"a":"\\\\u003c/script\\\\u003e"}'
    """
    return msgspec.json.encode(value).decode().translate(_SAFE)


def _script(name: str, model: Model, more: dict[str, object], module: bool) -> str:
    return render(f"export/web/{name}.j2", {**values(model), "export": "export " if module else "", **more})


def _facts(model: Model) -> dict[str, object]:
    package, shape = model.package, model.package.model
    encoder = {"source": shape.source, "start": shape.start} if shape.source else {}
    own: dict[str, object] = (
        {"vocabulary": shape.outputs, "context": package.context, **encoder}
        if model.tokens
        else {"inputs": shape.inputs, "outputs": shape.outputs, "batch": package.batch, "labels": shape.labels}
    )
    return {"title": model.title, **own, "scheme": package.scheme, "parameters": shape.parameters}
