"""The licence that a checkpoint states of itself."""

from __future__ import annotations

import re
from collections.abc import Mapping

from colibri.checkpoint.config import Config
from colibri.checkpoint.files import Folder, read_whole
from colibri.errors import BadInput, shown

_MAX_BYTES = 1 << 20
_FRONT_MATTER = re.compile(r"\A\ufeff?---\s*\n(.*?)\n---\s*$", re.DOTALL | re.MULTILINE)
_FIELD = re.compile(r"^(license_name|license):[ \t]*([^\s#].*?)\s*$", re.MULTILINE)
_FILES = ("LICENSE", "LICENSE.txt", "LICENSE.md", "LICENCE", "LICENCE.txt", "LICENCE.md", "COPYING")


def find_licence(folder: Folder, config: Config, metadata: Mapping[str, str]) -> str | None:
    """Return the licence on one printable line, or None.

    Looked for in the front matter of README.md (``license``, or ``license_name`` where that is ``other``), in
    config.json, in the metadata of the weights, then in the first line of a licence file. The statement is
    only passed on; a file that cannot be read states nothing.
    """
    value = config.table.get("license")
    candidates = (_from_card(folder), value if isinstance(value, str) else None, metadata.get("license"))
    stated = next((text for text in candidates if text and text.strip()), None) or _from_file(folder)
    return shown(" ".join(stated.split())) if stated else None


def front_matter(folder: Folder) -> str:
    """The lines of the model card that machines read; empty where there are none."""
    front = _FRONT_MATTER.search(_text(folder, "README.md"))
    return front.group(1) if front else ""


def _from_card(folder: Folder) -> str | None:
    fields = {key: text.strip("'\"") for key, text in _FIELD.findall(front_matter(folder))}
    licence = fields.get("license")
    return fields.get("license_name", licence) if licence == "other" else licence


def _from_file(folder: Folder) -> str | None:
    for name in _FILES:
        line = next((line for line in _text(folder, name).splitlines() if line.strip(" #\t")), None)
        if line:
            return line.strip(" #\t")
    return None


def _text(folder: Folder, name: str) -> str:
    try:
        return read_whole(folder.file(name), _MAX_BYTES).decode("utf-8", errors="replace")
    except BadInput:
        return ""
