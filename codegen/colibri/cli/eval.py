"""`colibri eval`: what a model is worth on data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from colibri.cli.options import FILE
from colibri.cli.output import make_console

_MOST = 1 << 40


@click.command("eval", short_help="Loss, agreement and errors on your data, beside the original in fp32.")
@click.argument("model", type=FILE, metavar="PACKAGE|CHECKPOINT")
@click.option(
    "--data",
    type=FILE,
    required=True,
    metavar="FILE",
    help="Tokens (.npy), or samples and what should come out (.npz with x and y).",
)
@click.option(
    "--recipe",
    "recipes",
    multiple=True,
    metavar="FILE|WORD",
    help="Of a checkpoint: as `colibri matrix` takes it; repeatable.  [default: w8a8]",
)
@click.option(
    "--original",
    type=FILE,
    metavar="CHECKPOINT",
    help="What to compare with, in fp32.  [default: the checkpoint itself; for a package nothing]",
)
@click.option("--alone", is_flag=True, help="Compare with nothing: only the model itself runs.")
@click.option(
    "--window", type=click.IntRange(1, 1 << 20), help="Tokens behind an empty context.  [default: the context]"
)
@click.option(
    "--stride",
    type=click.IntRange(1, 1 << 20),
    help="Tokens from one window to the next; each token counts once.  [default: the window]",
)
@click.option(
    "--limit", type=click.IntRange(1, _MOST), metavar="N", help="Score the first N tokens or samples, in whole windows."
)
@click.option(
    "-j", "--jobs", type=click.IntRange(0, 1024), default=0, help="Programs at a time.  [default: processors]"
)
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def command(
    model: Path,
    data: Path,
    recipes: tuple[str, ...],
    original: Path | None,
    alone: bool,
    window: int | None,
    stride: int | None,
    limit: int | None,
    jobs: int,
    as_json: bool,
) -> None:
    """Measure a model on data: perplexity, KL and top-1 agreement with the original in fp32 (tokens), mean absolute
    error or accuracy (samples), each with its 95 % interval.

    It runs as a program of this machine, with the bits that every board gives; a few are compared in each run.

    Example: colibri eval shakespeare-moe --data val_tokens.npy --window 128 --recipe w8a8 --recipe w4a8
    """
    import msgspec

    from colibri.checkpoint.untrusted import is_there
    from colibri.cli.progress import progress_bar
    from colibri.errors import UsageError
    from colibri.evaluate.evaluate import COUNTED, Cut, evaluate_checkpoint, evaluate_package
    from colibri.package import FILE_NAME
    from colibri.recipe import parse_recipe

    if alone and original is not None:
        raise UsageError("contradict each other", where="--alone, --original")
    is_package = is_there(model / FILE_NAME)
    if is_package and recipes:
        raise UsageError("a package has its recipe already", where="--recipe", hint="name the checkpoint instead")
    cut = Cut(window, stride, limit)
    with progress_bar(COUNTED) as progress:
        how: dict[str, Any] = {"original": original, "alone": alone, "jobs": jobs, "progress": progress}
        if is_package:
            found = evaluate_package(model, data, cut, **how)
        else:
            chosen = [parse_recipe(recipe) for recipe in recipes or ("w8a8",)]
            found = evaluate_checkpoint(model, data, chosen, cut, **how)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(found), indent=1).decode())
        return
    from colibri.evaluate.table import print_evaluation

    print_evaluation(found, make_console())
    if is_package and found.original is None and not alone:
        click.echo("compared with nothing: --original names the checkpoint")
