"""`colibri report`: flash and RAM of a built package."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("report", short_help="Flash and RAM of a built package, region by region.")
@click.argument("package", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.option("--full", is_flag=True, help="Give each expert, function and table a row of its own.")
def command(package: Path, as_json: bool, full: bool) -> None:
    """Show the flash and RAM that a built PACKAGE takes, region by region.

    Exits with 3 when it is more than the board or its budget has; the report comes all the same.

    Example: colibri report build/sensor --full
    """
    from colibri.footprint.report import make_report

    report = make_report(package)
    if as_json:
        click.echo(report.to_json(), nl=False)
    else:
        from rich.console import Console

        from colibri.footprint.table import print_report

        print_report(report, Console(highlight=False), full=full)
    report.require_fit()
