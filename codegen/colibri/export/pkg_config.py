"""A library with a Makefile and a `.pc` file, for make, Meson, autotools and whatever else asks pkg-config."""

from __future__ import annotations

from colibri.boards.profile import BoardKind
from colibri.export.form import Files, Form, Label
from colibri.export.layout import check_header, library, licences, page, weights_as_assembler
from colibri.export.model import Model


def _files(model: Model, label: Label) -> Files:
    return {
        **library(model),
        **weights_as_assembler(model),
        **licences(model),
        **check_header(model, "example"),
        "Makefile": page("pkg-config/Makefile.j2", model, label),
        f"{model.name}.pc.in": page("pkg-config/model.pc.in.j2", model, label),
        "example/main.c": page("shared/main.c.j2", model, label),
        "README.md": page("pkg-config/README.md.j2", model, label),
    }


FORM = Form("pkg-config", "library with a Makefile and a .pc file", (BoardKind.BARE, BoardKind.LINUX), _files)
