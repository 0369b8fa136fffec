"""A bar for long work, where somebody looks: on standard error, and only when that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from colibri.progress import Advance, Progress, unseen

_WORTH_A_BAR = 64 << 20  # bytes; less is done before it could be read


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """Show bytes, rate and time left until the block ends; then the line is cleared."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield unseen
        return
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
    from rich.progress import Progress as Bar

    from colibri.cli.output import make_console

    columns = BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()
    console = make_console(sys.stderr)
    with Bar(TextColumn("{task.description}", markup=False), *columns, console=console, transient=True) as bar:

        def begin(what: str, total: int) -> Advance:
            if 0 < total < _WORTH_A_BAR:
                return unseen(what, total)
            for before in bar.task_ids:
                bar.remove_task(before)
            task = bar.add_task(what, total=total or None)
            return lambda done: bar.advance(task, done)

        yield begin
