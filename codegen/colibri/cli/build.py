"""`colibri build`: package, ELF and footprint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from colibri.cli.options import default_output, generation_options, parse_options, toolchain_options, with_toolchain
from colibri.cli.output import make_console
from colibri.errors import printable


@click.command("build", short_help="Generate, compile, link, and print the footprint.")
@generation_options
@toolchain_options
@click.option(
    "--fit-stack/--no-fit-stack",
    default=True,
    show_default=True,
    help="Reserve for the stack what its bound needs, not what the board file says.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def command(
    checkpoint: Path,
    board: str,
    output: Path | None,
    toolchain: str,
    sysroot: Path | None,
    cflag: tuple[str, ...],
    fit_stack: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Turn CHECKPOINT into firmware for a board.

    Example: colibri build shakespeare-moe --board nucleo-h743zi --scheme w4a8 --kv f16
    """
    from colibri.boards.load import load_board
    from colibri.calibrate.data import COUNTED
    from colibri.cli.progress import progress_bar
    from colibri.cli.report import print_notes, print_warnings
    from colibri.footprint.budget import check
    from colibri.footprint.table import print_report
    from colibri.product import make_product
    from colibri.toolchain.find import find_toolchain

    profile = with_toolchain(load_board(board), sysroot, cflag)
    installed = find_toolchain(profile, toolchain)
    folder = output or default_output(checkpoint, board)
    chosen = parse_options(**options)
    with progress_bar(COUNTED) as progress:
        package, report = make_product(
            checkpoint, profile, chosen, folder, installed, fit_stack=fit_stack, progress=progress
        )
    if as_json:
        click.echo(report.to_json().decode(), nl=False)
    else:
        print_report(report, make_console())
        click.echo(f"package: {printable(str(folder))}")
    print_notes(package)
    print_warnings(check(report, (), ""))
    report.require_fit()
