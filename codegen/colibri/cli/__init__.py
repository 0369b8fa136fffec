"""The command line. Here is what must work before anything is imported: an interrupt meanwhile ends like any other."""

from __future__ import annotations

import sys
from collections.abc import Sequence

COMMANDS = (
    "bench",
    "boards",
    "build",
    "check",
    "debug",
    "doctor",
    "eval",
    "explain",
    "export",
    "fit",
    "flash",
    "generate",
    "inspect",
    "matrix",
    "profile",
    "prune",
    "report",
    "run",
    "test",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    try:
        from colibri.cli.group import run

        return run(arguments)
    except KeyboardInterrupt:
        print("colibri: interrupted", file=sys.stderr)
        return 130


def run_and_exit() -> None:
    """Entry point of the `colibri` program."""
    sys.exit(main())
