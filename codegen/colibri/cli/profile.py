"""`colibri profile`: where the instructions go."""

from __future__ import annotations

from pathlib import Path

import click

from colibri.cli.options import FILE, SECONDS, Quantity
from colibri.cli.output import make_console


@click.command("profile", short_help="Instructions per step, layer and function; loads, stores; what varies.")
@click.argument("package", type=FILE)
@click.option("--emulator", metavar="NAME", help="Which of the board's emulators.  [default: the first in QEMU]")
@click.option(
    "--data",
    type=FILE,
    metavar="FILE",
    help="Tokens (.npy) or samples (.csv, .npy, .npz).  [default: pseudo-random]",
)
@click.option(
    "--most",
    type=click.IntRange(1, 4096),
    default=1024,
    show_default=True,
    help="Tokens or calls of the file to run.",
)
@click.option("--clock-mhz", type=Quantity(0.001, 1_000_000.0), help="Clock for the estimate.  [default: the board's]")
@click.option(
    "--require-constant", is_flag=True, help="Exit with 1 when control flow depends on more than the experts' choice."
)
@click.option("--full", is_flag=True, help="Show all functions, and every step of each layer.")
@click.option("--timeout", type=SECONDS, default=600.0, show_default=True, help="Seconds for each run.")
@click.option("--json", "as_json", is_flag=True, help="Print the profile as JSON.")
def command(
    package: Path,
    emulator: str | None,
    data: Path | None,
    most: int,
    clock_mhz: float | None,
    require_constant: bool,
    full: bool,
    timeout: float,
    as_json: bool,
) -> None:
    """Count the instructions of PACKAGE in an emulator: by step, layer and function, with loads and stores by memory
    region, how much they vary over a data set, and whether control flow depends on the data.

    Instructions are exact; time is an estimate from documents, with its range, and only where documents give one.

    Example: colibri profile build/shakespeare-moe-nucleo-h743zi --full
    """
    import msgspec

    from colibri.errors import CheckFailed
    from colibri.package import load_package
    from colibri.profile.inputs import built_in, read_inputs
    from colibri.profile.model import Verdict
    from colibri.profile.profile import default_emulator, make_profile
    from colibri.testing import chosen_emulators

    facts = load_package(package)
    chosen = chosen_emulators(facts, (emulator,))[0] if emulator else default_emulator(facts.board)
    inputs = built_in(facts) if data is None else read_inputs(data, facts, most)
    profile = make_profile(package, facts, chosen, inputs, clock_mhz=clock_mhz, timeout=timeout)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(profile), indent=1).decode())
    else:
        from colibri.profile.table import print_profile

        print_profile(profile, make_console(), full=full)
    if require_constant and profile.control_flow.verdict not in (Verdict.CONSTANT, Verdict.CHOICE):
        names = ", ".join(one.name for one in profile.control_flow.varying[:3])
        raise CheckFailed(f"control flow depends on the data in {names}", where=str(package))
