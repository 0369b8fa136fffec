"""A CMake package: `find_package(PREFIX_model CONFIG)` once installed, `add_subdirectory` without."""

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
        "CMakeLists.txt": page("cmake/CMakeLists.txt.j2", model, label),
        f"cmake/{model.name}Config.cmake.in": page("cmake/Config.cmake.in.j2", model, label),
        "example/CMakeLists.txt": page("cmake/example.txt.j2", model, label),
        "example/main.c": page("shared/main.c.j2", model, label),
        "README.md": page("cmake/README.md.j2", model, label),
    }


FORM = Form(
    "cmake",
    "CMake package: find_package(… CONFIG) or add_subdirectory",
    (BoardKind.BARE, BoardKind.LINUX, BoardKind.WINDOWS),
    _files,
)
