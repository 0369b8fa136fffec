"""`colibri run`: the product in the emulator."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from colibri.cli.options import FILE, SECONDS
from colibri.errors import printable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from colibri.boards.profile import Emulator
    from colibri.package import ModelFacts, Package


@click.command("run", short_help="Run the product in the emulator, on words or numbers.")
@click.argument("package", type=FILE)
@click.argument("what", metavar="[PROMPT|CSV]", required=False)
@click.option(
    "-n", "--tokens", type=click.IntRange(1, 1 << 20), default=64, show_default=True, help="Tokens to generate."
)
@click.option("--tokenizer", type=FILE, help="Folder with tokenizer.json.  [default: in the package]")
@click.option("--emulator", metavar="NAME", help="Which of the board's emulators.  [default: the first]")
@click.option("--timeout", type=SECONDS, default=300.0, show_default=True, help="Seconds.")
@click.option("--json", "as_json", is_flag=True, help="Print tokens, text or predictions as JSON.")
def command(
    package: Path,
    what: str | None,
    tokens: int,
    tokenizer: Path | None,
    emulator: str | None,
    timeout: float,
    as_json: bool,
) -> None:
    """Run PACKAGE in an emulator of its board.

    A language model continues PROMPT (greedily; words become tokens, and tokens words, on the host; without a
    tokenizer the prompt is token ids, "17 4 256"). A sensor model predicts each line of the file CSV;
    a first line of column names must name the model's inputs, in any order.

    Example: colibri run build/shakespeare-moe-nucleo-h743zi "ROMEO:" -n 100
    """
    import json

    from colibri.errors import UsageError
    from colibri.package import load_package
    from colibri.testing import chosen_emulators

    facts = load_package(package)
    chosen = chosen_emulators(facts, (emulator,) if emulator else ())[0]
    if what is None:
        wanted = "a prompt" if facts.model.kind == "tokens" else "a CSV file"
        raise UsageError(f"this package needs {wanted}", where="colibri run")
    if facts.model.kind == "samples":
        from colibri.running import run_samples
        from colibri.samples import read_samples

        samples = read_samples(Path(what), facts.model.inputs, facts.model.labels.get("inputs", ()))
        predictions = run_samples(package, facts, chosen, samples, timeout)
        if as_json:
            click.echo(json.dumps([[float(value) for value in row] for row in predictions]))
            return
        for line in _csv(facts.model, predictions):
            click.echo(line)
        return
    _generate(package, facts, chosen, what, tokens, tokenizer, timeout, as_json)


def _csv(model: ModelFacts, predictions: NDArray[np.float32]) -> Iterator[str]:
    """A line of names, if there are any, and one for each sample; a classifier's begins with the class."""
    names = [_quoted(name) for name in model.labels.get("outputs", ())]
    if model.classifies:
        names = names or [str(number) for number in range(model.outputs)]
    if names:
        yield ",".join(["class", *names] if model.classifies else names)
    for row in predictions:
        answer = [names[int(row.argmax())]] if model.classifies else []
        yield ",".join([*answer, *(repr(float(str(value))) for value in row)])


def _quoted(name: str) -> str:
    """A name as a cell of a CSV."""
    text = printable(name).replace('"', '""')
    return f'"{text}"' if set(name) & set(',"') else text


def _generate(
    package: Path,
    facts: Package,
    chosen: Emulator,
    prompt: str,
    count: int,
    tokenizer: Path | None,
    timeout: float,
    as_json: bool,
) -> None:
    """Continue the prompt, and print each word as it comes."""
    import json

    from colibri.checkpoint.tokenizer import FILE_NAME, load_tokenizer
    from colibri.checkpoint.untrusted import is_there
    from colibri.errors import UsageError
    from colibri.running import run_tokens

    folder = tokenizer or package
    words = load_tokenizer(folder) if is_there(folder / FILE_NAME) or tokenizer is not None else None
    if words is None:
        parts = prompt.split()
        if not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
            raise UsageError(
                "the package has no tokenizer",
                where="PROMPT",
                hint='give --tokenizer FOLDER, or token ids such as "17 4 256"',
            )
        ids = [int(part) for part in parts]
    else:
        ids = words.encode(prompt)
    made: list[int] = []
    stream = words.stream() if words is not None else None

    def show(token: int) -> None:
        if stream is not None and not made and not as_json:
            click.echo(prompt, nl=False)
        made.append(token)
        if not as_json:
            click.echo(_visible(stream.push(token)) if stream is not None else f"{token} ", nl=False)

    run_tokens(package, facts, chosen, ids, count, timeout, show)
    if as_json:
        text = words.decode(made) if words is not None else None
        click.echo(json.dumps({"prompt": ids, "tokens": made, "text": text}))
    else:
        click.echo(_visible(stream.finish()) if stream is not None else "")


def _visible(text: str) -> str:
    """A tokenizer's words, lines and tabs kept; what a terminal would obey is written as an escape."""
    return "".join(c if c in "\n\t" else printable(c) for c in text)
