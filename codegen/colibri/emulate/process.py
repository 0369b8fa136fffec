"""Start a program that does not outlive the command, whatever ends that."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import IO

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

# The guest must not see the user's environment: counts depend on it. These are QEMU's and Wine's own.
_ENVIRONMENT = ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH", "WINEPREFIX")


@contextlib.contextmanager
def started(
    command: list[str],
    folder: Path,
    stdin: IO[bytes],
    stdout: IO[bytes] | int,
    stderr: IO[bytes],
    environment: Mapping[str, str] | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """The running program, alone in its group, which does not outlive the block.

    Args:
        folder: where it runs.
        environment: variables besides those of the user's that it may see.
    """
    with _signals_held() as mask:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**{name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}, **(environment or {})},
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
            preexec_fn=partial(signal.pthread_sigmask, signal.SIG_SETMASK, mask),
        )
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


@contextlib.contextmanager
def _signals_held() -> Iterator[set[signal.Signals]]:
    """Hold back what would end the command, until what it starts is in good hands: an orphan would run for ever.

    Yields the mask from before, which the caller restores when the block ended well.
    """
    mask = {signal.Signals(one) for one in signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)}
    try:
        yield mask
    except BaseException:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        raise
