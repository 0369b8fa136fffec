"""A bar for long work, where somebody looks: on standard error, and only when that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from colibri.progress import Advance, Progress, unseen

_WORTH_A_BAR = 64 << 20  # bytes; less is done before it could be read


@contextmanager
def progress_bar(counted: Collection[str] = ()) -> Iterator[Progress]:
    """Show amount, rate and time left until the block ends; then the line is cleared.

    Args:
        counted: work whose amount is a number of these things, not of bytes.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        yield unseen
        return
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        ProgressColumn,
        Task,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )
    from rich.progress import Progress as Bar
    from rich.text import Text

    from colibri.cli.output import make_console

    class Amount(ProgressColumn):
        """How much is done, and how fast."""

        def __init__(self) -> None:
            super().__init__()
            self._bytes = DownloadColumn(), TransferSpeedColumn()

        def render(self, task: Task) -> Text:
            if task.total is None and not task.completed:
                return Text()
            if task.description not in counted:
                return Text(" ").join(column.render(task) for column in self._bytes)
            rate = f" {task.speed:,.0f}/s" if task.speed else ""
            return Text(f"{task.completed:,.0f}/{task.total or 0:,.0f}{rate}", style="progress.download")

    columns = TextColumn("{task.description}", markup=False), BarColumn(), Amount(), TimeRemainingColumn()
    with Bar(*columns, console=make_console(sys.stderr), transient=True) as bar:

        def begin(what: str, total: int) -> Advance:
            if 0 < total < _WORTH_A_BAR and what not in counted:
                return unseen(what, total)
            for before in bar.task_ids:
                bar.remove_task(before)
            task = bar.add_task(what, total=total or None)
            return lambda done: bar.advance(task, done)

        yield begin
