"""`colibri doctor`: which compilers and emulators are here, and what installs the others."""

from __future__ import annotations

from pathlib import Path

import click

from colibri.cli.options import toolchain_options, with_toolchain
from colibri.cli.output import make_console


@click.command("doctor", short_help="Which tools are here, and what to install.")
@click.option("--board", metavar="NAME", help="Only this board, a name or a .toml file: all its tools must be here.")
@toolchain_options
@click.option(
    "--verbose", "-v", is_flag=True, help="A line for each tool; zig links too, which takes minutes at first."
)
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def command(
    board: str | None, toolchain: str, sysroot: Path | None, cflag: tuple[str, ...], verbose: bool, as_json: bool
) -> None:
    """Try the compilers and emulators of the boards, by letting them compile, link and run a line.

    Exits with 4 when a tool of the named board is missing; without --board, when no board can be built for. With 5 when
    the compiler rejects the flags of a board of your own, or a board's file says something of its processor that its
    compiler flags do not.

    Example: colibri doctor --board stm32f405
    """
    from colibri.boards.load import board_names, load_board
    from colibri.toolchain.find import refuse_flags, try_toolchain
    from colibri.toolchain.readiness import diagnose

    names = [board] if board else board_names()
    boards = [with_toolchain(load_board(name), sysroot, cflag) for name in names]
    diagnosis = diagnose(boards, toolchain, thorough=verbose)
    if as_json:
        click.echo(diagnosis.to_json(), nl=False)
    else:
        from colibri.toolchain.table import print_diagnosis

        print_diagnosis(diagnosis, make_console(), details=verbose or board is not None)
    if board is not None:
        refuse_flags(boards[0], try_toolchain(boards[0], toolchain)[-1])
    diagnosis.require(all_of_it=board is not None)
