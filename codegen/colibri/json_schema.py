"""JSON schemas of what commands print, from the classes that are written."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from typing import Any

import msgspec


def schema_document(title: str, description: str, roots: Mapping[type, int]) -> str:
    """A document with one definition for each class; the same text for the same classes.

    Args:
        roots: class of a whole document to the version in its field ``schema``.
    """
    found, definitions = msgspec.json.schema_components(tuple(roots), ref_template="#/$defs/{name}")
    for root, version in roots.items():
        definitions[root.__name__]["properties"]["schema"] = {"const": version}
    document: dict[str, Any] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        "description": description,
        "oneOf": list(found),
        "$defs": {name: _readable(one) for name, one in sorted(definitions.items())},
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _readable(definition: dict[str, Any]) -> dict[str, Any]:
    """Without the indentation that a docstring has in its source."""
    if "description" in definition:
        return {**definition, "description": inspect.cleandoc(definition["description"])}
    return definition
