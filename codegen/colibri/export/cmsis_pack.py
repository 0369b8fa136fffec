"""A CMSIS-Pack: `VENDOR.NAME.VERSION.pack`, a zip archive around a package description, for Keil and CMSIS-Toolbox."""

from __future__ import annotations

import io
import zipfile
import zlib

from colibri.boards.profile import BoardKind
from colibri.export.form import Files, Form, Label
from colibri.export.layout import check_header, library, licences, page, weights_as_c
from colibri.export.model import Model

_SUMMARY_CHARS = 200  # the schema has 256 for a description
_COMPONENT_CHARS = 32


def _files(model: Model, label: Label) -> Files:
    extra = {
        "shown_summary": f"{model.title}: {model.summary}"[:_SUMMARY_CHARS],
        "component": _component(model.prefix),
    }
    description = f"{label.vendor}.{model.name}.pdsc"
    content = {
        **library(model),
        **weights_as_c(model),
        **licences(model),
        **check_header(model, "include"),
        "template/check.c": page("shared/main.c.j2", model, label),
        description: page("cmsis-pack/package.pdsc.j2", model, label, extra),
    }
    readme = page("cmsis-pack/README.md.j2", model, label, extra)
    return {
        f"{label.vendor}.{model.name}.{label.version}.pack": _zipped({**content, "README.md": readme}),
        description: content[description],
        "LICENSE": content["LICENSE"],
        "README.md": readme,
    }


def _component(prefix: str) -> str:
    """What the schema takes as a component's name: long prefixes end with a checksum, so that they stay apart.

    >>> _component("shakespeare_moe")
    'shakespeare_moe'
    >>> _component("a_prefix_that_has_exactly_40_characters_")
    'a_prefix_that_has_exact_33e68f3d'
    """
    if len(prefix) <= _COMPONENT_CHARS:
        return prefix
    return f"{prefix[: _COMPONENT_CHARS - 9]}_{zlib.crc32(prefix.encode()):08x}"


def _zipped(files: Files) -> bytes:
    """An archive without the time of day: the same files give the same bytes."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as pack:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            entry.create_system = 3
            entry.external_attr = 0o100644 << 16
            pack.writestr(entry, files[name])
    return archive.getvalue()


FORM = Form("cmsis-pack", "CMSIS-Pack for Keil and CMSIS-Toolbox", (BoardKind.BARE,), _files)
