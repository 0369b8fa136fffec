"""`colibri generate`: the C package alone."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from colibri.cli.options import default_output, generation_options, parse_options, toolchain_options, with_toolchain


@click.command("generate", short_help="Write the C package, buildable without Colibri.")
@generation_options
@toolchain_options
@click.option("--json", "as_json", is_flag=True, help="Print package.json instead of text.")
def command(
    checkpoint: Path,
    board: str,
    output: Path | None,
    toolchain: str,
    sysroot: Path | None,
    cflag: tuple[str, ...],
    as_json: bool,
    **options: Any,
) -> None:
    """Write the C package of CHECKPOINT for a board; no compiler is needed, unless --toolchain names one.

    Example: colibri generate shakespeare-moe --board nucleo-h743zi --scheme w4a8 --kv f16
    """
    from colibri.boards.load import load_board
    from colibri.calibrate.data import COUNTED
    from colibri.cli.progress import progress_bar
    from colibri.cli.report import print_notes
    from colibri.errors import printable
    from colibri.generate import generate
    from colibri.package import FILE_NAME
    from colibri.toolchain.find import find_toolchain
    from colibri.toolchain.places import remember

    folder = output or default_output(checkpoint, board)
    profile = with_toolchain(load_board(board), sysroot, cflag)
    installed = find_toolchain(profile, toolchain) if toolchain else None
    compiler = installed.compiler if installed else None
    with progress_bar(COUNTED) as progress:
        package = generate(checkpoint, profile, parse_options(**options), folder, compiler, progress)
    if installed:
        remember(folder, installed)
    print_notes(package)
    if overfull := package.overfull():
        click.echo(f"colibri: warning: will not link: {', '.join(overfull)}; see `colibri explain`", err=True)
    if as_json:
        click.echo((folder / FILE_NAME).read_text(encoding="utf-8"), nl=False)
        return
    click.echo(f"{printable(str(folder))}: {package.model.parameters:,} parameters, {package.scheme}")
    click.echo(f"  model.bin {package.model_bin_bytes:,} bytes, memory block {package.memory.total:,} bytes")
    ninja = "ninja"
    if installed and installed.folder:
        ninja = f"PATH={shlex.quote(str(installed.folder))}:$PATH ninja"
    click.echo(f"  build it with `{ninja}` in that folder, or with CMake; its README.md says how to call it")
