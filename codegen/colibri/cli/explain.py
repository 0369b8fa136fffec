"""`colibri explain`: why a model does not fit, and the cheapest ways to make it fit."""

from __future__ import annotations

from pathlib import Path

import click

from colibri.cli.options import FILE, reserve_options
from colibri.cli.output import make_console

_MOST = 1 << 40


@click.command("explain", short_help="Why a model does not fit a board, and the cheapest ways to make it fit.")
@click.argument("checkpoint", type=FILE)
@click.option("--board", required=True, metavar="NAME", help="Board, see `colibri boards`, or a .toml file.")
@click.option("--recipe", default="w8a8", show_default=True, metavar="FILE|WORD", help="What you would like to build.")
@reserve_options
@click.option("--data", type=FILE, metavar="FILE", help="Measure what recipe and ways lose, as `colibri eval` does.")
@click.option(
    "--window", type=click.IntRange(1, 1 << 20), help="Tokens behind an empty context.  [default: the context]"
)
@click.option("--limit", type=click.IntRange(1, _MOST), metavar="N", help="Take the first N tokens or samples.")
@click.option(
    "-j", "--jobs", type=click.IntRange(0, 1024), default=0, help="Programs at a time.  [default: processors]"
)
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def command(
    checkpoint: Path,
    board: str,
    recipe: str,
    reserve_flash: int | None,
    reserve_ram: int | None,
    data: Path | None,
    window: int | None,
    limit: int | None,
    jobs: int,
    as_json: bool,
) -> None:
    """Say what a recipe takes on a board, what it lacks, and the three cheapest ways to make it fit: fewer bits, fewer
    experts, smaller key and value states, a shorter context, a narrower prefill. Nothing is compiled for the board:
    code is predicted. Exit code 3 where nothing fits.

    Example: colibri explain shakespeare-moe --board stm32f405 --reserve-flash 64K --data val_tokens.npy --window 64
    """
    import os

    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as in `colibri prune`
    import msgspec

    from colibri.boards.load import load_board
    from colibri.cli.progress import progress_bar
    from colibri.errors import UsageError
    from colibri.evaluate.evaluate import COUNTED, Cut
    from colibri.explain.explain import explain
    from colibri.explain.table import print_explanation
    from colibri.fit.sizes import reserved
    from colibri.recipe import parse_recipe

    if data is None and (window is not None or limit is not None):
        raise UsageError("there is nothing to cut", where="--window, --limit", hint="name --data")
    with progress_bar(COUNTED) as progress:
        found = explain(
            checkpoint,
            reserved(load_board(board), reserve_flash, reserve_ram),
            parse_recipe(recipe),
            data,
            Cut(window, None, limit),
            jobs=jobs,
            progress=progress,
        )
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(found), indent=1).decode())
    else:
        print_explanation(found, make_console())
