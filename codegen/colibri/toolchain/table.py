"""What `colibri doctor` found, as a table for people."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from colibri.boards.profile import CompilerFamily
from colibri.errors import printable
from colibri.toolchain.readiness import CompilerState, Diagnosis, EmulatorState, Readiness


def print_diagnosis(diagnosis: Diagnosis, console: Console, *, details: bool) -> None:
    """What is there and what is not, then the command that installs what is missing.

    Args:
        details: a row for each compiler and emulator of each board; else a row for each board.
    """
    if details:
        console.print(_every_tool(diagnosis))
    else:
        console.print(_every_board(diagnosis))
        for line in _reasons(diagnosis):
            console.print(Text(printable(line)), soft_wrap=True)
    if diagnosis.install:
        console.print(Text.assemble("\nInstall what is missing: ", (diagnosis.install, "bold")), soft_wrap=True)


def _every_tool(diagnosis: Diagnosis) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("board", "tool", "", "found"):
        table.add_column(column, no_wrap=column != "found", overflow="fold")
    for ready in diagnosis.boards:
        name = ready.board
        for compiler in ready.compilers:
            alternative = compiler.problem and ready.serving(compiler.family)
            table.add_row(
                name,
                _program(compiler),
                Text("passed over", "dim") if alternative else _mark(compiler),
                _found(compiler),
            )
            name = ""
        for emulator in ready.emulators:
            table.add_row(name, emulator.name, _mark(emulator), _found(emulator))
    return table


def _every_board(diagnosis: Diagnosis) -> Table:
    """The compiler that serves in each family, and how many of the emulators."""
    families = [
        family
        for family in CompilerFamily
        if any(state.family is family for one in diagnosis.boards for state in one.compilers)
    ]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("board", *families, "emulators"):
        table.add_column(column, no_wrap=column != "emulators", overflow="fold")
    for ready in diagnosis.boards:
        table.add_row(ready.board, *(_serving(ready, family) for family in families), _emulators(ready))
    return table


def _serving(ready: Readiness, family: CompilerFamily) -> Text:
    state = ready.serving(family)
    if state is not None:
        number = re.search(r"(?<=\s)\d+(\.\d+)*", re.sub(r"\([^)]*\)", "", state.version))
        return Text(f"{number[0] if number else 'yes'}{'' if state.linked else ' compiles'}", "green")
    needed = any(one.needed for one in ready.compilers if one.family is family)
    return Text("missing", "red") if needed else Text("–", "dim")


def _emulators(ready: Readiness) -> Text:
    there = [state.name for state in ready.emulators if not state.problem]
    missing = [state.name for state in ready.emulators if state.problem and state.needed]
    if missing:
        return Text(printable(f"missing: {', '.join(missing)}"), "red")
    return Text(printable(", ".join(there) or "none"), "green" if there else "dim")


def _reasons(diagnosis: Diagnosis) -> Iterator[str]:
    """Why compilers do not serve, each reason once with the boards that it holds for."""
    boards: dict[tuple[str, str], list[str]] = {}
    for ready in diagnosis.boards:
        for state in ready.compilers:
            if state.problem and ready.serving(state.family) is None:
                boards.setdefault((state.program, state.problem), []).append(ready.board)
    for (program, problem), names in boards.items():
        others = f" and {len(names) - 2} more" if len(names) > 2 else ""
        yield f"{program}: {problem} ({', '.join(names[:2])}{others})"


def _program(state: CompilerState) -> str:
    """Without its folder, which is long; the JSON form has it."""
    return printable(state.program.rpartition("/")[2])


def _mark(state: CompilerState | EmulatorState) -> Text:
    if not state.problem:
        return Text("ok", "green")
    return Text("missing", "red") if state.needed else Text("optional", "dim")


def _found(state: CompilerState | EmulatorState) -> Text:
    """The version, and why it does not serve."""
    # what distributions add to a version says nothing here
    version = re.sub(r"\s*\([^)]*\)", "", state.version)
    if not state.problem:
        untried = isinstance(state, CompilerState) and not state.linked
        return Text(printable(f"{version}, compiles; linking not tried" if untried else version))
    program = version or state.program
    return Text(printable(f"{program}: {state.problem}" if program else state.problem))
