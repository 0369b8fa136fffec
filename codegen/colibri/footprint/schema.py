"""The JSON schema of `colibri report --json` and of `--diff --json`."""

from __future__ import annotations

from colibri.footprint.diff import SCHEMA as DIFF_SCHEMA
from colibri.footprint.diff import Diff
from colibri.footprint.report import SCHEMA as REPORT_SCHEMA
from colibri.footprint.report import Report
from colibri.json_schema import schema_document


def schema_json() -> str:
    """The published form: docs/report.schema.json."""
    description = "What `colibri report --json` prints, and with --diff. All sizes are bytes."
    return schema_document("colibri report", description, {Report: REPORT_SCHEMA, Diff: DIFF_SCHEMA})
