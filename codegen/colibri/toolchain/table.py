"""What `colibri doctor` found, as a table for people."""

from __future__ import annotations

import re

from rich.console import Console
from rich.table import Table
from rich.text import Text

from colibri.errors import printable
from colibri.toolchain.readiness import CompilerState, Diagnosis, EmulatorState


def print_diagnosis(diagnosis: Diagnosis, console: Console) -> None:
    """A row for each compiler and emulator of each board, then the command that installs what is missing."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("board", "tool", "", "found"):
        table.add_column(column, no_wrap=column != "found", overflow="fold")
    for ready in diagnosis.boards:
        name = ready.board
        for compiler in ready.compilers:
            table.add_row(name, compiler.program, _mark(compiler), _found(compiler))
            name = ""
        for emulator in ready.emulators:
            table.add_row(name, emulator.name, _mark(emulator), _found(emulator))
    console.print(table)
    if diagnosis.install:
        console.print(Text.assemble("\nInstall what is missing: ", (diagnosis.install, "bold")), soft_wrap=True)


def _mark(state: CompilerState | EmulatorState) -> Text:
    if not state.problem:
        return Text("ok", "green")
    return Text("missing", "red") if state.needed else Text("optional", "dim")


def _found(state: CompilerState | EmulatorState) -> Text:
    """The version, and why it does not serve."""
    # what distributions add to a version says nothing here
    version = re.sub(r"\s*\([^)]*\)", "", state.version)
    if not state.problem:
        return Text(printable(version))
    program = version or state.program
    return Text(printable(f"{program}: {state.problem}" if program else state.problem))
