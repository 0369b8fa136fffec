"""`colibri prune`: which experts a model can do without."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from colibri.cli.options import FILE, Quantity
from colibri.cli.output import make_console

_MOST = 1 << 40


@click.command("prune", short_help="What each expert is worth on your data; drop or merge those that cost least.")
@click.argument("checkpoint", type=FILE)
@click.option(
    "--data",
    type=FILE,
    required=True,
    metavar="FILE",
    help="What to choose on: tokens (.npy), or samples and what should come out (.npz).",
)
@click.option("--dead", is_flag=True, help="Drop what nothing in the data chooses, or one token in 10,000.")
@click.option("--drop", type=click.IntRange(1, 1_000_000), metavar="N", help="Until N experts are gone.")
@click.option("--keep", type=click.IntRange(1, 1_000_000), metavar="N", help="Until N stay in each layer.")
@click.option("--bytes", "budget", type=click.IntRange(1, _MOST), metavar="N", help="Until model.bin has N bytes.")
@click.option("--max-mass", type=Quantity(0, 100), metavar="PERCENT", help="All below this share of a layer's weights.")
@click.option(
    "--max-error", type=Quantity(0, 1000), metavar="PERCENT", help="All that change a layer's output by no more."
)
@click.option("--max-loss", type=Quantity(-1e6, 1e6), metavar="LOSS", help="As many as cost no more together.")
@click.option(
    "--order",
    type=click.Choice(["loss", "error", "mass"]),
    default="loss",
    show_default=True,
    help="What goes first: by the model's loss a byte, the change of the layer's output, or its weights.",
)
@click.option("--merge", is_flag=True, help="Merge with the most similar expert where that costs less.")
@click.option("--recipe", default="w8a8", show_default=True, metavar="FILE|WORD", help="What the model is to become.")
@click.option(
    "--window", type=click.IntRange(1, 1 << 20), help="Tokens behind an empty context.  [default: the context]"
)
@click.option(
    "--stride", type=click.IntRange(1, 1 << 20), help="Tokens from one window to the next.  [default: the window]"
)
@click.option("--limit", type=click.IntRange(1, _MOST), metavar="N", help="Take the first N tokens or samples.")
@click.option(
    "--test",
    type=FILE,
    metavar="FILE",
    help="What to evaluate on, before and after.  [default: the data it was chosen on]",
)
@click.option("--no-eval", is_flag=True, help="Do not evaluate before and after, which takes a compiler.")
@click.option("-o", "--output", type=FILE, metavar="FILE.json", help="Write the recipe.")
@click.option(
    "-j", "--jobs", type=click.IntRange(0, 1024), default=0, help="Programs at a time.  [default: processors]"
)
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def command(
    checkpoint: Path,
    data: Path,
    dead: bool,
    drop: int | None,
    keep: int | None,
    budget: int | None,
    max_mass: float | None,
    max_error: float | None,
    max_loss: float | None,
    order: str,
    merge: bool,
    recipe: str,
    window: int | None,
    stride: int | None,
    limit: int | None,
    test: Path | None,
    no_eval: bool,
    output: Path | None,
    jobs: int,
    as_json: bool,
) -> None:
    """Say what each expert does on data, and let those go that cost least: how many, one of the options from --dead to
    --max-loss says. Without one nothing goes. What is as good as dead goes first.

    The recipe that -o writes is for build, generate and eval.

    Example: colibri prune shakespeare-moe --data val_tokens.npy --window 128 --max-loss 0.01 -o pruned.json
    """
    import os

    # Batches run side by side already; the threads of numpy's BLAS would wait for each other, five times as long.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    import msgspec

    from colibri.cli.output import refuse_unwritable, write_text
    from colibri.cli.progress import progress_bar
    from colibri.errors import UsageError, printable, shown
    from colibri.evaluate.evaluate import COUNTED, Cut
    from colibri.prune.choose import Aim, Order, Until
    from colibri.prune.prune import prune_checkpoint
    from colibri.prune.table import print_pruning
    from colibri.recipe import parse_recipe

    aims: dict[str, Aim] = {}
    how = {"order": Order(order), "merging": merge}
    if dead:
        aims["--dead"] = Aim(Until.DEAD, **how)  # type: ignore[arg-type]
    for option, until, amount in (
        ("--drop", Until.DROP, drop),
        ("--keep", Until.KEEP, keep),
        ("--bytes", Until.BYTES, budget),
        ("--max-mass", Until.MASS, None if max_mass is None else max_mass / 100),
        ("--max-error", Until.ERROR, None if max_error is None else max_error / 100),
        ("--max-loss", Until.LOSS, max_loss),
    ):
        if amount is not None:
            aims[option] = Aim(until, amount, **how)  # type: ignore[arg-type]
    if len(aims) > 1:
        raise UsageError("say in different ways how many go", where=", ".join(aims), hint="choose one of them")
    if not aims and (output or merge or test):
        given = "-o" if output else "--merge" if merge else "--test"
        raise UsageError("nothing goes without an option that says how many", where=given, hint="for example --dead")
    if test and no_eval:
        raise UsageError("contradict each other", where="--no-eval, --test")
    if output is not None:
        if output.suffix != ".json":
            raise UsageError("is no name of a recipe", where=shown(str(output), 300), hint="end it in .json")
        refuse_unwritable(output)
    aim = next(iter(aims.values()), Aim())
    with progress_bar(COUNTED) as progress:
        pruned = prune_checkpoint(
            checkpoint,
            data,
            aim,
            parse_recipe(recipe),
            Cut(window, stride, limit),
            test=test,
            evaluated=not no_eval,
            jobs=jobs,
            progress=progress,
        )
    if output is not None:
        if pruned.calibration:
            _write_beside(output, pruned.calibration)
        write_text(output, pruned.recipe.decode())
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(pruned.found), indent=1).decode())
        return
    print_pruning(pruned.found, make_console())
    if output is not None:
        click.echo(f"{shown(str(output), 300)} is the recipe; to go on:")
        words = shlex.join(["colibri", "build", str(checkpoint), "--board", "NAME", "--recipe", str(output)])
        click.echo(f"  {printable(words)}")
    elif pruned.found.steps:
        click.echo("-o FILE.json writes the recipe")


def _write_beside(recipe: Path, calibration: bytes) -> None:
    """Put the data of a recipe where it looks for them, unless others are there."""
    from colibri.calibrate.data import FILE_NAME
    from colibri.checkpoint.untrusted import is_regular_file, is_there
    from colibri.errors import UsageError, no_room, shown

    path, beside = recipe.with_name(FILE_NAME), recipe.with_name(f".{FILE_NAME}")
    try:
        if is_there(path):
            if not is_regular_file(path) or path.read_bytes() != calibration:
                what = "is calibration data of another recipe"
                raise UsageError(what, where=shown(str(path), 300), hint="choose another folder with -o")
            return
        beside.write_bytes(calibration)
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise no_room(str(path), error, "choose another -o") from None
