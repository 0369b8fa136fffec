"""A FreeRTOS task around the model, with everything static: stack, queues, and the model's memory."""

from __future__ import annotations

from colibri.boards.profile import BoardKind
from colibri.export.form import Files, Form, Label
from colibri.export.layout import check_header, library, licences, page, weights_as_assembler
from colibri.export.model import Model

_LEAST_WORDS = 1024


def _files(model: Model, label: Label) -> Files:
    extra = {"stack_words": max(model.package.board.stack // 4, _LEAST_WORDS)}
    return {
        **library(model),
        **weights_as_assembler(model),
        **licences(model),
        **check_header(model, "example"),
        "CMakeLists.txt": page("freertos/CMakeLists.txt.j2", model, label, extra),
        f"task/{model.prefix}_task.h": page("freertos/task.h.j2", model, label, extra),
        f"task/{model.prefix}_task.c": page("freertos/task.c.j2", model, label, extra),
        "example/main.c": page("freertos/main.c.j2", model, label, extra),
        "example/FreeRTOSConfig.h": page("freertos/FreeRTOSConfig.h.j2", model, label, extra),
        "README.md": page("freertos/README.md.j2", model, label, extra),
    }


FORM = Form("freertos", "FreeRTOS task, all of it allocated statically", (BoardKind.BARE,), _files, encoders=False)
