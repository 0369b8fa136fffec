"""`colibri check`: is the checkpoint understood?"""

from __future__ import annotations

from pathlib import Path

import click

from colibri.cli.options import FILE, Quantity


@click.command("check", short_help="Compare a checkpoint's fp32 graph with outputs of the original model.")
@click.argument("checkpoint", type=FILE)
@click.option("--golden", type=FILE, required=True, metavar="FILE", help="Outputs of the original, see the docs: .npz.")
@click.option(
    "--tolerance", type=Quantity(0.0), default=1e-4, show_default=True, help="Largest difference of an output."
)
@click.option(
    "--context", type=click.IntRange(1, 1 << 20), help="Positions (token models).  [default: the checkpoint's]"
)
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def command(checkpoint: Path, golden: Path, tolerance: float, context: int | None, as_json: bool) -> None:
    """Run CHECKPOINT as Colibri understands it, in fp32, and compare with what the original model answered.

    Exits with 1 when an output is further off than the tolerance, or a continuation is another.

    Example: colibri check my-model --golden golden.npz
    """
    import dataclasses
    import json

    from colibri.errors import CheckFailed
    from colibri.golden import compare_with_golden

    result = compare_with_golden(checkpoint, golden, context)
    worst, passed = result.worst, result.passed(tolerance)
    if as_json:
        click.echo(json.dumps({**dataclasses.asdict(result), "passed": passed}, indent=1, sort_keys=True))
    else:
        wide = max(len(name) for name in ("worst", *(case.name for case in result.cases), *result.skipped))
        for case in result.cases:
            line = (
                f"{case.name:<{wide}} {case.rows:>6,} rows, "
                f"worst {case.worst:.2g} at row {case.row}, output {case.output}"
            )
            if case.continued:
                same = f"token {case.diverges} is another" if case.diverges >= 0 else "the same"
                line += f"; {case.continued} tokens continued: {same}"
            click.echo(line)
        for name in result.skipped:
            click.echo(f"{name:<{wide}} longer than the context, skipped")
        click.echo(f"{'worst':<{wide}} {worst.worst:.2g} in {worst.name}")
    if not passed:
        what = f"worst difference {worst.worst:.2g} in {worst.name}, the tolerance is {tolerance:g}"
        if worst.worst <= tolerance:
            what = f"{next(case.name for case in result.cases if case.diverges >= 0)} is continued differently"
        raise CheckFailed(what, where=str(checkpoint))
