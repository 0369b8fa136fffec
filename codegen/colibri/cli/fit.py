"""`colibri fit`: the recipe with the least loss that the board has room for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from colibri.cli.options import FILE, Quantity, default_output, reserve_options, toolchain_options, with_toolchain
from colibri.cli.output import make_console, refuse_unwritable, write_text
from colibri.errors import UsageError, printable

_MOST = 1 << 40


@click.command("fit", short_help="The recipe with the least loss that fits a board: searched, built and measured.")
@click.argument("checkpoint", type=FILE)
@click.option("--board", required=True, metavar="NAME", help="Board, see `colibri boards`, or a .toml file.")
@click.option("--data", type=FILE, required=True, metavar="FILE", help="Yours, as `colibri eval` takes it.")
@click.option(
    "--calibrate",
    "calibration",
    metavar="FILE|self|none",
    help="What the best are rounded for; self: the model's own text.  [default: rows of --data of their own]",
)
@click.option("-o", "--output", type=FILE, help="Folder of the package.")
@reserve_options
@click.option(
    "--context-at-least",
    "context",
    type=click.IntRange(1, 1 << 20),
    metavar="N",
    help="Positions that there must be; spare RAM makes them more.  [default: the checkpoint's]",
)
@click.option("--prefill", type=click.IntRange(1, 1024), help="Tokens at once.  [default: what spare RAM allows, to 8]")
@click.option("--batch", type=click.IntRange(1, 1024), help="Samples in a call (sensor models).  [default: 1]")
@click.option("--max-instructions", type=click.IntRange(1, _MOST), metavar="N", help="For a token, or for a call.")
@click.option(
    "--only",
    multiple=True,
    metavar="AXIS=VALUE,…",
    help="Search less: experts=w4,w3 or kv=f16 or dropped=0 or 2.experts=w4; repeatable.",
)
@click.option(
    "--window",
    type=click.IntRange(1, 1 << 20),
    help="Tokens behind an empty context.  [default: as --context-at-least]",
)
@click.option("--limit", type=click.IntRange(1, _MOST), metavar="N", help="Take the first N tokens or samples.")
@click.option(
    "--budget", type=click.IntRange(1, 1_000_000), default=96, show_default=True, help="Evaluations in the search."
)
@click.option("--time", "minutes", type=Quantity(0.0), metavar="MINUTES", help="After which no evaluation begins.")
@click.option("--seed", type=click.IntRange(0, 1 << 31), default=0, show_default=True, help="Of the split of the data.")
@click.option(
    "-j", "--jobs", type=click.IntRange(0, 1024), default=0, help="Evaluations at once.  [default: processors]"
)
@click.option(
    "--executor",
    default="processes",
    show_default=True,
    metavar="WHICH",
    help="Who evaluates: processes, threads, or module:callable that returns an Executor.",
)
@click.option("--journal", type=FILE, metavar="FILE", help="Where to go on after an interrupt.  [default: beside -o]")
@click.option(
    "--optimise",
    type=click.Choice(["speed", "size"]),
    default="speed",
    show_default=True,
    help="What code is for.",
)
@click.option("--choose", type=click.IntRange(1), metavar="I", help="Build this point of the front.  [default: 1]")
@click.option("--dry-run", is_flag=True, help="Search, and build nothing.")
@click.option("--html", type=FILE, metavar="FILE", help="Write the search as a page that needs no network.")
@toolchain_options
@click.option("--json", "as_json", is_flag=True, help="Print the search as JSON.")
def command(
    checkpoint: Path,
    board: str,
    output: Path | None,
    toolchain: str,
    sysroot: Path | None,
    cflag: tuple[str, ...],
    dry_run: bool,
    html: Path | None,
    as_json: bool,
    calibration: str | None,
    optimise: str,
    **asked: Any,
) -> None:
    """Find what a board has room for and what it costs: codings by class and layer, experts, key and value states.

    Candidates run as programs of this machine, on your data, beside the original in fp32. The one of the least loss
    that fits is built. Interrupted, the same command goes on where it was.

    Example: colibri fit shakespeare-moe --board stm32f405 --data val_tokens.npy --reserve-flash 64K --reserve-ram 32K
    --context-at-least 64
    """
    import os

    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as in `colibri prune`
    import msgspec

    from colibri.boards.load import load_board
    from colibri.cli.progress import progress_bar
    from colibri.emit.writer import replaceable_output
    from colibri.fit.fit import Request, search
    from colibri.fit.search import COUNTED
    from colibri.optimise import Optimise
    from colibri.toolchain.find import find_toolchain

    for option in ("choose", "max_instructions"):
        if dry_run and asked[option] is not None:
            where = f"--dry-run, --{option.replace('_', '-')}"
            raise UsageError("contradict each other", where=where, hint="nothing is built")
    if html is not None:
        refuse_unwritable(html)
    profile = with_toolchain(load_board(board), sysroot, cflag)
    installed = None if dry_run else find_toolchain(profile, toolchain)
    folder = output or default_output(checkpoint, board)
    if not dry_run:
        replaceable_output(folder)
    request = Request(
        checkpoint=checkpoint,
        board=profile,
        out=folder,
        calibration=calibration or "",
        optimise=Optimise(optimise),
        **asked,
    )
    with progress_bar(COUNTED) as progress:
        searched = search(request, progress)
        fit, built = searched.fit, None
        if installed is None:
            fit = msgspec.structs.replace(fit, final=searched.finals[0])
        else:
            from colibri.fit.build import build_chosen

            built = build_chosen(searched, request, installed, progress)
            fit = built.fit
    if html is not None:
        from colibri.fit.page import render_fit

        write_text(html, render_fit(fit))
    if as_json:
        click.echo(fit.to_json().decode(), nl=False)
    else:
        from colibri.fit.table import print_fit

        print_fit(fit, make_console())
        if html is not None:
            click.echo(f"page: {printable(str(html))}")
    if built is not None:
        from colibri.cli.report import print_notes

        print_notes(built.package)
