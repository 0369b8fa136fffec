"""`colibri matrix`: many models on many boards."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from colibri.cli.options import FILE, SECONDS
from colibri.cli.output import make_console, refuse_unwritable, write_text

if TYPE_CHECKING:
    from colibri.matrix.model import Result


@click.command("matrix", short_help="Build, test and measure models on many boards at once.")
@click.argument("checkpoints", nargs=-1, required=True, type=FILE, metavar="CHECKPOINT...")
@click.option(
    "--board",
    "boards",
    multiple=True,
    required=True,
    metavar="NAME",
    help="Board, .toml file, pattern such as 'stm32*', or all; repeatable.",
)
@click.option(
    "--recipe",
    "recipes",
    multiple=True,
    default=("w8a8",),
    show_default=True,
    metavar="FILE|WORD",
    help="In a word, such as w4a8:head=w8a16:kv=f16:context=64, or recipe.json; see docs/recipes.md; repeatable.",
)
@click.option(
    "--toolchain",
    "toolchains",
    multiple=True,
    metavar="WHICH,…",
    help="gcc, clang, zig, or what `colibri build` takes; repeatable.  [default: the board's own]",
)
@click.option(
    "-o",
    "--output",
    type=FILE,
    default=Path("build/matrix"),
    show_default=True,
    help="Folder of all packages; what is there and unchanged is not done again.",
)
@click.option("-j", "--jobs", type=click.IntRange(0, 1024), default=0, help="Cells at a time.  [default: processors]")
@click.option("--timeout", type=SECONDS, default=300.0, show_default=True, help="Seconds for each emulator.")
@click.option("--junit", type=FILE, metavar="FILE", help="Also write JUnit XML.")
@click.option("--markdown", type=FILE, metavar="FILE", help="Also write tables for a pull request.")
@click.option(
    "--ci",
    type=click.Choice(["github", "gitlab"]),
    help="Print the file that does the same in your repository, and do nothing else.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def command(
    checkpoints: tuple[Path, ...],
    boards: tuple[str, ...],
    recipes: tuple[str, ...],
    toolchains: tuple[str, ...],
    output: Path,
    jobs: int,
    timeout: float,
    junit: Path | None,
    markdown: Path | None,
    ci: str | None,
    as_json: bool,
) -> None:
    """Put each CHECKPOINT in each recipe on each board: build it, run it in all its emulators, measure it.

    A cell that fails does not stop the others. The exit code is that of the worst cell: 70, 7, 6, 5, 2, 1, 4, 3, 0.

    Example: colibri matrix shakespeare-moe --board 'stm32*' --recipe w8a8 --recipe w4a8:kv=f16
    """
    from colibri.errors import ColibriError
    from colibri.matrix.run import plan, run_matrix

    tools = tuple(word for words in toolchains for word in words.split(","))
    cells = plan(checkpoints, boards, recipes, tools or ("",))
    if ci is not None:
        from colibri.matrix.ci import Service, ci_file

        words = [f"./{path}" if str(path).startswith("-") else str(path) for path in checkpoints]
        words += [word for board in boards for word in ("--board", board)]
        words += [word for recipe in recipes for word in ("--recipe", recipe)]
        words += [word for tool in tools for word in ("--toolchain", tool)]
        click.echo(ci_file(Service(ci), words, output, cells), nl=False)
        return

    for path in filter(None, (junit, markdown)):
        refuse_unwritable(path)

    def show(done: int, total: int, result: Result) -> None:
        if not as_json:
            said = f": {result.error}" if result.error else ""
            click.echo(f"[{done}/{total}] {_line(result)}{said}", err=True)

    matrix = run_matrix(cells, output, jobs=jobs, timeout=timeout, on_result=show)
    if as_json:
        click.echo(matrix.to_json(), nl=False)
    else:
        from colibri.matrix.table import print_matrix

        print_matrix(matrix, make_console())
    if junit:
        from colibri.matrix.junit import junit_xml

        write_text(junit, junit_xml(matrix))
    if markdown:
        from colibri.matrix.table import matrix_markdown

        write_text(markdown, matrix_markdown(matrix))
    if matrix.code:
        bad = [cell for cell in matrix.cells if cell.code]
        first = next(cell for cell in bad if cell.code == matrix.code)
        what = f"{len(bad)} of {len(matrix.cells)} cells are not fine"
        error = ColibriError(what, where="matrix", hint=f"the worst is {_line(first)}")
        error.exit_code = matrix.code
        raise error


def _line(result: Result) -> str:
    from colibri.errors import printable

    by = f", by {result.toolchain}" if result.toolchain else ""
    return printable(f"{result.checkpoint}, {result.recipe}, on {result.board}{by}")
