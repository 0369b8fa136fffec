"""A folder to drop into an STM32CubeIDE project: Inc, Src, and a piece of linker script for the model's memory."""

from __future__ import annotations

from colibri.boards.profile import BoardKind
from colibri.export.form import Files, Form, Label
from colibri.export.layout import check_header, library, licences, page, weights_as_c
from colibri.export.model import Model


def _files(model: Model, label: Label) -> Files:
    return {
        **library(model, include="Inc", src="Src"),
        **weights_as_c(model, "Src"),
        **licences(model),
        **check_header(model, "Inc"),
        f"{model.name}.ld": page("stm32cubeide/model.ld.j2", model, label),
        "README.md": page("stm32cubeide/README.md.j2", model, label),
    }


FORM = Form("stm32cubeide", "folder to drop into an STM32CubeIDE project", (BoardKind.BARE,), _files)
