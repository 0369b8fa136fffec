"""`colibri boards`: what can be built for, and files of one's own."""

from __future__ import annotations

from pathlib import Path

import click

from colibri.cli.options import FILE
from colibri.cli.output import make_console


@click.group("boards", invoke_without_command=True, short_help="The boards that can be built for; make your own.")
@click.option("--json", "as_json", is_flag=True, help="Print the complete board profiles as JSON.")
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:
    """List the boards: core, memory, and what a run in an emulator proves about each.

    "map" is the board's memory and core, "core" its core, "isa" only its instructions; "machine" is this computer.

    A board of your own is a TOML file: give its path, ending with .toml, to --board.

    Example: colibri boards
    """
    if context.invoked_subcommand is not None:
        return
    from colibri.boards.load import board_names, load_board

    boards = [load_board(name) for name in board_names()]
    if as_json:
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode(boards), indent=1))
    else:
        from colibri.boards.table import board_table

        console = make_console()
        console.print(board_table(boards, console.width))


@command.command("new", short_help="Write the file of a board of your own.")
@click.argument("name")
@click.option("--from", "parent", required=True, metavar="BOARD", help="The board that is most like it.")
@click.option("-o", "--output", type=FILE, metavar="FILE", help="FOLDER/NAME.toml.  [default: NAME.toml here]")
def new(name: str, parent: str, output: Path | None) -> None:
    """Write NAME.toml, which inherits from BOARD and has the numbers to change filled in.

    Beside it comes board.schema.json, with which editors complete and explain the keys.

    Example: colibri boards new my-board --from stm32f405
    """
    from colibri.boards.new import new_board
    from colibri.errors import printable

    path = printable(str(new_board(name, parent, output)))
    click.echo(f"{path}: as {printable(parent)} until you change it; then `colibri boards check {path}`")


@command.command("show", short_help="Print a board, with all that it inherits.")
@click.argument("board")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def show(board: str, as_json: bool) -> None:
    """Print BOARD, a name or a .toml file, as one whole board file.

    Example: colibri boards show nucleo-h743zi
    """
    from colibri.boards.load import load_board
    from colibri.boards.toml_text import board_toml

    profile = load_board(board)
    if as_json:
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode(profile), indent=1))
    else:
        click.echo(board_toml(profile), nl=False)


@command.command("check", short_help="Say everything that is wrong with a board file.")
@click.argument("board")
@click.option("--json", "as_json", is_flag=True, help="Print what was found as JSON.")
def check(board: str, as_json: bool) -> None:
    """Check BOARD, a .toml file or a name, and ask the QEMU of this machine for its machines and processors.

    Exits with 5 when something is wrong. Whether the compiler takes its flags, `colibri doctor` tries.

    Example: colibri boards check my-board.toml
    """
    from colibri.boards.load import board_path
    from colibri.errors import BadInput, printable
    from colibri.toolchain.examine import examine_file

    path = board_path(board)
    found = examine_file(path)
    where = printable(str(path))
    if as_json:
        click.echo(found.to_json(), nl=False)
    else:
        for note in found.notes:
            click.echo(f"note: {note}")
        if not found.faults:
            click.echo(f"{where}: fine")
        elif len(found.faults) > 1:
            for fault in found.faults:
                click.echo(f"colibri: {fault}", err=True)
    if len(found.faults) == 1:
        raise found.faults[0]
    if found.faults:
        raise BadInput(f"{len(found.faults)} faults", where=where)


@command.command("schema", short_help="Print the JSON schema of board files.")
def schema() -> None:
    """Print the JSON schema of board files, for editors that complete and explain keys.

    Example: colibri boards schema > board.schema.json
    """
    from colibri.boards.schema import schema_json

    click.echo(schema_json(), nl=False)
