"""A Zephyr module: `zephyr/module.yml`, Kconfig, CMake, a submanifest for west, and a sample that twister runs."""

from __future__ import annotations

import json

from colibri.boards.profile import BoardKind
from colibri.export.form import Files, Form, Label
from colibri.export.layout import check_header, library, licences, page, weights_as_assembler
from colibri.export.model import Model

_ARCHITECTURES = {"arm": "arm", "riscv32": "riscv", "riscv64": "riscv"}
_KB = 1024


def _files(model: Model, label: Label) -> Files:
    package = model.package
    extra = {
        "arch": "" if model.portable else _ARCHITECTURES.get(package.board.cpu.arch, ""),
        "min_ram": (package.memory.total + 8 * _KB) // _KB + 1,
        "min_flash": (sum(len(one.data) for one in model.weights) + 48 * _KB) // _KB + 1,
        "quoted": json.dumps,
    }
    return {
        **library(model),
        **weights_as_assembler(model),
        **licences(model),
        **check_header(model, "samples/check/src"),
        "zephyr/module.yml": page("zephyr/module.yml.j2", model, label, extra),
        "zephyr/CMakeLists.txt": page("zephyr/CMakeLists.txt.j2", model, label, extra),
        "zephyr/Kconfig": page("zephyr/Kconfig.j2", model, label, extra),
        f"submanifests/{model.name}.yml": page("zephyr/submanifest.yml.j2", model, label, extra),
        "samples/check/CMakeLists.txt": page("zephyr/sample.cmake.j2", model, label, extra),
        "samples/check/prj.conf": page("zephyr/prj.conf.j2", model, label, extra),
        "samples/check/sample.yaml": page("zephyr/sample.yaml.j2", model, label, extra),
        "samples/check/src/main.c": page("shared/main.c.j2", model, label, extra),
        "README.md": page("zephyr/README.md.j2", model, label, extra),
    }


FORM = Form("zephyr", "Zephyr module with a sample", (BoardKind.BARE,), _files)
