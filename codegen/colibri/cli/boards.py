"""`colibri boards`: what can be built for."""

from __future__ import annotations

import click

from colibri.cli.output import make_console


@click.command("boards", short_help="The boards that firmware can be built for.")
@click.option("--json", "as_json", is_flag=True, help="Print the complete board profiles as JSON.")
def command(as_json: bool) -> None:
    """List the boards: memory, and which emulators prove what about them.

    A board of your own is a TOML file: give its path, ending with .toml, to --board.

    Example: colibri boards
    """
    from colibri.boards.load import board_names, load_board

    boards = [load_board(name) for name in board_names()]
    if as_json:
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode(boards), indent=1))
    else:
        from colibri.boards.table import board_table

        make_console().print(board_table(boards))
