"""`colibri flash`: the product onto a connected board."""

from __future__ import annotations

from pathlib import Path

import click

from colibri.cli.options import FILE


@click.command("flash", short_help="Write the product to a connected board.")
@click.argument("package", type=FILE)
@click.option("--tool", metavar="NAME", help="Which one, e.g. probe-rs or openocd.  [default: the first that is here]")
@click.option("--dry-run", is_flag=True, help="Print the lines, run nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print tool and lines as JSON.")
def command(package: Path, tool: str | None, dry_run: bool, as_json: bool) -> None:
    """Write the product of PACKAGE to its board, with probe-rs, OpenOCD, pyOCD, st-flash, picotool, esptool, or by a
    copy to the drive that the board shows: what the board file names and this machine has.

    Each line is printed before it runs. With 1 it exits when a tool fails, for example without a board, with 4 when
    none is here. A dry run prints them all the same, and says so.

    Example: colibri flash build/shakespeare-moe-nucleo-h743zi --dry-run
    """
    import json

    from colibri.boards.profile import BoardKind
    from colibri.emit.package_text import region_needs
    from colibri.errors import DoesNotFit, printable
    from colibri.flash.write import choose, run
    from colibri.package import load_package
    from colibri.toolchain.build import build_product
    from colibri.toolchain.buildfiles import image_suffix

    facts = load_package(package)
    board = facts.board
    if board.kind is not BoardKind.BARE:
        line = f"scp build/product{image_suffix(board)} USER@HOST:"
        if as_json:
            click.echo(json.dumps({"tool": "scp", "lines": [line], "ran": False}, indent=1))
        else:
            click.echo(f"Only bare metal is flashed; this program is copied, in {printable(str(package))} by\n  {line}")
        return
    way = choose(board, tool)
    if way.missing and not dry_run:
        raise way.missing
    if way.missing:
        click.echo(f"colibri: warning: {way.missing}", err=True)
    for region, needed in region_needs(facts):
        click.echo(f"colibri: warning: {region} needs {needed}", err=True)
    if not dry_run and not build_product(package, board):
        raise DoesNotFit("the product does not fit", where=board.id, hint="see `colibri report`")
    if not as_json:
        for line in way.lines():
            click.echo(line)
    if not dry_run:
        run(package, way, lambda line: click.echo(f"  {line}", err=True))
    if as_json:
        click.echo(json.dumps({"tool": way.tool, "lines": way.lines(), "ran": not dry_run}, indent=1))
    elif not dry_run:
        click.echo(f"written with {way.tool}")
