"""`colibri debug`: the package's program under gdb."""

from __future__ import annotations

from pathlib import Path

import click

from colibri.cli.options import FILE


@click.command("debug", short_help="The program in QEMU under gdb; stops at ops, shows buffers by name.")
@click.argument("package", type=FILE)
@click.option(
    "--break", "stops", multiple=True, metavar="OP", help="Stop before this op, e.g. layer1.experts; repeatable."
)
@click.option("--list-ops", is_flag=True, help="Print the names of the ops and leave.")
@click.option("--emulator", metavar="NAME", help="Which of the board's emulators.  [default: the first]")
@click.option(
    "--image",
    type=click.Choice(["test", "product"]),
    default="test",
    show_default=True,
    help="The golden inputs one after the other, or the product, which then takes its own first input.",
)
@click.option("--gdb", "program", metavar="PROGRAM", help="Which gdb.  [default: one that knows the processor]")
@click.option("-ex", "commands", multiple=True, metavar="COMMAND", help="Command for gdb after the start; repeatable.")
@click.option("--batch", is_flag=True, help="Leave gdb after these commands.")
@click.option("--print-only", is_flag=True, help="Write the script into PACKAGE/build/debug, print both command lines.")
@click.option("--json", "as_json", is_flag=True, help="As --print-only or --list-ops, in JSON.")
def command(
    package: Path,
    stops: tuple[str, ...],
    list_ops: bool,
    emulator: str | None,
    image: str,
    program: str | None,
    commands: tuple[str, ...],
    batch: bool,
    print_only: bool,
    as_json: bool,
) -> None:
    """Run PACKAGE in an emulator of its board under gdb.

    The script that gdb gets knows the model: colibri-buffers lists its buffers, colibri-show NAME prints one in
    numbers, colibri-bits NAME bit for bit, and --break stops before an op of one layer. It is plain gdb, no Python.

    Example: colibri debug build/shakespeare-moe-nucleo-h743zi --break layer1.experts
    """
    import json

    from colibri.debug.ops import named_ops
    from colibri.debug.prepare import Wanted, prepare_lines, run_session
    from colibri.errors import CheckFailed, printable
    from colibri.package import load_package
    from colibri.testing import chosen_emulators
    from colibri.toolchain.buildfiles import Role

    facts = load_package(package)
    if list_ops:
        names = [(op.index, op.name, facts.ops[op.index].kernels) for op in named_ops(facts)]
        if as_json:
            listed = [{"index": index, "name": name, "kernels": kernels} for index, name, kernels in names]
            click.echo(json.dumps(listed, indent=1))
        else:
            wide = max((len(name) for _, name, _ in names), default=0)
            for index, name, kernels in names:
                click.echo(f"{index:>4}  {name:<{wide}}  {', '.join(dict.fromkeys(kernels))}")
        return
    chosen = chosen_emulators(facts, (emulator,) if emulator else ())[0]
    role: Role = "product" if image == "product" else "test"
    wanted = Wanted(role, stops, commands, program, batch)
    if print_only or as_json:
        both = prepare_lines(package, facts, chosen, wanted)
        if as_json:
            click.echo(json.dumps({"emulator": both.emulator, "gdb": both.gdb}, indent=1))
        else:
            click.echo("\n".join(line for line in (both.emulator, both.gdb) if line))
        return
    code, printed = run_session(package, facts, chosen, wanted)
    if role == "product":  # the test image speaks to a host, in frames
        for line in printed.splitlines():
            click.echo(printable(line))
    if code != 0:
        raise CheckFailed(f"gdb ended with {code}", where=str(package))
