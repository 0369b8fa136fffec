"""An ESP-IDF component with its manifest for the component manager, and an example project."""

from __future__ import annotations

import json

from colibri.boards.profile import BoardKind
from colibri.export.form import Files, Form, Label
from colibri.export.layout import check_header, library, licences, page, weights_as_assembler
from colibri.export.model import Model


def _files(model: Model, label: Label) -> Files:
    extra = {"quoted": json.dumps}
    return {
        **library(model),
        **weights_as_assembler(model),
        **licences(model),
        **check_header(model, "examples/check/main"),
        "CMakeLists.txt": page("esp-idf/CMakeLists.txt.j2", model, label, extra),
        "Kconfig": page("esp-idf/Kconfig.j2", model, label, extra),
        "idf_component.yml": page("esp-idf/idf_component.yml.j2", model, label, extra),
        "examples/check/CMakeLists.txt": page("esp-idf/project.cmake.j2", model, label, extra),
        "examples/check/main/CMakeLists.txt": page("esp-idf/main.cmake.j2", model, label, extra),
        "examples/check/main/idf_component.yml": page("esp-idf/main.yml.j2", model, label, extra),
        "examples/check/main/main.c": page("esp-idf/main.c.j2", model, label, extra),
        "README.md": page("esp-idf/README.md.j2", model, label, extra),
    }


FORM = Form("esp-idf", "ESP-IDF component with an example project", (BoardKind.BARE,), _files)
