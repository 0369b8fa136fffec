"""An evaluation on the terminal."""

from __future__ import annotations

import math
import re

from rich.console import Console
from rich.table import Table

from colibri.errors import printable
from colibri.evaluate.model import Estimate, Evaluation, Row, SampleScores, TokenScores

_WIDEST = 1e6  # figure that is written out
_MOST_OUTPUTS = 2  # that have columns of their own; --json has all
_LONG = 12  # characters of a recipe that stand in one line
_FEW = 30  # blocks, below which a normal interval is too narrow


def print_evaluation(found: Evaluation, console: Console) -> None:
    """What was run on, a row a model, and how the figures came about."""
    rows = [*([found.original] if found.original else []), *found.rows]
    columns = _token_columns(rows) if found.kind == "tokens" else _sample_columns(rows)
    if any(row.routing is not None for row in rows):
        columns.append(
            ("same\nexperts, %", ["" if row.routing is None else f"{100 * row.routing:.2f}" for row in rows])
        )
    columns = [(title, cells) for title, cells in columns if any(cells)]
    console.print(_data_line(found), soft_wrap=True)
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("model", overflow="fold")
    table.add_column("weights,\nbytes", justify="right", no_wrap=True)
    for title, _ in columns:
        table.add_column(title, justify="right", no_wrap=True)
    for index, row in enumerate(rows):
        name = _short(row.name)
        name = name.replace(":", ":\n") if len(name) > _LONG else name
        name = f"{name}\noriginal" if row is found.original else name
        table.add_row(
            "\n".join(map(printable, name.split("\n"))), f"{row.weight_bytes:,}", *(c[index] for _, c in columns)
        )
    console.print(table)
    for line in notes(found):
        console.print(line, soft_wrap=True)


def _short(recipe: str) -> str:
    """The recipe with the last part of the path of its calibration data.

    >>> _short("w4a8:calibrate=/tmp/data/text.npy:rounding=nearest"), _short("w8a8")
    ('w4a8:calibrate=text.npy:rounding=nearest', 'w8a8')
    """
    return re.sub(r"(?<=:calibrate=)[^:]*/", "", recipe)


def notes(found: Evaluation) -> list[str]:
    """How the intervals are meant, and what the bits were compared with."""
    unit = "positions" if found.kind == "tokens" else "samples"
    blocks = "windows" if found.kind == "tokens" else "blocks of neighbouring samples"
    lines = []
    if found.blocks > 1:
        paired = "; differences are paired" if found.original else ""
        few = ", too narrow for so few" if found.blocks < _FEW else ""
        lines.append(f"±: 95 %, normal, from the means of {found.blocks} {blocks}{few}{paired}")
    checks = dict.fromkeys((row.checked, row.against) for row in [*found.rows, *filter(None, [found.original])])
    bits = "; ".join(f"{count:,} {unit} against {against}" for count, against in checks)
    speed = f"{found.per_second:,.0f} {found.kind} a second"
    lines.append(f"ran as programs of this machine ({found.board}), {speed}; bits equal: {bits}")
    return lines


def _data_line(found: Evaluation) -> str:
    left = f"; {found.left_out:,} left out" if found.left_out else ""
    data = printable(found.data)
    if found.kind == "samples":
        return f"{data}: {found.count:,} samples{left}"
    if not found.window:
        return f"{data}: {found.count:,} tokens behind {found.blocks} sources{left}"
    cut = f"{found.blocks} windows of {found.window}, each with an empty context"
    if found.stride != found.window:
        cut += f", one every {found.stride}, which scores the tokens that none before has"
    return f"{data}: {found.count:,} tokens in {cut}{left}"


_Columns = list[tuple[str, list[str]]]


def _token_columns(rows: list[Row]) -> _Columns:
    scores = [row.scores for row in rows if isinstance(row.scores, TokenScores)]
    return [
        ("nats\na token", [_figure(one.nats, 4) for one in scores]),
        ("perplexity", [_perplexity(one) for one in scores]),
        ("lost", [_figure(one.lost, 4, "+") for one in scores]),
        ("KL,\nnats", [_figure(one.divergence, 4) for one in scores]),
        ("same\ntop 1, %", [_percent(one.agreement) for one in scores]),
    ]


def _sample_columns(rows: list[Row]) -> _Columns:
    scores = [row.scores for row in rows if isinstance(row.scores, SampleScores)]
    columns: _Columns = [
        ("mean\nerror", [_figure(one.mae, 4) for one in scores]),
        ("loss, %", [_percent(one.loss, "+") for one in scores]),
    ]
    outputs = len(scores[0].mae_of)
    for output in range(outputs if 1 < outputs <= _MOST_OUTPUTS else 0):
        columns.append((f"of\noutput {output}", [_figure(one.mae_of[output], 4) for one in scores]))
        columns.append(("loss, %", [_percent(one.loss_of[output], "+") if one.loss_of else "" for one in scores]))
    return [
        *columns,
        ("accuracy,\n%", [_percent(one.accuracy) for one in scores]),
        ("lost,\n%", [_percent(one.accuracy_lost, "+") for one in scores]),
        ("same\nclass, %", [_percent(one.agreement) for one in scores]),
        ("from the\noriginal", ["" if one.mae else _figure(one.difference, 4) for one in scores]),
    ]


def _figure(value: Estimate | None, digits: int, sign: str = "") -> str:
    if value is None:
        return ""
    if abs(value.mean) > _WIDEST:
        within = "" if value.within is None else f"\n± {value.within:.2g}"
        return f"{value.mean:{sign}.4g}{within}"
    within = "" if value.within is None else f"\n± {value.within:.{digits}f}"
    return f"{round(value.mean, digits) + 0.0:{sign}.{digits}f}{within}"  # + 0.0: no minus before zero


def _percent(value: Estimate | None, sign: str = "") -> str:
    if value is None:
        return ""
    return _figure(Estimate(100 * value.mean, None if value.within is None else 100 * value.within), 2, sign)


def _perplexity(scores: TokenScores) -> str:
    """Its interval is not symmetric; half of it is near enough for a table."""
    if scores.perplexity > _WIDEST:
        return f"{scores.perplexity:.4g}"
    within = "" if scores.nats.within is None else f"\n± {scores.perplexity * math.sinh(scores.nats.within):.3f}"
    return f"{scores.perplexity:.3f}{within}"
