"""Where a checkpoint says that it comes from."""

from __future__ import annotations

import re
from collections.abc import Mapping

from colibri.checkpoint.config import Config
from colibri.checkpoint.files import Folder
from colibri.checkpoint.licence import front_matter
from colibri.errors import shown

_MODEL = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[\w.-]{1,96}", re.ASCII)  # OWNER/NAME; a path of somebody's disk is none
_BASE = re.compile(r"^base_model:[ \t]*(?:\n?((?:[ \t]*-[ \t]*\S.*\n?)+)|(\S.*))$", re.MULTILINE)
_ITEM = re.compile(r"^[ \t]*-[ \t]*(\S.*?)[ \t]*$", re.MULTILINE)
_MOST = 4  # models that a merge is made of and that are named


def find_origin(folder: Folder, config: Config, metadata: Mapping[str, str]) -> str | None:
    """Return it on one printable line, or None.

    Looked for in config.json (``_name_or_path``, where it is OWNER/NAME of a hub), in the metadata of the weights
    (``origin``), and as ``base_model`` in the front matter of README.md. The statement is only passed on.
    """
    value = config.table.get("_name_or_path")
    named = value if isinstance(value, str) and _MODEL.fullmatch(value) else metadata.get("origin", "").strip()
    bases = [base for base in _bases(front_matter(folder)) if base != named]
    said = [*([named] if named else []), *([f"made from {', '.join(bases)}"] if bases else [])]
    return shown(" ".join("; ".join(said).split())) if said else None


def _bases(card: str) -> list[str]:
    match = _BASE.search(card)
    if match is None:
        return []
    found = _ITEM.findall(match[1]) if match[1] else [match[2].strip()]
    names = [name.strip("'\"[] ") for name in found]
    return [name for name in names if _MODEL.fullmatch(name)][:_MOST]
