"""The JSON schema of `colibri report --json` and of `--diff --json`, from the classes that are written."""

from __future__ import annotations

import inspect
import json
from typing import Any

import msgspec

from colibri.footprint.diff import SCHEMA as DIFF_SCHEMA
from colibri.footprint.diff import Diff
from colibri.footprint.report import SCHEMA as REPORT_SCHEMA
from colibri.footprint.report import Report


def schema_json() -> str:
    """A document with one definition for each class; the same text for the same classes."""
    roots, definitions = msgspec.json.schema_components((Report, Diff), ref_template="#/$defs/{name}")
    for name, version in (("Report", REPORT_SCHEMA), ("Diff", DIFF_SCHEMA)):
        definitions[name]["properties"]["schema"] = {"const": version}
    document: dict[str, Any] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "colibri report",
        "description": "What `colibri report --json` prints, and with --diff. All sizes are bytes.",
        "oneOf": list(roots),
        "$defs": {name: _readable(one) for name, one in sorted(definitions.items())},
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _readable(definition: dict[str, Any]) -> dict[str, Any]:
    """Without the indentation that a docstring has in its source."""
    if "description" in definition:
        return {**definition, "description": inspect.cleandoc(definition["description"])}
    return definition
