"""An Arduino library: everything below `src/`, which is all that its builds look at, and the weights as C."""

from __future__ import annotations

from colibri.boards.profile import BoardKind
from colibri.export.form import Files, Form, Label
from colibri.export.layout import check_header, library, licences, page, weights_as_c
from colibri.export.model import Model


def _files(model: Model, label: Label) -> Files:
    return {
        **library(model, include="src", src="src"),
        **weights_as_c(model),
        **licences(model),
        **check_header(model, "examples/Check"),
        "library.properties": page("arduino/library.properties.j2", model, label),
        "examples/Check/Check.ino": page("arduino/Check.ino.j2", model, label),
        "README.md": page("arduino/README.md.j2", model, label),
    }


FORM = Form("arduino", "Arduino library", (BoardKind.BARE,), _files)
