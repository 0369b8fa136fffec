"""The JSON schema of `colibri bench --json`, which is also that of the program in the package."""

from __future__ import annotations

from colibri.bench.model import SCHEMA, Bench
from colibri.json_schema import schema_document

FILE_NAME = "bench.schema.json"


def schema_json() -> str:
    """The published form: docs/bench.schema.json."""
    description = (
        "What build/bench.elf --json prints, and `colibri bench --json` for one package; "
        "for several, it prints a list of them. Times are nanoseconds."
    )
    return schema_document("colibri bench", description, {Bench: SCHEMA})
