"""The JSON schema of board files, for editors and other programs, from the classes that the loader reads into.

It knows shapes, words and bounds of single values. What several values must be to each other is told by `colibri boards
check` alone.
"""

from __future__ import annotations

import json
import tomllib
from enum import Enum
from types import UnionType
from typing import Any, get_args, get_origin

import msgspec

from colibri.boards.check import ARCHITECTURES
from colibri.boards.cores import known_cores
from colibri.boards.keys import PARTS, Key, keys
from colibri.boards.load import INHERITS
from colibri.boards.profile import Clock
from colibri.paths import data_folder

FILE_NAME = "board.schema.json"

_HIGHEST = 1 << 48
_PATTERNS = {
    "levels.name": "^[a-z][a-z0-9_]*$",
    "levels.target": "^[a-z0-9][a-z0-9=,._-]*$",
    "memory.name": "^[a-z][a-z0-9_]*$",
    "emulators.name": "^[a-z0-9][a-z0-9_.-]*$",
    "emulators.trap": "^(bkpt|svc|ebreak)?$",
    "toolchain.prefix": "^[A-Za-z0-9_.+/-]*$",
}
_FLAG = "^-[A-Za-z0-9_.,:=+/-]+$"
_LEAST = {"memory.cost": 1}


def schema_json() -> str:
    """The schema; the same text for the same classes, boards aside."""
    parts = {header: _table(header, rows) for header, rows in keys()}
    top = parts.pop("")
    for header, table in parts.items():
        name = header.strip("[]")
        top["properties"][name] = {"type": "array", "items": table} if header.startswith("[[") else table
    # Of tables that are merged with inherited ones nothing need be there; an element of a list is not merged.
    whole = {
        "required": [*top.pop("required"), "cpu", "toolchain", "memory", "emulators"],
        "properties": {
            name: {"required": parts[f"[{name}]"].pop("required")} for name in ("cpu", "toolchain", "flash")
        },
    }
    document: dict[str, Any] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Colibri board file",
        "description": "A board that firmware can be built for: docs/boards.md of Colibri.",
        **top,
        "anyOf": [{"required": [INHERITS]}, whole],
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _table(header: str, rows: list[Key]) -> dict[str, Any]:
    struct = next(struct for name, struct, _ in PARTS if name == header)
    types = {field.name: field.type for field in msgspec.structs.fields(struct)} | {INHERITS: str}
    return {
        "type": "object",
        "properties": {row.name: _property(row, types[row.name]) for row in rows},
        "required": [row.name for row in rows if not row.default],
        "additionalProperties": False,
    }


def _property(key: Key, kind: Any) -> dict[str, Any]:
    found = {"description": f"{key.meaning[:1].upper()}{key.meaning[1:]}.", **_type(kind)}
    if key.default and key.default != "none":
        found["default"] = tomllib.loads(f"value = {key.default}")["value"]
    found["examples"] = [tomllib.loads(f"value = {key.example}")["value"]]
    if found["type"] == "integer":
        found |= {"minimum": _LEAST.get(key.path, 0), "maximum": _HIGHEST}
    if key.path in _PATTERNS:
        found["pattern"] = _PATTERNS[key.path]
    if key.path == "cpu.arch":
        found["enum"] = list(ARCHITECTURES)
    if key.path == "cpu.core":  # others may be named, with `unlisted`
        found["examples"] = sorted({name for arch in ARCHITECTURES for name in known_cores(arch)})
    if key.path == "toolchain.flags":
        found["items"]["pattern"] = _FLAG
    if key.name in ("port", "kernels"):
        runtime = data_folder("runtime_c")
        known = sorted(path.name for path in (runtime / f"{key.name.rstrip('s')}s").iterdir() if path.is_dir())
        (found["items"] if key.name == "kernels" else found)["enum"] = known
    return found


def _type(kind: Any) -> dict[str, Any]:
    if get_origin(kind) is tuple:
        return {"type": "array", "items": _type(get_args(kind)[0])}
    if get_origin(kind) is dict:
        return {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0, "maximum": _HIGHEST}}
    if get_origin(kind) is UnionType:
        kind = get_args(kind)[0]
        assert kind is Clock
        number = {"type": "integer", "minimum": 1, "maximum": (1 << 32) - 1}
        names = list(kind.__struct_fields__)
        properties = dict.fromkeys(names, number)
        return {"type": "object", "properties": properties, "required": names, "additionalProperties": False}
    if issubclass(kind, Enum):
        return {"type": "string", "enum": [str(member.value) for member in kind]}
    return {"type": {str: "string", int: "integer", bool: "boolean"}[kind]}
