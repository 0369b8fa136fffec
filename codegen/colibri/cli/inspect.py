"""`colibri inspect`: what is in a checkpoint, and where it would fit."""

from __future__ import annotations

from pathlib import Path

import click

from colibri.cli.options import FILE
from colibri.cli.output import make_console


@click.command("inspect", short_help="What is in a checkpoint, and where it would fit.")
@click.argument("checkpoint", type=FILE)
@click.option(
    "--context", type=click.IntRange(1, 1 << 20), help="Positions (token models).  [default: the checkpoint's]"
)
@click.option(
    "--source", type=click.IntRange(1, 1 << 20), help="Tokens that an encoder takes.  [default: as --context]"
)
@click.option(
    "--recipe",
    "recipes",
    multiple=True,
    metavar="FILE|WORD",
    help="Instead of the usual schemes: as `colibri matrix` takes it; repeatable.",
)
@click.option(
    "--board",
    "boards",
    multiple=True,
    metavar="NAME",
    help="Only this board, or a .toml file; repeatable.  [default: all of Colibri's]",
)
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
def command(
    checkpoint: Path,
    context: int | None,
    source: int | None,
    recipes: tuple[str, ...],
    boards: tuple[str, ...],
    as_json: bool,
) -> None:
    """Say what CHECKPOINT is and which boards could hold it, by scheme or recipe.

    No matrix is read but where two must be equal, so what is no finite number in one shows in `generate` first.

    Example: colibri inspect shakespeare-moe --recipe w4a8 --recipe w4a8:head=w8a8:context=64
    """
    from colibri.boards.load import load_board
    from colibri.inspection import inspect_checkpoint, print_inspection
    from colibri.recipe import parse_recipe

    profiles = [load_board(name) for name in dict.fromkeys(boards)]
    facts = inspect_checkpoint(checkpoint, context, source, [parse_recipe(recipe) for recipe in recipes], profiles)
    if as_json:
        click.echo(facts.to_json().decode(), nl=False)
    else:
        print_inspection(facts, make_console())
