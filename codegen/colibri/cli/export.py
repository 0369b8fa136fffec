"""`colibri export`: a package in the form that another build system expects."""

from __future__ import annotations

from pathlib import Path

import click

from colibri.cli.options import FILE

FORMS = (
    "cmake",
    "pkg-config",
    "zephyr",
    "esp-idf",
    "platformio",
    "arduino",
    "stm32cubeide",
    "cmsis-pack",
    "freertos",
    "python",
    "rust",
    "npm",
    "page",
)


@click.command("export", short_help="Write it as a library for CMake, Zephyr, Arduino and others.")
@click.argument("package", type=FILE)
@click.option("--to", "form", type=click.Choice(FORMS), required=True, help="What users of it add it to.")
@click.option("-o", "--output", type=FILE, help="Folder to write.  [default: PACKAGE-FORM]")
@click.option("--version", default="0.1.0", show_default=True, metavar="X.Y.Z", help="Version of the library.")
@click.option("--vendor", default="Colibri", show_default=True, metavar="NAME", help="Who publishes the library.")
@click.option("--url", default="", metavar="URL", help="Where its project is.")
@click.option("--prompt", multiple=True, metavar="TEXT", help="A beginning that the page offers; repeatable.")
@click.option("--json", "as_json", is_flag=True, help="Print what was written as JSON.")
def command(
    package: Path,
    form: str,
    output: Path | None,
    version: str,
    vendor: str,
    url: str,
    prompt: tuple[str, ...],
    as_json: bool,
) -> None:
    """Write PACKAGE as a library that users of another build system add as they add any other.

    Example: colibri export build/top1-e4-stm32f405 --to cmake -o load-forecaster
    """
    import json
    import os

    from colibri.errors import in_bytes, printable
    from colibri.export.export import export
    from colibri.export.form import Label

    folder = output or Path(f"{os.path.realpath(package)}-{form}")
    files = export(package, form, Label(version, vendor, url, prompt), folder)
    if as_json:
        click.echo(json.dumps({"folder": str(folder), "form": form, "files": sorted(files)}, indent=1))
        return
    total = sum(len(content) for content in files.values())
    click.echo(f"{printable(str(folder))}: {len(files)} files, {in_bytes(total)}; its README.md says how to use it")
