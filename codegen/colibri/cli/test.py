"""`colibri test`: bit for bit against the reference."""

from __future__ import annotations

from pathlib import Path

import click

from colibri.cli.options import FILE, SECONDS


@click.command("test", short_help="Run the golden inputs on the emulated board; compare every bit.")
@click.argument("package", type=FILE)
@click.option("--emulator", multiple=True, metavar="NAME", help="Only in this emulator of the board; repeatable.")
@click.option("--timeout", type=SECONDS, default=300.0, show_default=True, help="Seconds for each emulator.")
@click.option(
    "--check-memory",
    is_flag=True,
    help="Also refuse unaligned accesses, and those outside the board's memory or, under Linux, what the model gets.",
)
@click.option("--instructions", is_flag=True, help="Also count instructions per token or call (not time).")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def command(
    package: Path, emulator: tuple[str, ...], timeout: float, check_memory: bool, instructions: bool, as_json: bool
) -> None:
    """Test PACKAGE in each emulator of its board: every output float must have the bits of the numpy reference.

    Example: colibri test build/shakespeare-moe-nucleo-h743zi
    """
    import dataclasses
    import json

    from colibri.errors import CheckFailed, EmulatorFailed
    from colibri.testing import EmulatorResult, check_package

    def show(result: EmulatorResult) -> None:
        if as_json:
            return
        if result.failure is not None:
            click.echo(f"{result.emulator:<16} FAILED: {result.failure}")
            return
        verdict = "equal" if result.passed else "DIFFERENT"
        click.echo(
            f"{result.emulator:<16} {verdict}: {result.cases} cases, {result.outputs:,} outputs, "
            f"digest {result.digest[:16]} (proves the {result.proves})"
        )
        for line in result.mismatches[:8]:
            click.echo(f"  {line.case}: {line.what}")
        if result.memory is not None:
            click.echo(f"  memory: {result.memory}")
        if result.instructions is not None:
            count = result.instructions
            at = f" at {count.at}" if count.at else ""
            click.echo(f"  {count.per_call:,} instructions per {count.unit}{at}")

    results = check_package(
        package,
        emulators=emulator,
        timeout=timeout,
        check_memory=check_memory,
        instructions=instructions,
        on_result=show,
    )
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(result) for result in results], indent=1, sort_keys=True))
    different = [result.emulator for result in results if result.mismatches]
    failed = [result.emulator for result in results if result.failure is not None]
    differ = f"outputs differ from the reference on {', '.join(different)}"
    if failed:
        also = f"; {differ}" if different else ""
        raise EmulatorFailed(f"no result from {', '.join(failed)}{also}", where=str(package))
    if different:
        raise CheckFailed(differ, where=str(package))
