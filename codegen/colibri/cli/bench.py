"""`colibri bench`: how fast it runs on this machine."""

from __future__ import annotations

from pathlib import Path

import click

from colibri.cli.options import FILE
from colibri.cli.output import make_console
from colibri.threads import MOST_THREADS

_MOST = 1 << 30


@click.command("bench", short_help="Speed and latency of a Linux package on this machine.")
@click.argument("packages", type=FILE, nargs=-1, required=True, metavar="PACKAGE...")
@click.option("--seconds", type=click.IntRange(1, 86400), help="How long to measure each.  [default: 5, if no --runs]")
@click.option("--runs", type=click.IntRange(1, _MOST), help="At most so many prompts, or calls of forward.")
@click.option("--prompt", type=click.IntRange(1, _MOST), metavar="N", help="Tokens of a prompt.  [default: up to 128]")
@click.option("--tokens", type=click.IntRange(1, _MOST), metavar="N", help="Tokens to decode.  [default: up to 64]")
@click.option(
    "--threads",
    type=click.IntRange(1, MOST_THREADS),
    metavar="N",
    help="Threads that share the work.  [default: the package's]",
)
@click.option("--spin", is_flag=True, help="Also a loop without memory between the calls: the system's own jitter.")
@click.option("--json", "as_json", is_flag=True, help="Print the measurements as JSON; a list for several packages.")
def command(
    packages: tuple[Path, ...],
    seconds: int | None,
    runs: int | None,
    prompt: int | None,
    tokens: int | None,
    threads: int | None,
    spin: bool,
    as_json: bool,
) -> None:
    """Measure each PACKAGE on this machine: tokens or samples a second, percentiles of the time of a call, prefill and
    decode apart, and which part of the machine's read bandwidth decoding takes.

    Batch and prefill width are a package's own: name packages that differ in them to compare. A board that only an
    emulator runs is refused; there the package's build/bench.elf does the same by itself.

    The rate at which memory is read is measured with the same number of threads. A package that was generated for one
    knows of no others.

    Example: colibri bench build/shakespeare-moe-x86-64-v3 --prompt 100
    """
    import msgspec

    from colibri.bench.run import Asked, refuse, run_bench
    from colibri.package import load_package

    asked = Asked(seconds, runs, prompt, tokens, threads, spin)
    known = [(folder, load_package(folder)) for folder in packages]
    for folder, package in known:
        refuse(folder, package, asked)
    benches = [run_bench(folder, package, asked) for folder, package in known]
    if as_json:
        document = benches if len(benches) > 1 else benches[0]
        click.echo(msgspec.json.format(msgspec.json.encode(document), indent=1).decode())
    else:
        from colibri.bench.table import print_benches

        print_benches([(folder.name, one) for folder, one in zip(packages, benches, strict=True)], make_console())
